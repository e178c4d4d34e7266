"""F4: without the feed-forward part, stacked attention only re-averages values."""

from collections.abc import Callable
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most
from regard.claims.figure import ATTENTION, RECURRENT, WINDOWS
from regard.claims.probes import (
    attention_weights,
    bias_free_stack,
    forward_with_frozen_weights,
    full_context,
    nonlinearity,
)
from regard.claims.setup import Setup
from regard.models.stack import Stack

DEPTHS = (1, 2, 4, 8, 12)
WIDTH, LENGTH, SEEDS = 64, 16, 5
PARTS: dict[str, dict[str, Any]] = {
    "attention alone": {"feedforward": {"kind": "none"}, "residual": False},
    "and feed-forward": {"feedforward": {"kind": "plain"}, "residual": False},
    "and residuals": {"feedforward": {"kind": "none"}, "residual": True},
}


class Averages(Claim):
    """Linearity of stacked attention with frozen weights, with and without the feed-forward layer."""

    name, title = "f4", "attention only re-averages"
    says = "Without the feed-forward layer there is no activation: stacked attention only re-averages value vectors."
    how = (
        "In stacks without residuals and norms, freeze the attention weights and test f(x+y) = f(x) + f(y): an "
        "average passes, an activation does not. Also how much tokens still differ from their mean after n layers."
    )

    def measure(self, setup: Setup) -> Numbers:
        """The distance from linear, and the spread of tokens, by depth and parts."""
        depths = setup.pick(DEPTHS, DEPTHS[:2])
        seeds = range(setup.pick(SEEDS, 1))
        numbers: Numbers = {"depths": list(depths)}
        for quantity, measure in (("bend", _nonlinearity), ("spread", _spread)):
            numbers[quantity] = {
                name: [_mean(measure, setup, depth, name, seeds) for depth in depths] for name in PARTS
            }
        return numbers

    def check(self, numbers: Numbers) -> list[Finding]:
        """Linear up to rounding without the feed-forward layer at every depth, far from it with one."""
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
        left.set_yscale("log")
        left.set_title("distance from linear, frozen weights")
        right.set_yscale("log")
        right.set_title("how much tokens still differ")
        right.legend(loc="center right")
        for axes in (left, right):
            axes.set_xlabel("layers")


def _percent(value: float) -> str:
    return f"{value:.0%}" if value >= 0.01 else f"{value:.2%}"


def _mean(measure: Callable[[Stack], float], setup: Setup, depth: int, name: str, seeds: range) -> float:
    values = []
    for seed in seeds:
        setup.seeded(seed)
        stack = bias_free_stack(depth, WIDTH, norm="none", **PARTS[name])
        values.append(measure(stack))
    return sum(values) / len(values)


def _nonlinearity(stack: Stack) -> float:
    x, y = torch.randn(2, 4, LENGTH, WIDTH).unbind()
    weights = attention_weights(stack, x)
    return nonlinearity(lambda z: forward_with_frozen_weights(stack, z, weights), x, y)


def _spread(stack: Stack) -> float:
    """‖tokens − their mean‖ / ‖tokens‖ at the output."""
    x = torch.randn(4, LENGTH, WIDTH)
    with torch.no_grad():
        y: Tensor = stack(x, full_context(x))
    return float((y - y.mean(1, keepdim=True)).norm() / y.norm())
