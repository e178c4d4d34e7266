"""F4: without the feed-forward part, stacked attention only re-averages values.
F17: only two sources of non-linearity in the block: the feed-forward layer and the softmax.

Both measure how far a stack is from linear, with its attention weights frozen or not.
"""

from collections.abc import Callable

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most
from regard.claims.figure import ATTENTION, MORE, OTHER, RECURRENT, WINDOWS, bars
from regard.claims.setup import Setup, full_context, mean
from regard.models import EncoderConfig
from regard.models.stack import Stack
from regard.nn.attention.heads import join_heads
from regard.nn.attention.module import Attention
from regard.nn.attention.reference import record_attention
from regard.nn.block import Block

WIDTH, LENGTH = 64, 16
DEPTHS = (1, 2, 4, 8, 12)
PARTS = {
    "attention alone": {"feedforward": "none", "residual": False},
    "and feed-forward": {"feedforward": "plain", "residual": False},
    "and residuals": {"feedforward": "none", "residual": True},
}
CASES = {
    "all three": ("softmax", "activation", "norm"),
    "softmax alone": ("softmax",),
    "feed-forward bend alone": ("activation",),
    "layer norm alone": ("norm",),
    "none of them": (),
}


class Averages(Claim):
    name, title = "f4", "attention only re-averages"
    says = "Without the feed-forward layer there is no activation: stacked attention only re-averages value vectors."
    how = (
        "In stacks without residuals and norms, freeze the attention weights and test f(x+y) = f(x) + f(y): an "
        "average passes, an activation does not. Also how much tokens still differ from their mean after n layers."
    )

    def measure(self, setup: Setup) -> Numbers:
        depths, seeds = setup.pick(DEPTHS, DEPTHS[:2]), range(setup.pick(5, 1))

        def over_seeds(measure: Callable[[Stack], float], depth: int, parts: dict[str, object]) -> float:
            values: list[float] = []
            for seed in seeds:
                setup.seeded(seed)
                values.append(measure(bias_free_stack(depth, WIDTH, **parts)))
            return mean(values)

        return {"depths": list(depths)} | {
            quantity: {name: [over_seeds(measure, depth, parts) for depth in depths] for name, parts in PARTS.items()}
            for quantity, measure in (("bend", _frozen_nonlinearity), ("spread", _spread))
        }

    def check(self, numbers: Numbers) -> list[Finding]:
        alone, with_both = (numbers["bend"][name] for name in ("attention alone", "and feed-forward"))
        spread = numbers["spread"]["attention alone"]
        return [
            Finding("attention alone, with frozen weights, is a linear average", f"at most {max(alone):.1e} off",
                    at_most(max(alone), 1e-4, 1e-2)),
            Finding("the feed-forward layer makes it non-linear", f"at least {min(with_both):.2f} off",
                    at_least(min(with_both), 0.05, 1e-3)),
            Finding("averaging again and again makes all tokens alike",
                    f"spread {spread[0]:.2f} after one layer, {spread[-1]:.1e} after {numbers['depths'][-1]}",
                    at_most(spread[-1] / spread[0], 0.1, 0.9)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        alone, with_both = (numbers["bend"][name][-1] for name in ("attention alone", "and feed-forward"))
        return (
            f"With frozen weights, {numbers['depths'][-1]} layers of attention are {_percent(alone)} off a linear "
            f"average; with feed-forward layers {_percent(with_both)}"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        left, right = figure.subplots(1, 2)
        for name, colour in zip(PARTS, (ATTENTION, RECURRENT, WINDOWS), strict=True):
            left.plot(numbers["depths"], [max(value, 1e-9) for value in numbers["bend"][name]], "o-", color=colour)
            right.plot(numbers["depths"], numbers["spread"][name], "o-", color=colour, label=name)
        left.set_title("distance from linear, frozen weights")
        right.set_title("how much tokens still differ")
        right.legend(loc="center right")
        for axes in (left, right):
            axes.set_yscale("log")
            axes.set_xlabel("layers")


class Nonlinearity(Claim):
    name, title = "f17", "two sources of non-linearity"
    says = "The Transformer's block has only two sources of non-linearity: the feed-forward layer and the softmax."
    how = (
        "Switch each off by itself (frozen attention weights, no activation between the two linear layers, no norm) "
        "and measure how far the block is from linear: ‖f(x+y) − f(x) − f(y) + f(0)‖ / ‖f(x+y) − f(0)‖."
    )

    def measure(self, setup: Setup) -> Numbers:
        seeds = range(setup.pick(10, 2))
        return {
            "bend": {name: mean([_block_nonlinearity(parts, setup, seed) for seed in seeds])
                     for name, parts in CASES.items()}
        }  # fmt: skip

    def check(self, numbers: Numbers) -> list[Finding]:
        """A part is a source if the block is clearly non-linear with it alone; without the two nothing may be left."""
        distance = numbers["bend"]
        rest = max(distance["layer norm alone"], distance["none of them"])
        return [
            Finding("the softmax is one", f"{distance['softmax alone']:.2f} off linear",
                    at_least(distance["softmax alone"], 0.01, 1e-4)),
            Finding("the feed-forward layer is another", f"{distance['feed-forward bend alone']:.2f} off linear",
                    at_least(distance["feed-forward bend alone"], 0.01, 1e-4)),
            Finding("there is no third", f"with layer norm alone {distance['layer norm alone']:.2f} off linear, "
                    f"without it {distance['none of them']:.0e}", at_most(rest, 1e-4, 0.01)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        return (
            f"With frozen softmax and no activation, a block with layer norm is still "
            f"{numbers['bend']['layer norm alone']:.0%} off linear"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        axes = figure.subplots()
        names = [name.replace("bend", "activation") for name in numbers["bend"]]
        values = [100 * value for value in numbers["bend"].values()]
        bars(axes, names, values, (OTHER, ATTENTION, ATTENTION, MORE[1], OTHER), "{:.0f} %")
        axes.set_xlabel("how far the block is from linear (%)")


def _percent(value: float) -> str:
    return f"{value:.0%}" if value >= 0.01 else f"{value:.2%}"


def _frozen_nonlinearity(stack: Stack) -> float:
    x, y = torch.randn(2, 4, LENGTH, WIDTH).unbind()
    weights = attention_weights(stack, x)
    return nonlinearity(lambda z: forward_with_frozen_weights(stack, z, weights), x, y)


def _spread(stack: Stack) -> float:
    """‖tokens − their mean‖ / ‖tokens‖ at the output."""
    x = torch.randn(4, LENGTH, WIDTH)
    with torch.no_grad():
        y: Tensor = stack(x, full_context(x))
    return float((y - y.mean(1, keepdim=True)).norm() / y.norm())


def _block_nonlinearity(parts: tuple[str, ...], setup: Setup, seed: int) -> float:
    setup.seeded(seed)
    activation, norm = "relu" if "activation" in parts else "none", "layer" if "norm" in parts else "none"
    stack = bias_free_stack(1, WIDTH, norm=norm, feedforward={"kind": "plain", "activation": activation, "bias": False})
    if "softmax" not in parts:
        return _frozen_nonlinearity(stack)
    x, y = torch.randn(2, 4, LENGTH, WIDTH).unbind()
    return nonlinearity(lambda z: stack(z, full_context(z)), x, y)


def bias_free_stack(depth: int, width: int, **settings: object) -> Stack:
    """An encoder's blocks, without norms and without biases, so that everything in them that can be linear is."""
    config = EncoderConfig.from_tree({
        "width": width, "depth": depth, "heads": 4, "position": "none", "dropout": 0.0, "norm": "none",
        "final_norm": False, "attention": {"kind": "full", "bias": False}, **settings,
    })  # fmt: skip
    return config.build(2).eval().stack


def attention_weights(stack: Stack, x: Tensor) -> list[Tensor]:
    """The attention weights of each block for an input."""
    with torch.no_grad(), record_attention(stack) as seen:
        stack(x, full_context(x))
    return [steps[0].weights for steps in seen.values()]


def forward_with_frozen_weights(stack: Stack, x: Tensor, weights: list[Tensor]) -> Tensor:
    """The stack's output with these attention weights in place of those that the input would give."""

    def attend(attention: Attention, frozen: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda y: attention.output(join_heads(frozen @ attention.value(y)))

    for block, frozen in zip(stack.blocks, weights, strict=True):
        assert isinstance(block, Block)
        x = block.around_attention(x, attend(block.attention, frozen))
        if block.feedforward is not None and block.around_feedforward is not None:
            x = block.around_feedforward(x, block.feedforward)
    return x


def nonlinearity(function: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> float:
    """How far a function is from affine: ‖f(x+y) − f(x) − f(y) + f(0)‖ / ‖f(x+y) − f(0)‖, zero if it is."""
    with torch.no_grad():
        offset = function(torch.zeros_like(x))
        of_sum = function(x + y) - offset
        sum_of = function(x) + function(y) - 2 * offset
    return float((of_sum - sum_of).norm() / of_sum.norm())
