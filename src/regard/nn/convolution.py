"""Word windows: convolutions over the tokens of a sequence.

A convolution concatenates the vectors of `kernel` tokens, `dilation` positions apart, and projects them to one:

    y_t = W [x_{t−m}; …; x_{t−dilation}; x_t; x_{t+dilation}; …; x_{t+n}] + b

Centred, it reaches as far back as ahead; causal, its last token is x_t itself. Whatever lies outside
the sequence counts as zero, and `zero_padding` does so for padding. In decoding, a `Window` caches the inputs that
later outputs depend on, so that a step costs one kernel, whatever the length.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


class NormedLinear(nn.Linear):
    """W x + b with W = g·V/‖V‖, row by row: `weight` is V, `gain` is g.

    Computed as (g/‖V‖)·(V x) + b, so that W is never materialised.
    """

    def __init__(self, into: int, out: int, bias: bool = True) -> None:
        super().__init__(into, out, bias)
        self.gain = nn.Parameter(torch.empty(out))
        self.match_gain()

    def match_gain(self) -> None:
        """Sets g so that W = V."""
        with torch.no_grad():
            self.gain.copy_(self._lengths())

    def forward(self, input: Float[Tensor, "*batch into"]) -> Float[Tensor, "*batch out"]:
        y = F.linear(input, self.weight)
        y = y * (self.gain / self._lengths()).to(y.dtype)
        return y if self.bias is None else y + self.bias.to(y.dtype)

    def _lengths(self) -> Float[Tensor, " out"]:
        return torch.linalg.vector_norm(self.weight, dim=1)


def linear_map(into: int, out: int, bias: bool = True, weight_norm: bool = False) -> nn.Linear:
    """A linear layer, with weight normalisation or without."""
    return NormedLinear(into, out, bias) if weight_norm else nn.Linear(into, out, bias)


def linear_params(into: int, out: int, bias: bool = True, weight_norm: bool = False) -> int:
    return out * (into + bias + weight_norm)


def match_gains(model: nn.Module) -> None:
    """Sets all gains after the weights of a model were initialised."""
    for part in model.modules():
        if isinstance(part, NormedLinear):
            part.match_gain()


Vectors = Float[Tensor, "batch time width"]
Past = Float[Tensor, "batch reach width"]


def dilations(depth: int, widest: int) -> list[int]:
    """The dilation of each of `depth` layers: 1, 2, 4 … up to `widest`, then from 1 again."""
    doubling = [1 << power for power in range(widest.bit_length())]
    return [doubling[layer % len(doubling)] for layer in range(depth)]


def receptive_field(kernel: int, dilations: Sequence[int]) -> int:
    """Tokens that one output of a stack of convolutions depends on."""
    return 1 + (kernel - 1) * sum(dilations)


def zero_padding(x: Vectors, valid: Bool[Tensor, "batch time"] | None) -> Vectors:
    """Zeroes padding, so that no convolution reads it; `valid` None: no padding."""
    return x if valid is None else x.masked_fill(~valid[..., None], 0.0)


class Window:
    """The cached last inputs of one causal convolution.

    Of new inputs that are padded on the right, row b keeps the first `lengths[b]` only; all of them without lengths.
    """

    def __init__(self, past: Past, lengths: Int[Tensor, " batch"] | None = None) -> None:
        self.past, self.lengths = past, lengths

    def extend(self, x: Vectors) -> Float[Tensor, "batch seen width"]:
        """Cached and new inputs; the last of them are cached from now on."""
        seen = torch.cat([self.past, x], dim=1)
        if self.lengths is None:
            self.past = seen[:, x.shape[1] :]
        else:
            index = self.lengths[:, None] + torch.arange(self.past.shape[1], device=seen.device)
            self.past = seen[torch.arange(len(seen), device=seen.device)[:, None], index]
        return seen


class Convolution(nn.Module):
    """y_t = W [window of x around t] + b; `linear` is W and b, the window's vectors in order of time.

    A window of an even number of tokens, when centred, reaches one dilation further ahead than back.
    """

    def __init__(
        self,
        width: int,
        out: int,
        kernel: int,
        *,
        dilation: int = 1,
        causal: bool = False,
        bias: bool = True,
        weight_norm: bool = False,
    ) -> None:
        super().__init__()
        self.width, self.kernel, self.dilation = width, kernel, dilation
        self.reach = (kernel - 1) * dilation
        self.back = self.reach if causal else (kernel - 1) // 2 * dilation
        self.linear = linear_map(kernel * width, out, bias, weight_norm)

    def forward(self, x: Vectors, window: Window | None = None) -> Float[Tensor, "batch time out"]:
        """With a window, `x` holds only the tokens after the cached ones."""
        if window is None:
            seen = F.pad(x, (0, 0, self.back, self.reach - self.back))
        else:
            assert self.back == self.reach, "only a causal convolution can decode from its cache"
            seen = window.extend(x)
        return self.linear(self._side_by_side(seen, x.shape[1]))

    def _side_by_side(self, seen: Float[Tensor, "batch seen width"], time: int) -> Float[Tensor, "batch time windows"]:
        starts = range(0, self.reach + 1, self.dilation)
        return torch.cat([seen[:, start : start + time] for start in starts], dim=-1)

    def initial_past(self, rows: int, like: Tensor) -> Past:
        """The cache before the first token: zeros."""
        return like.new_zeros(rows, self.reach, self.width)


def convolution_params(width: int, out: int, kernel: int, bias: bool = True, weight_norm: bool = False) -> int:
    return linear_params(kernel * width, out, bias, weight_norm)


def convolution_flops(width: int, out: int, kernel: int, tokens: int) -> int:
    return 2 * tokens * kernel * width * out
