"""F8: residuals smooth the loss landscape (Li 2018) and let deep stacks train; deep plain stacks degrade."""

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most
from regard.claims.figure import ATTENTION, RECURRENT, label_line
from regard.claims.setup import Setup
from regard.claims.toy_training import (
    reversal_batch,
    reversal_encoder,
    reversal_loss,
    sampled_reversal_loss,
    smoothed,
    train,
)

DEPTHS = (2, 4, 8, 12)
LANDSCAPE_DEPTH = 4
REACH = 1.0
"""Half the side of the landscape, in units of the weights' norms."""
VARIANTS: dict[str, dict[str, Any]] = {
    "with": {"residual": True, "initialise": "normal"},
    "without": {"residual": False, "initialise": "xavier"},
}
"""Each with the initialisation that suits it better: activations vanish without residuals if weights are small."""


class Residuals(Claim):
    """The loss by depth with and without residuals, and the loss landscape around the trained weights."""

    name, title = "f8", "residual connections"
    says = "Residual connections smooth the loss surface and let deep stacks train; deep plain stacks degrade."
    how = (
        "Encoders of growing depth learn to reverse a sequence, with residuals and without. Around the trained "
        "weights, the loss along two random directions with filter-wise normalisation (Li 2018); its roughness is the "
        "share of descent on the way outwards: zero in a smooth bowl."
    )

    def measure(self, setup: Setup) -> Numbers:
        """The last training losses by depth, and two landscapes."""
        depths = setup.pick(DEPTHS, DEPTHS[:2])
        numbers: Numbers = {"depths": list(depths), "loss": {}, "landscape": {}, "rough": {}, "reach": REACH}
        for name, settings in VARIANTS.items():
            models = [_trained(depth, settings, setup) for depth in depths]
            numbers["loss"][name] = [loss for _, loss in models]
            chosen = models[depths.index(LANDSCAPE_DEPTH)][0]
            surfaces = [_landscape(chosen, setup, seed) for seed in range(setup.pick(2, 1))]
            numbers["landscape"][name] = surfaces[0]
            numbers["rough"][name] = sum(map(roughness, surfaces)) / len(surfaces)
        return numbers

    def check(self, numbers: Numbers) -> list[Finding]:
        """The deepest stack's loss against the best one, and the roughness of both landscapes."""
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
        for letter, name in zip("BC", VARIANTS, strict=True):
            surface = np.array(numbers["landscape"][name])
            offsets = np.linspace(-numbers["reach"], numbers["reach"], len(surface))
            axes[letter].contour(offsets, offsets, surface, levels=18, cmap="viridis", linewidths=2)
            axes[letter].set_title(f"landscape {name} residuals", fontsize=18)
            axes[letter].set(xticks=[], yticks=[], aspect="equal")
            axes[letter].grid(visible=False)


def _trained(depth: int, settings: dict[str, Any], setup: Setup) -> tuple[nn.Module, float]:
    generator = setup.seeded(depth)
    model = reversal_encoder(depth, **settings)
    losses = train(model, sampled_reversal_loss(generator), setup.pick(400, 3), lr=2e-3)
    return model, smoothed(losses)[-1]


def _landscape(model: nn.Module, setup: Setup, seed: int) -> list[list[float]]:
    """The loss of a fixed batch on a grid of two random directions around the model's weights."""
    generator = setup.seeded(100 + seed)
    loss = reversal_loss(*reversal_batch(128, generator))
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
    direction = []
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
