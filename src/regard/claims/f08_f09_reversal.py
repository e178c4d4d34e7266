"""F8: residuals smooth the loss landscape (Li 2018) and let deep stacks train; deep plain stacks degrade.
F9: layer normalisation speeds training up.

Both train small encoders to reverse a sequence.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most
from regard.claims.figure import ATTENTION, MORE, RECURRENT, label_line
from regard.claims.setup import Setup, mean, smoothed, train
from regard.models import EncoderConfig
from regard.nn.layout import Sequences

VOCAB, LENGTH, ROWS = 16, 8, 32
DEPTHS = (2, 4, 8, 12)
LANDSCAPE_DEPTH = 4
REACH = 1.0
"""Half the side of the landscape, in units of the weights' norms."""
RESIDUALS = {
    "with": {"residual": True, "initialise": "normal"},
    "without": {"residual": False, "initialise": "xavier"},
}
"""Each with the initialisation that suits it better: activations vanish without residuals if weights are small."""
DEPTH, GOAL = 4, 0.5
RATES = (1e-3, 3e-3, 1e-2)
NORMS = {
    "before": {"norm": "layer", "norm_place": "before"},
    "after": {"norm": "layer", "norm_place": "after"},
    "none": {"norm": "none"},
}
LABELS = {"before": "pre-norm", "after": "post-norm", "none": "no norm"}


