"""What stands around a matrix product in a block, in one kernel with it: norm before, bend and sum behind.

For the newest token of each row a product is a reading of its matrix, and a step of decoding is as slow as the number of
its kernels. So on a GPU norm, product, bend and residual sum are one operator, by one kernel; on a CPU plain steps.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.feedforward import Activation, activate
from regard.nn.norm import LayerNorm, RMSNorm


MOST_ROWS = 64
"""Beyond so many tokens at a time, a product is work enough for a kernel of its own."""


class Norm(NamedTuple):
    """A norm as plain values, as an operator takes them."""

    kind: str = "none"
    gain: Tensor | None = None
    shift: Tensor | None = None
    epsilon: float = 0.0

    @classmethod
    def of(cls, norm: nn.Module) -> "Norm | None":
        """The norm of a module; None where it is of a kind that the kernel does not know."""
        if type(norm) is nn.Identity:
            return cls()
        if type(norm) is RMSNorm:
            return cls("rms", norm.gain, None, norm.epsilon)
        if type(norm) is LayerNorm and norm.epsilon_inside:
            return cls("layer", norm.gain, norm.shift, norm.epsilon)
        return None


def fused(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    norm: Norm = Norm(),  # noqa: B008
    activation: Activation = "none",
    gated: bool = False,
    added: Tensor | None = None,
) -> Tensor:
    """f(norm(x) Wᵀ + b) + added for x (rows, width) and W (outputs, width).

    Gated, W holds the matrices of the gate and of what it lets through, one below the other: f(g) ⊙ u.
    """
    return product(x, weight, bias, norm.kind, norm.gain, norm.shift, norm.epsilon, activation, gated, added)


# torch reads the signatures of operators, so shapes stand in the docstring above.
@torch.library.custom_op("regard::product", mutates_args=())
def product(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    norm: str,
    gain: Tensor | None,
    shift: Tensor | None,
    epsilon: float,
    activation: str,
    gated: bool,
    added: Tensor | None,
) -> Tensor:
    """See `fused`."""
    if x.device.type == "cuda":
        from regard.nn.product_kernel import product as kernel

        return kernel(x, weight, bias, norm, gain, shift, epsilon, activation, gated, added)
    if norm == "layer":
        x = F.layer_norm(x, x.shape[-1:], gain, shift, epsilon)
    elif norm == "rms":
        x = F.rms_norm(x, x.shape[-1:], gain, epsilon)
    y = F.linear(x, weight, bias)
    if gated:
        gate, up = y.chunk(2, -1)
        y = activate(gate, activation) * up  # type: ignore[arg-type]
    else:
        y = activate(y, activation)  # type: ignore[arg-type]
    return y.clone() if added is None else y + added


@product.register_fake
def _(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    norm: str,
    gain: Tensor | None,
    shift: Tensor | None,
    epsilon: float,
    activation: str,
    gated: bool,
    added: Tensor | None,
) -> Tensor:
    return x.new_empty(len(x), len(weight) // 2 if gated else len(weight))
