"""Weight normalisation: the length of each row of a matrix is learned apart from its direction (Salimans 2016)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class NormedLinear(nn.Linear):
    """W x + b with W = g·V/‖V‖, row by row: `weight` is V, `gain` is g.

    Computed as (g/‖V‖)·(V x) + b, so that W itself is never laid out.
    """

    def __init__(self, into: int, out: int, bias: bool = True) -> None:
        super().__init__(into, out, bias)
        self.gain = nn.Parameter(torch.empty(out))
        self.match_gain()

    def match_gain(self) -> None:
        """Makes W = V: what training starts from is what was drawn."""
        with torch.no_grad():
            self.gain.copy_(self._lengths())

    def forward(self, input: Float[Tensor, "*batch into"]) -> Float[Tensor, "*batch out"]:
        """The mapped vectors."""
        y = F.linear(input, self.weight)
        y = y * (self.gain / self._lengths()).to(y.dtype)
        return y if self.bias is None else y + self.bias.to(y.dtype)

    def _lengths(self) -> Float[Tensor, " out"]:
        return torch.linalg.vector_norm(self.weight, dim=1)


def linear_map(into: int, out: int, bias: bool = True, weight_norm: bool = False) -> nn.Linear:
    """A linear map with normalised weights or plain ones."""
    return NormedLinear(into, out, bias) if weight_norm else nn.Linear(into, out, bias)


def linear_params(into: int, out: int, bias: bool = True, weight_norm: bool = False) -> int:
    """Learned numbers of such a map."""
    return out * (into + bias + weight_norm)


def match_gains(model: nn.Module) -> None:
    """To be called once the weights of a model have been drawn."""
    for part in model.modules():
        if isinstance(part, NormedLinear):
            part.match_gain()
