"""F17: only two sources of non-linearity in the block: the feed-forward layer and the softmax."""

import torch
from matplotlib.figure import Figure

from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most
from regard.claims.held import bend, context_of, stack_of, weights_of, with_weights_held
from regard.claims.setup import Setup
from regard.claims.style import ATTENTION, MORE, OTHER, bars

WIDTH, LENGTH, SEEDS = 64, 16, 10
CASES = {
    "all three": ("softmax", "bend", "norm"),
    "softmax alone": ("softmax",),
    "feed-forward bend alone": ("bend",),
    "layer norm alone": ("norm",),
    "none of them": (),
}


class Bends(Claim):
    """Straighten the parts of a block one by one: which of them keep it from being linear?"""

    name, title = "f17", "two sources of non-linearity"
    says = "The Transformer's block has only two sources of non-linearity: the feed-forward layer and the softmax."
    how = (
        "Switch each off by itself (attention weights held, no bend between the two maps, no norm) and measure "
        "how far the "
        "block is from linear: ‖f(x+y) − f(x) − f(y) + f(0)‖ / ‖f(x+y) − f(0)‖."
    )

    def measure(self, setup: Setup) -> Numbers:
        """The distance from linear with each set of parts left on, a mean over seeds."""
        seeds = range(setup.pick(SEEDS, 2))
        return {
            "bend": {
                name: sum(_bend(parts, setup, seed) for seed in seeds) / len(seeds) for name, parts in CASES.items()
            }
        }

    def judge(self, numbers: Numbers) -> list[Finding]:
        """A part is a source if the block is visibly not linear with it alone; without the two nothing may be left."""
        found = numbers["bend"]
        rest = max(found["layer norm alone"], found["none of them"])
        return [
            Finding("the softmax is one", f"{found['softmax alone']:.2f} off linear",
                    at_least(found["softmax alone"], 0.01, 1e-4)),
            Finding("the feed-forward layer is another", f"{found['feed-forward bend alone']:.2f} off linear",
                    at_least(found["feed-forward bend alone"], 0.01, 1e-4)),
            Finding("there is no third", f"with layer norm alone {found['layer norm alone']:.2f} off linear, "
                    f"without it {found['none of them']:.0e}", at_most(rest, 1e-4, 0.01)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        """What is left without the two."""
        found = numbers["bend"]
        return (
            f"With softmax and feed-forward bend switched off, a block with layer norm is still "
            f"{found['layer norm alone']:.0%} off linear"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        """A bar for each case."""
        axes = figure.subplots()
        colours = (OTHER, ATTENTION, ATTENTION, MORE[1], OTHER)
        bars(axes, list(numbers["bend"]), [100 * value for value in numbers["bend"].values()], colours, "{:.0f} %")
        axes.set_xlabel("how far the block is from linear (%)")


def _bend(parts: tuple[str, ...], setup: Setup, seed: int) -> float:
    setup.seeded(seed)
    activation = "relu" if "bend" in parts else "none"
    feedforward = {"kind": "plain", "activation": activation, "bias": False}
    stack = stack_of(1, WIDTH, residual=True, norm="layer" if "norm" in parts else "none", feedforward=feedforward)
    one, other = torch.randn(2, 4, LENGTH, WIDTH).unbind()
    if "softmax" in parts:
        return bend(lambda x: stack(x, context_of(x)), one, other)
    weights = weights_of(stack, one)
    return bend(lambda x: with_weights_held(stack, x, weights), one, other)
