"""F9: layer normalisation speeds training up."""

from typing import Any

from matplotlib.figure import Figure

from regard.claims.claim import Claim, Finding, Numbers, at_least
from regard.claims.learn import learn, smoothed
from regard.claims.reverse import drawn_loss, encoder
from regard.claims.setup import Setup
from regard.claims.style import ATTENTION, MORE, RECURRENT

DEPTH, GOAL = 4, 0.5
RATES = (1e-3, 3e-3, 1e-2)
WAYS: dict[str, dict[str, Any]] = {
    "before": {"norm": "layer", "norm_place": "before"},
    "after": {"norm": "layer", "norm_place": "after"},
    "none": {"norm": "none"},
}
LABELS = {"before": "norm before each part", "after": "norm after each part", "none": "no norm"}


class Norm(Claim):
    """Train with and without normalisation, each with the learning rate that suits it best."""

    name, title = "f9", "layer normalisation"
    says = "Layer normalisation makes training faster."
    how = (
        f"Encoders of {DEPTH} layers learn to write a row backwards with the norm before or after each part, or "
        f"none. Each "
        f"takes the best of {len(RATES)} learning rates; counted are the steps until the loss is below {GOAL}, a "
        f"mean over "
        "seeds, with the whole budget for who never gets there."
    )

    def measure(self, setup: Setup) -> Numbers:
        """For each way the best rate, its steps to the goal by seed, and the curve of its first seed."""
        steps, seeds = setup.pick(300, 3), range(setup.pick(2, 1))
        found: Numbers = {"budget": steps, "steps": {}, "rate": {}, "curve": {}}
        for name, settings in WAYS.items():
            runs = {rate: [_curve(settings, rate, steps, setup, seed) for seed in seeds] for rate in RATES}
            needed = {rate: [_reached(curve) for curve in curves] for rate, curves in runs.items()}
            best = min(RATES, key=lambda rate: (sum(needed[rate]), sum(curve[-1] for curve in runs[rate])))
            found["steps"][name], found["rate"][name], found["curve"][name] = needed[best], best, runs[best][0]
        return found

    def judge(self, numbers: Numbers) -> list[Finding]:
        """The faster of the two places against none: a fifth fewer steps is faster."""
        mean = {name: sum(steps) / len(steps) for name, steps in numbers["steps"].items()}
        best = min(mean["before"], mean["after"])
        if best >= numbers["budget"]:
            return [Finding("a norm makes training faster", "nobody reached the goal", "inconclusive")]
        measured = f"{best:.0f} steps to a loss of {GOAL}, {_told(mean['none'], numbers['budget'])} without"
        return [Finding("a norm makes training faster", measured, at_least(mean["none"] / best, 1.2, 1.0))]

    def headline(self, numbers: Numbers) -> str:
        """Steps to the goal."""
        mean = {name: sum(steps) / len(steps) for name, steps in numbers["steps"].items()}
        told = {name: _told(steps, numbers["budget"]) for name, steps in mean.items()}
        return (
            f"Steps to a loss of {GOAL}: {told['before']} with the norm before, {told['after']} after, "
            f"{told['none']} with none"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        """Three curves and the goal."""
        axes = figure.subplots()
        for name, colour in zip(WAYS, (ATTENTION, MORE[1], RECURRENT), strict=True):
            label = f"{LABELS[name]} (rate {numbers['rate'][name]:g})"
            axes.plot(range(1, len(numbers["curve"][name]) + 1), numbers["curve"][name], color=colour, label=label)
        axes.axhline(GOAL, color="#999999", linestyle="--", linewidth=2)
        axes.set(xlabel="training steps", ylabel="loss", ylim=(0, 3.5))
        axes.legend()


def _told(steps: float, budget: int) -> str:
    return f"{steps:.0f}" if steps < budget else f"more than {budget}"


def _curve(settings: dict[str, Any], rate: float, steps: int, setup: Setup, seed: int) -> list[float]:
    generator = setup.seeded(seed)
    return smoothed(learn(encoder(DEPTH, **settings), drawn_loss(generator), steps, lr=rate))


def _reached(curve: list[float]) -> int:
    """The first step at which the smoothed loss is below the goal; all of them if it never is."""
    return next((step for step, loss in enumerate(curve, 1) if loss < GOAL), len(curve))
