"""A linear map for writing on a CPU: its matrix lies in memory the way that so many rows read it fastest."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

FEW, MANY = 16, 64
"""From some rows on, until their number hides it, MKL takes up to 1.6 times as long where a matrix lies output by
output, as torch keeps it, as where it lies input by input (benchmarks/matrix_layout.py)."""


class Laid:
    """W x + b. Where it pays, a copy of W is made and kept, so that later changes of W may not be seen."""

    def __init__(self, weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None) -> None:
        self.weight, self.bias = weight.detach(), None if bias is None else bias.detach()
        self.pays = weight.device.type == "cpu" and weight.dtype == torch.float32 and torch.backends.mkl.is_available()
        self._by_input: Tensor | None = None

    def __call__(self, x: Float[Tensor, "rows 1 inputs"]) -> Float[Tensor, "rows 1 outputs"]:
        """The product with each row."""
        few = self.pays and FEW <= len(x) < MANY
        return F.linear(x, self.by_input if few else self.weight, self.bias)

    @property
    def by_input(self) -> Float[Tensor, "outputs inputs"]:
        """The same matrix, the numbers of each input side by side in memory."""
        if self._by_input is None:
            self._by_input = self.weight.T.contiguous().T
        return self._by_input
