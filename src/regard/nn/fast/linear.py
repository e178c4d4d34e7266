"""Linear layers for decoding: fused with norm, activation and residual on a GPU, prepacked on a CPU.

A decoding step multiplies few rows with each weight: on a GPU it is as slow as the number of its kernels, so norm,
matmul, activation and residual are one kernel. A norm's gain γ and shift β are folded into the weight beforehand, and
what is left, with μ and s the mean and the inverse standard deviation of x, comes after the matmul, so x is read once:

    norm(x) Wᵀ + b = s (x − μ) Vᵀ + c = s (x Vᵀ − μ V1) + c    with V = W diag(γ) and c = Wβ + b

On a CPU the weight is copied into the memory layout that is read fastest (benchmarks/matrix_layout.py):

    row-major       as torch keeps it
    column-major    for MKL, up to 1.6 times as fast for some numbers of rows
    packed          by oneDNN, on CPUs other than Intel's, for which MKL keeps its fastest kernels
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.files.machine import is_intel
from regard.nn.feedforward import Activation, activate
from regard.nn.norm import LayerNorm, RMSNorm

Rows = Float[Tensor, "rows width"]
Outputs = Float[Tensor, "rows outputs"]
Statistics = Float[Tensor, "two parts rows"]
"""Row statistics: sums of the elements of each row, and of their squares, over parts of `PART` elements."""

MAX_ROWS = 64
"""Beyond so many rows, a matmul is work enough for a kernel of its own."""
PART = 16


class FoldedLinear(NamedTuple):
    """A linear layer with the norm before it folded in: V, V1 (for a LayerNorm), c, and the rest of the norm."""

    weight: Tensor
    weight_sums: Tensor | None = None
    offset: Tensor | None = None
    norm: str = "none"
    epsilon: float = 0.0

    @classmethod
    @torch.no_grad()
    def of(cls, weight: Tensor, bias: Tensor | None, norm: nn.Module) -> "FoldedLinear":
        """Of a `foldable` norm; W is copied where the norm has a gain."""
        bias = None if bias is None else bias.detach()
        if not isinstance(norm, LayerNorm | RMSNorm):
            return cls(weight.detach(), None, bias)
        folded = weight.detach() if norm.gain is None else (weight.float() * norm.gain.float()).to(weight.dtype)
        if isinstance(norm, RMSNorm):
            return cls(folded, None, bias, "rms", norm.epsilon)
        shift = None if norm.shift is None else weight.float() @ norm.shift.float()
        offset = bias if shift is None else shift if bias is None else shift + bias.float()
        return cls(folded, folded.float().sum(1), offset, "layer", norm.epsilon)


def foldable(norm: nn.Module) -> bool:
    return type(norm) in (nn.Identity, RMSNorm) or (type(norm) is LayerNorm and norm.usual)


def norm_linear(
    x: Rows,
    linear: FoldedLinear,
    activation: Activation = "none",
    gated: bool = False,
    residual: Outputs | None = None,
    statistics: Statistics | None = None,
) -> Outputs:
    """f(norm(x) Wᵀ + b) + residual.

    Gated, W holds the weights of gate and value, one below the other: f(g) ⊙ u. `statistics` of x come from
    `linear_residual`; without them they are computed.
    """
    return _norm_linear(x, linear, activation, gated, residual, statistics, store_statistics=False)[0]


def linear_residual(residual: Outputs, x: Rows, linear: FoldedLinear) -> tuple[Outputs, Statistics | None]:
    """residual + x Wᵀ + b, and its row statistics for the next norm, where the kernel stores them."""
    y, statistics = _norm_linear(x, linear, "none", False, residual, None, store_statistics=True)
    return y, statistics if statistics.shape[1] else None


def _norm_linear(
    x: Rows,
    linear: FoldedLinear,
    activation: Activation,
    gated: bool,
    residual: Outputs | None,
    statistics: Statistics | None,
    store_statistics: bool,
) -> tuple[Outputs, Statistics]:
    if x.device.type == "cuda":
        from regard.nn.fast.linear_triton import fused_norm_linear

        return fused_norm_linear(x, *linear, activation, gated, residual, statistics, store_statistics)
    if linear.norm == "layer":
        x = F.layer_norm(x, x.shape[-1:], None, None, linear.epsilon)
    elif linear.norm == "rms":
        x = F.rms_norm(x, x.shape[-1:], None, linear.epsilon)
    y = F.linear(x, linear.weight, None if linear.offset is None else linear.offset.to(x.dtype))
    if gated:
        gate, up = y.chunk(2, -1)
        y = activate(gate, activation) * up
    else:
        y = activate(y, activation)
    return y if residual is None else y + residual, x.new_empty(2, 0, len(x), dtype=torch.float32)


MIN_PACKED_SIZE = 1 << 17
"""Elements of a weight from which on packing pays: the call of oneDNN alone takes as long as a small matmul."""
COLUMN_MAJOR_ROWS = range(16, 64)
"""Numbers of rows for which a column-major weight pays."""


class PrepackedLinear:
    """W x + b. Where it pays, a copy of W is made and kept, so later changes of W may have no effect."""

    def __init__(self, weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None) -> None:
        self.weight, self.bias = weight.detach(), None if bias is None else bias.detach()
        single = weight.device.type == "cpu" and weight.dtype == torch.float32
        large = weight.numel() >= MIN_PACKED_SIZE
        self.packs = single and large and torch.backends.mkldnn.is_available() and not is_intel()
        self.transposes = single and torch.backends.mkl.is_available() and is_intel()
        self._copy: Tensor | None = None

    def __call__(self, x: Float[Tensor, "rows 1 inputs"]) -> Float[Tensor, "rows 1 outputs"]:
        if self.packs:
            return torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")
        column_major = self.transposes and len(x) in COLUMN_MAJOR_ROWS
        return F.linear(x, self._column_major if column_major else self.weight, self.bias)

    @property
    def _packed(self) -> Tensor:
        self._copy = copy = self._copy if self._copy is not None else pack_weight(self.weight)
        return copy

    @property
    def _column_major(self) -> Float[Tensor, "outputs inputs"]:
        self._copy = copy = self._copy if self._copy is not None else self.weight.T.contiguous().T
        return copy


def pack_weight(weight: Float[Tensor, "outputs inputs"]) -> Tensor:
    """The weight in oneDNN's own layout."""
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), COLUMN_MAJOR_ROWS.start)
