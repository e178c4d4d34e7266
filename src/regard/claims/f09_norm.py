"""F9: layer normalisation speeds training up."""

from typing import Any

from matplotlib.figure import Figure

from regard.claims.claim import Claim, Finding, Numbers, at_least
from regard.claims.figure import ATTENTION, MORE, RECURRENT
from regard.claims.setup import Setup
from regard.claims.toy_training import reversal_encoder, sampled_reversal_loss, smoothed, train

DEPTH, GOAL = 4, 0.5
RATES = (1e-3, 3e-3, 1e-2)
VARIANTS: dict[str, dict[str, Any]] = {
    "before": {"norm": "layer", "norm_place": "before"},
    "after": {"norm": "layer", "norm_place": "after"},
    "none": {"norm": "none"},
}
LABELS = {"before": "pre-norm", "after": "post-norm", "none": "no norm"}


class Norm(Claim):
    """Steps to a loss with pre-norm, post-norm and no norm, each with its best learning rate."""

    name, title = "f9", "layer normalisation"
    says = "Layer normalisation makes training faster."
    how = (
        f"Encoders of {DEPTH} layers learn to reverse a sequence with pre-norm, post-norm or no norm, each with the "
        f"best of {len(RATES)} learning rates. Counted are the steps until the loss is below {GOAL}, a mean over "
        "seeds; a run that does not reach it counts with all its steps."
    )

    def measure(self, setup: Setup) -> Numbers:
        """For each variant the best rate, its steps to the goal by seed, and the curve of its first seed."""
        steps, seeds = setup.pick(300, 3), range(setup.pick(2, 1))
        numbers: Numbers = {"budget": steps, "steps": {}, "rate": {}, "curve": {}}
        for name, settings in VARIANTS.items():
            runs = {rate: [_curve(settings, rate, steps, setup, seed) for seed in seeds] for rate in RATES}
            needed = {rate: [_reached(curve) for curve in curves] for rate, curves in runs.items()}
            best = min(RATES, key=lambda rate: (sum(needed[rate]), sum(curve[-1] for curve in runs[rate])))
            numbers["steps"][name], numbers["rate"][name], numbers["curve"][name] = needed[best], best, runs[best][0]
        return numbers

    def check(self, numbers: Numbers) -> list[Finding]:
        """The faster of pre-norm and post-norm against no norm: faster means at least 1.2 times fewer steps."""
        mean = {name: sum(steps) / len(steps) for name, steps in numbers["steps"].items()}
        best = min(mean["before"], mean["after"])
        if best >= numbers["budget"]:
            return [Finding("a norm makes training faster", "no run reached the goal", "inconclusive")]
        measured = f"{best:.0f} steps to a loss of {GOAL}, {_steps_text(mean['none'], numbers['budget'])} without"
        return [Finding("a norm makes training faster", measured, at_least(mean["none"] / best, 1.2, 1.0))]

    def headline(self, numbers: Numbers) -> str:
        mean = {name: sum(steps) / len(steps) for name, steps in numbers["steps"].items()}
        steps = {name: _steps_text(count, numbers["budget"]) for name, count in mean.items()}
        return (
            f"Steps to a loss of {GOAL}: {steps['before']} with pre-norm, {steps['after']} with post-norm, "
            f"{steps['none']} without"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        axes = figure.subplots()
        for name, colour in zip(VARIANTS, (ATTENTION, MORE[1], RECURRENT), strict=True):
            label = f"{LABELS[name]} (rate {numbers['rate'][name]:g})"
            axes.plot(range(1, len(numbers["curve"][name]) + 1), numbers["curve"][name], color=colour, label=label)
        axes.axhline(GOAL, color="#999999", linestyle="--", linewidth=2)
        axes.set(xlabel="training steps", ylabel="loss", ylim=(0, 3.5))
        axes.legend()


def _steps_text(steps: float, budget: int) -> str:
    return f"{steps:.0f}" if steps < budget else f"more than {budget}"


def _curve(settings: dict[str, Any], rate: float, steps: int, setup: Setup, seed: int) -> list[float]:
    generator = setup.seeded(seed)
    return smoothed(train(reversal_encoder(DEPTH, **settings), sampled_reversal_loss(generator), steps, lr=rate))


def _reached(curve: list[float]) -> int:
    """The first step at which the smoothed loss is below the goal; all of them if it never is."""
    return next((step for step, loss in enumerate(curve, 1) if loss < GOAL), len(curve))
