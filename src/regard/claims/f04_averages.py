"""F4: without the feed-forward part, stacked attention only re-averages values."""

from collections.abc import Callable
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most
from regard.claims.held import bend, context_of, stack_of, weights_of, with_weights_held
from regard.claims.setup import Setup
from regard.claims.style import ATTENTION, RECURRENT, WINDOWS
from regard.models.stack import Stack

DEPTHS = (1, 2, 4, 8, 12)
WIDTH, LENGTH, SEEDS = 64, 16, 5
PARTS: dict[str, dict[str, Any]] = {
    "attention alone": {"feedforward": {"kind": "none"}, "residual": False},
    "and feed-forward": {"feedforward": {"kind": "plain"}, "residual": False},
    "and residuals": {"feedforward": {"kind": "none"}, "residual": True},
}


class Averages(Claim):
    """Hold the attention weights still and see whether anything but averaging is left."""

    name, title = "f4", "attention only re-averages"
    says = "Without the feed-forward part there is no bend: stacked attention only re-averages value vectors."
    how = (
        "In stacks without residuals and norms, hold the attention weights still and test f(x+y) = f(x) + f(y): "
        "an average "
        "passes, a bend does not. Beside it, how much tokens still differ from their mean after n layers."
    )

    def measure(self, setup: Setup) -> Numbers:
        """The distance from additive, and the spread of tokens, by depth, with and without the feed-forward part."""
        depths = setup.pick(DEPTHS, DEPTHS[:2])
        seeds = range(setup.pick(SEEDS, 1))
        found: Numbers = {"depths": list(depths)}
        for what, measure in (("bend", _bend), ("spread", _spread)):
            found[what] = {name: [_mean(measure, setup, depth, name, seeds) for depth in depths] for name in PARTS}
        return found

    def judge(self, numbers: Numbers) -> list[Finding]:
        """Additive to rounding without the feed-forward part at every depth; far from it with one."""
        alone, with_both = (numbers["bend"][name] for name in ("attention alone", "and feed-forward"))
        left = numbers["spread"]["attention alone"]
        return [
            Finding("attention alone, its weights held, is a linear average", f"at most {max(alone):.1e} off",
                    at_most(max(alone), 1e-4, 1e-2)),
            Finding("the feed-forward part bends it", f"at least {min(with_both):.2f} off",
                    at_least(min(with_both), 0.05, 1e-3)),
            Finding("averaging again and again makes all tokens alike",
                    f"spread {left[0]:.2f} after one layer, {left[-1]:.1e} after {numbers['depths'][-1]}",
                    at_most(left[-1] / left[0], 0.1, 0.9)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        """The distances from linear at the greatest depth."""
        alone, with_both = (numbers["bend"][name][-1] for name in ("attention alone", "and feed-forward"))
        return (
            f"With its weights held, {numbers['depths'][-1]} layers of attention are {_percent(alone)} off a linear "
            f"average; with feed-forward parts {_percent(with_both)}"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        """Two panels: the bend, and the spread."""
        left, right = figure.subplots(1, 2)
        for name, colour in zip(PARTS, (ATTENTION, RECURRENT, WINDOWS), strict=True):
            left.plot(numbers["depths"], [max(value, 1e-9) for value in numbers["bend"][name]], "o-", color=colour)
            right.plot(numbers["depths"], numbers["spread"][name], "o-", color=colour, label=name)
        left.set_yscale("log")
        left.set_title("distance from linear, weights held")
        right.set_yscale("log")
        right.set_title("how much tokens still differ")
        right.legend(loc="center right")
        for axes in (left, right):
            axes.set_xlabel("layers")


def _percent(value: float) -> str:
    return f"{value:.0%}" if value >= 0.01 else f"{value:.2%}"


def _mean(measure: Callable[[Stack], float], setup: Setup, depth: int, name: str, seeds: range) -> float:
    found = []
    for seed in seeds:
        setup.seeded(seed)
        stack = stack_of(depth, WIDTH, norm="none", **PARTS[name])
        found.append(measure(stack))
    return sum(found) / len(found)


def _bend(stack: Stack) -> float:
    one, other = torch.randn(2, 4, LENGTH, WIDTH).unbind()
    weights = weights_of(stack, one)
    return bend(lambda x: with_weights_held(stack, x, weights), one, other)


def _spread(stack: Stack) -> float:
    """‖tokens − their mean‖ / ‖tokens‖ at the output."""
    x = torch.randn(4, LENGTH, WIDTH)
    with torch.no_grad():
        y: Tensor = stack(x, context_of(x))
    return float((y - y.mean(1, keepdim=True)).norm() / y.norm())