class Residuals(Claim):
    name, title = "f8", "residual connections"
    says = "Residual connections smooth the loss surface and let deep stacks train; deep plain stacks degrade."
    how = (
        "Encoders of growing depth learn to reverse a sequence, with residuals and without. Around the trained "
        "weights, the loss along two random directions with filter-wise normalisation (Li 2018); its roughness is the "
        "share of descent on the way outwards: zero in a smooth bowl."
    )

    def measure(self, setup: Setup) -> Numbers:
        depths = setup.pick(DEPTHS, DEPTHS[:2])
        numbers: Numbers = {"depths": list(depths), "loss": {}, "landscape": {}, "rough": {}, "reach": REACH}
        for name, settings in RESIDUALS.items():
            models = [_trained(depth, settings, setup) for depth in depths]
            numbers["loss"][name] = [loss for _, loss in models]
            chosen = models[depths.index(LANDSCAPE_DEPTH)][0]
            surfaces = [_landscape(chosen, setup, seed) for seed in range(setup.pick(2, 1))]
            numbers["landscape"][name] = surfaces[0]
            numbers["rough"][name] = mean([roughness(surface) for surface in surfaces])
        return numbers

    def check(self, numbers: Numbers) -> list[Finding]:
        connected, plain = numbers["loss"]["with"], numbers["loss"]["without"]
        rough = numbers["rough"]
        deepest = numbers["depths"][-1]
        return [
            Finding(f"{deepest} plain layers do worse than fewer",
                    f"loss {plain[-1]:.2f}, at best {min(plain):.2f}", at_least(plain[-1] - min(plain), 0.3, 0.05)),
            Finding(f"{deepest} layers with residuals do not",
                    f"loss {connected[-1]:.2f}, at best {min(connected):.2f}",
                    at_most(connected[-1] - min(connected), 0.15, 0.5)),
            Finding("residuals smooth the landscape",
                    f"{rough['with']:.1%} of the way outwards descends, {rough['without']:.1%} without",
                    at_least(rough["without"] - rough["with"], 0.02, 0.0)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        return (
            f"{numbers['depths'][-1]} layers: loss {numbers['loss']['with'][-1]:.2f} with residuals, "
            f"{numbers['loss']['without'][-1]:.2f} without"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        axes = figure.subplot_mosaic("AB;AC")
        depths = numbers["depths"]
        for name, colour in (("with", ATTENTION), ("without", RECURRENT)):
            axes["A"].plot(depths, numbers["loss"][name], "o-", color=colour)
            label_line(axes["A"], depths, numbers["loss"][name], f"{name}\nresiduals", colour)
        axes["A"].set(xlabel="layers", ylabel="loss after training", xlim=(0, depths[-1] * 1.35))
        axes["A"].set_xticks(depths)
        for letter, name in zip("BC", RESIDUALS, strict=True):
            surface = np.array(numbers["landscape"][name])
            offsets = np.linspace(-numbers["reach"], numbers["reach"], len(surface))
            axes[letter].contour(offsets, offsets, surface, levels=18, cmap="viridis", linewidths=2)
            axes[letter].set_title(f"landscape {name} residuals", fontsize=18)
            axes[letter].set(xticks=[], yticks=[], aspect="equal")
            axes[letter].grid(visible=False)


class Norm(Claim):
    name, title = "f9", "layer normalisation"
    says = "Layer normalisation makes training faster."
    how = (
        f"Encoders of {DEPTH} layers learn to reverse a sequence with pre-norm, post-norm or no norm, each with the "
        f"best of {len(RATES)} learning rates. Counted are the steps until the loss is below {GOAL}, a mean over "
        "seeds; a run that does not reach it counts with all its steps."
    )

    def measure(self, setup: Setup) -> Numbers:
        steps, seeds = setup.pick(300, 3), range(setup.pick(2, 1))
        numbers: Numbers = {"budget": steps, "steps": {}, "rate": {}, "curve": {}}
        for name, settings in NORMS.items():
            runs = {rate: [_curve(settings, rate, steps, setup, seed) for seed in seeds] for rate in RATES}
            needed = {rate: [_reached(curve) for curve in curves] for rate, curves in runs.items()}
            best = min(RATES, key=lambda rate: (sum(needed[rate]), sum(curve[-1] for curve in runs[rate])))
            numbers["steps"][name], numbers["rate"][name], numbers["curve"][name] = needed[best], best, runs[best][0]
        return numbers

    def check(self, numbers: Numbers) -> list[Finding]:
        """The faster of pre-norm and post-norm against no norm: faster means at least 1.2 times fewer steps."""
        needed = {name: mean(steps) for name, steps in numbers["steps"].items()}
        best = min(needed["before"], needed["after"])
        if best >= numbers["budget"]:
            return [Finding("a norm makes training faster", "no run reached the goal", "inconclusive")]
        measured = f"{best:.0f} steps to a loss of {GOAL}, {_steps_text(needed['none'], numbers['budget'])} without"
        return [Finding("a norm makes training faster", measured, at_least(needed["none"] / best, 1.2, 1.0))]

    def headline(self, numbers: Numbers) -> str:
        steps = {name: _steps_text(mean(counts), numbers["budget"]) for name, counts in numbers["steps"].items()}
        return (
            f"Steps to a loss of {GOAL}: {steps['before']} with pre-norm, {steps['after']} with post-norm, "
            f"{steps['none']} without"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        axes = figure.subplots()
        for name, colour in zip(NORMS, (ATTENTION, MORE[1], RECURRENT), strict=True):
            label = f"{LABELS[name]} (rate {numbers['rate'][name]:g})"
            axes.plot(range(1, len(numbers["curve"][name]) + 1), numbers["curve"][name], color=colour, label=label)
        axes.axhline(GOAL, color="#999999", linestyle="--", linewidth=2)
        axes.set(xlabel="training steps", ylabel="loss", ylim=(0, 3.5))
        axes.legend()


def reversal_encoder(depth: int, settings: Mapping[str, object]) -> nn.Module:
    """A small encoder that predicts a token at each position."""
    shape = {"width": 32, "heads": 4, "dropout": 0.0, "depth": depth, "feedforward": {"kind": "plain", "hidden": 64}}
    return EncoderConfig.from_tree({**shape, **settings}).build(VOCAB)


def reversal_loss(rows: int, generator: torch.Generator) -> Callable[[nn.Module], Tensor]:
    """The cross-entropy of a model on one batch of random sequences, whose targets are the same reversed."""
    tokens = torch.randint(VOCAB, (rows, LENGTH), generator=generator)
    return lambda model: F.cross_entropy(model(Sequences.full(tokens)).flatten(0, 1), tokens.flip(1).flatten())


def _train(model: nn.Module, steps: int, lr: float, generator: torch.Generator) -> list[float]:
    """The smoothed losses of training, with a new batch at each step."""
    return smoothed(train(model, lambda model: reversal_loss(ROWS, generator)(model), steps, lr))


def _trained(depth: int, settings: Mapping[str, object], setup: Setup) -> tuple[nn.Module, float]:
    generator = setup.seeded(depth)
    model = reversal_encoder(depth, settings)
    return model, _train(model, setup.pick(400, 3), 2e-3, generator)[-1]


def _landscape(model: nn.Module, setup: Setup, seed: int) -> list[list[float]]:
    """The loss of a fixed batch on a grid of two random directions around the model's weights."""
    generator = setup.seeded(100 + seed)
    loss = reversal_loss(128, generator)
    centre = [parameter.detach().clone() for parameter in model.parameters()]
    first, second = _direction(centre, generator), _direction(centre, generator)
    offsets = torch.linspace(-REACH, REACH, setup.pick(17, 5)).tolist()

    def at(x: float, y: float) -> float:
        _set_weights(model, [weight + x * a + y * b for weight, a, b in zip(centre, first, second, strict=True)])
        return float(loss(model))

    with torch.no_grad():
        surface = [[at(x, y) for x in offsets] for y in offsets]
        _set_weights(model, centre)
    return surface


def _direction(centre: list[Tensor], generator: torch.Generator) -> list[Tensor]:
    """A random direction with the norm of each row of the weight matrices; zero for gains and biases."""
    direction: list[Tensor] = []
    for weight in centre:
        random = torch.randn(weight.shape, generator=generator)
        normalised = random * (weight.norm(dim=-1, keepdim=True) / random.norm(dim=-1, keepdim=True))
        direction.append(normalised if weight.dim() > 1 else torch.zeros_like(weight))
    return direction


def _set_weights(model: nn.Module, weights: list[Tensor]) -> None:
    for parameter, weight in zip(model.parameters(), weights, strict=True):
        parameter.copy_(weight)


def roughness(surface: list[list[float]]) -> float:
    """The share of descent in all change along rays from the centre outwards: 0 in a bowl, 0.5 in noise."""
    grid = np.array(surface)
    middle = len(grid) // 2
    down = total = 0.0
    for angle in np.linspace(0, 2 * np.pi, 16, endpoint=False):
        radius = np.arange(middle + 1)
        rows = np.rint(middle + radius * np.sin(angle)).astype(int)
        columns = np.rint(middle + radius * np.cos(angle)).astype(int)
        change = np.diff(grid[rows, columns])
        down += float(-change[change < 0].sum())
        total += float(np.abs(change).sum())
    return down / total if total else 0.0


def _curve(settings: Mapping[str, object], rate: float, steps: int, setup: Setup, seed: int) -> list[float]:
    generator = setup.seeded(seed)
    return _train(reversal_encoder(DEPTH, settings), steps, rate, generator)


def _reached(curve: list[float]) -> int:
    """The first step at which the smoothed loss is below the goal; all of them if it never is."""
    return next((step for step, loss in enumerate(curve, 1) if loss < GOAL), len(curve))


def _steps_text(steps: float, budget: int) -> str:
    return f"{steps:.0f}" if steps < budget else f"more than {budget}"
