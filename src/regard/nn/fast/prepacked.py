"""A linear map for writing on a CPU: its matrix lies in memory the way that so many rows read it fastest.

    as torch keeps it    output by output
    by input             for MKL, which is up to 1.6 times as fast that way where some rows are multiplied
    packed               as oneDNN likes it, for other processors than Intel's, for which MKL keeps its fastest kernels

How much each gains: benchmarks/matrix_layout.py.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.files.machine import is_intel

LARGE = 1 << 17
"""Numbers of a matrix from which on packing it pays: to call oneDNN alone takes as long as many a product."""
FEW, MANY = 16, 64
"""From some rows on, until their number hides it, a matrix by input pays."""


class Laid:
    """W x + b. Where it pays, a copy of W is made and kept, so that later changes of W may not be seen."""

    def __init__(self, weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None) -> None:
        self.weight, self.bias = weight.detach(), None if bias is None else bias.detach()
        single = weight.device.type == "cpu" and weight.dtype == torch.float32
        large = weight.numel() >= LARGE
        self.packs = single and large and torch.backends.mkldnn.is_available() and not is_intel()
        self.turns = single and torch.backends.mkl.is_available() and is_intel()
        self._copy: Tensor | None = None

    def __call__(self, x: Float[Tensor, "rows 1 inputs"]) -> Float[Tensor, "rows 1 outputs"]:
        """The product with each row."""
        if self.packs:
            return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        few = self.turns and FEW <= len(x) < MANY
        return F.linear(x, self.by_input if few else self.weight, self.bias)

    @property
    def packed(self) -> Tensor:
        """The same matrix in an order that only oneDNN knows."""
        self._copy = copy = self._copy if self._copy is not None else _packed(self.weight)
        return copy

    @property
    def by_input(self) -> Float[Tensor, "outputs inputs"]:
        """The same matrix, the numbers of each input side by side in memory."""
        self._copy = copy = self._copy if self._copy is not None else self.weight.T.contiguous().T
        return copy


def _packed(weight: Float[Tensor, "outputs inputs"]) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), FEW)
