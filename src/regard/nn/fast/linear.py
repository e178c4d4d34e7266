"""What stands around a matrix product in a block, in one kernel with it: norm before, bend and sum behind.

For the newest token of each row a product is a reading of its matrix, and a step of decoding is as slow as the number
of its kernels. So on a GPU norm, product, bend and residual sum are one operator, by one kernel; on a CPU plain steps.
A norm's gain γ and shift β are multiplied into the matrix beforehand, and what is left of it, with μ and s the mean
and the inverse deviation of x, comes after the product, so that no kernel reads x twice:

    norm(x) Wᵀ + b = s (x − μ) Vᵀ + c = s (x Vᵀ − μ V1) + c    with V = W diag(γ) and c = Wβ + b
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.feedforward import Activation, activate
from regard.nn.norm import LayerNorm, RMSNorm

MOST_ROWS = 64
"""Beyond so many tokens at a time, a product is work enough for a kernel of its own."""
PART = 16
"""Numbers of a row whose sums are told together."""


class Folded(NamedTuple):
    """A product with the norm before it: V, V1 where a mean is subtracted, c, and what is left of the norm."""

    weight: Tensor
    sums: Tensor | None = None
    offset: Tensor | None = None
    norm: str = "none"
    epsilon: float = 0.0

    @classmethod
    @torch.no_grad()
    def of(cls, weight: Tensor, bias: Tensor | None, norm: nn.Module) -> "Folded":
        """W and b with a norm of a `known` kind; W is copied where the norm has a gain."""
        bias = None if bias is None else bias.detach()
        if not isinstance(norm, LayerNorm | RMSNorm):
            return cls(weight.detach(), None, bias)
        folded = weight.detach() if norm.gain is None else (weight.float() * norm.gain.float()).to(weight.dtype)
        if isinstance(norm, RMSNorm):
            return cls(folded, None, bias, "rms", norm.epsilon)
        shift = None if norm.shift is None else weight.float() @ norm.shift.float()
        offset = bias if shift is None else shift if bias is None else shift + bias.float()
        return cls(folded, folded.float().sum(1), offset, "layer", norm.epsilon)


def known(norm: nn.Module) -> bool:
    """Whether a norm is of a kind that can be folded."""
    return type(norm) in (nn.Identity, RMSNorm) or (type(norm) is LayerNorm and norm.epsilon_inside)


def fused(
    x: Tensor,
    by: Folded,
    activation: Activation = "none",
    gated: bool = False,
    added: Tensor | None = None,
    moments: Tensor | None = None,
) -> Tensor:
    """f(norm(x) Wᵀ + b) + added for x (rows, width) and W (outputs, width).

    Gated, W holds the matrices of the gate and of what it lets through, one below the other: f(g) ⊙ u. The `moments`
    of x are what `fused_onto` told of it; without them they are counted.
    """
    return product(x, *by[:3], by.norm, by.epsilon, activation, gated, added, moments, tells=False)[0]


def fused_onto(added: Tensor, x: Tensor, by: Folded) -> tuple[Tensor, Tensor | None]:
    """added + x Wᵀ + b, and its moments: what a norm needs to know of each row, where the kernel tells it.

    Moments (2, parts, rows) are sums of the numbers of a row, and of their squares, over parts of it.
    """
    y, moments = product(x, *by[:3], by.norm, by.epsilon, "none", False, added, None, tells=True)
    return y, moments if moments.shape[1] else None


# torch reads the signatures of operators, so shapes stand in the docstrings above.
@torch.library.custom_op("regard::product", mutates_args=())
def product(
    x: Tensor,
    weight: Tensor,
    sums: Tensor | None,
    offset: Tensor | None,
    norm: str,
    epsilon: float,
    activation: str,
    gated: bool,
    added: Tensor | None,
    moments: Tensor | None,
    tells: bool,
) -> tuple[Tensor, Tensor]:
    """See `fused`."""
    if x.device.type == "cuda":
        from regard.nn.fast.linear_triton import product as kernel

        return kernel(x, weight, sums, offset, norm, epsilon, activation, gated, added, moments, tells)
    if norm == "layer":
        x = F.layer_norm(x, x.shape[-1:], None, None, epsilon)
    elif norm == "rms":
        x = F.rms_norm(x, x.shape[-1:], None, epsilon)
    y = F.linear(x, weight, None if offset is None else offset.to(x.dtype))
    if gated:
        gate, up = y.chunk(2, -1)
        y = activate(gate, activation) * up  # type: ignore[arg-type]
    else:
        y = activate(y, activation)  # type: ignore[arg-type]
    return y if added is None else y + added, x.new_empty(2, 0, len(x), dtype=torch.float32)


@product.register_fake
def _(
    x: Tensor,
    weight: Tensor,
    sums: Tensor | None,
    offset: Tensor | None,
    norm: str,
    epsilon: float,
    activation: str,
    gated: bool,
    added: Tensor | None,
    moments: Tensor | None,
    tells: bool,
) -> tuple[Tensor, Tensor]:
    outputs = len(weight) // 2 if gated else len(weight)
    parts = -(-outputs // PART) if tells and len(x) > 1 and x.device.type == "cuda" else 0
    return x.new_empty(len(x), outputs), x.new_empty(2, parts, len(x), dtype=torch.float32)
