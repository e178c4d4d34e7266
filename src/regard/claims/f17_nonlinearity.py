"""F17: only two sources of non-linearity in the block: the feed-forward layer and the softmax."""

import torch
from matplotlib.figure import Figure

from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most
from regard.claims.figure import ATTENTION, MORE, OTHER, bars
from regard.claims.probes import (
    attention_weights,
    bias_free_stack,
    forward_with_frozen_weights,
    full_context,
    nonlinearity,
)
from regard.claims.setup import Setup

WIDTH, LENGTH, SEEDS = 64, 16, 10
CASES = {
    "all three": ("softmax", "activation", "norm"),
    "softmax alone": ("softmax",),
    "feed-forward bend alone": ("activation",),
    "layer norm alone": ("norm",),
    "none of them": (),
}


class Nonlinearity(Claim):
    """Distance from linear of a block with its non-linear parts switched off one by one."""

    name, title = "f17", "two sources of non-linearity"
    says = "The Transformer's block has only two sources of non-linearity: the feed-forward layer and the softmax."
    how = (
        "Switch each off by itself (frozen attention weights, no activation between the two linear layers, no norm) "
        "and measure how far the block is from linear: ‖f(x+y) − f(x) − f(y) + f(0)‖ / ‖f(x+y) − f(0)‖."
    )

    def measure(self, setup: Setup) -> Numbers:
        """The distance from linear with each set of parts left on, a mean over seeds."""
        seeds = range(setup.pick(SEEDS, 2))
        return {
            "bend": {
                name: sum(_nonlinearity(parts, setup, seed) for seed in seeds) / len(seeds)
                for name, parts in CASES.items()
            }
        }

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
        distance = numbers["bend"]
        return (
            f"With frozen softmax and no activation, a block with layer norm is still "
            f"{distance['layer norm alone']:.0%} off linear"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        axes = figure.subplots()
        colours = (OTHER, ATTENTION, ATTENTION, MORE[1], OTHER)
        names = [name.replace("bend", "activation") for name in numbers["bend"]]
        bars(axes, names, [100 * value for value in numbers["bend"].values()], colours, "{:.0f} %")
        axes.set_xlabel("how far the block is from linear (%)")


def _nonlinearity(parts: tuple[str, ...], setup: Setup, seed: int) -> float:
    setup.seeded(seed)
    activation = "relu" if "activation" in parts else "none"
    feedforward = {"kind": "plain", "activation": activation, "bias": False}
    stack = bias_free_stack(
        1, WIDTH, residual=True, norm="layer" if "norm" in parts else "none", feedforward=feedforward
    )
    x, y = torch.randn(2, 4, LENGTH, WIDTH).unbind()
    if "softmax" in parts:
        return nonlinearity(lambda z: stack(z, full_context(z)), x, y)
    weights = attention_weights(stack, x)
    return nonlinearity(lambda z: forward_with_frozen_weights(stack, z, weights), x, y)
