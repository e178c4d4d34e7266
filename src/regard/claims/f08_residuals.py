"""F8: residuals smooth the loss landscape (Li 2018) and let deep stacks train; deep plain stacks degrade."""

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most
from regard.claims.learn import learn, smoothed
from regard.claims.reverse import batch, drawn_loss, encoder, loss_on
from regard.claims.setup import Setup
from regard.claims.style import ATTENTION, RECURRENT, at_end

DEPTHS = (2, 4, 8, 12)
LANDSCAPE_DEPTH = 4
REACH = 1.0
"""How far the landscape is drawn: directions are as long as the weights themselves."""
WAYS: dict[str, dict[str, Any]] = {
    "with": {"residual": True, "initialise": "normal"},
    "without": {"residual": False, "initialise": "xavier"},
}
"""Each with the first weights that suit it better: small ones die out where nothing is added to them."""


class Residuals(Claim):
    """Train deeper and deeper stacks both ways, then walk away from what they found in random directions."""

    name, title = "f8", "residual connections"
    says = "Residual connections smooth the loss surface and let deep stacks train; deep plain stacks degrade."
    how = (
        "Encoders of growing depth learn to write a row backwards, with residuals and without. Around the "
        "weights found, "
        "the loss along two random directions, filter by filter as long as the weights (Li 2018); its roughness is the "
        "share of downhill on the way outwards: none in a smooth bowl."
    )

    def measure(self, setup: Setup) -> Numbers:
        """The last training losses by depth, and two landscapes."""
        depths = setup.pick(DEPTHS, DEPTHS[:2])
        found: Numbers = {"depths": list(depths), "loss": {}, "landscape": {}, "rough": {}, "reach": REACH}
        for name, settings in WAYS.items():
            models = [_trained(depth, settings, setup) for depth in depths]
            found["loss"][name] = [loss for _, loss in models]
            chosen = models[depths.index(LANDSCAPE_DEPTH)][0]
            surfaces = [_landscape(chosen, setup, seed) for seed in range(setup.pick(2, 1))]
            found["landscape"][name] = surfaces[0]
            found["rough"][name] = sum(map(roughness, surfaces)) / len(surfaces)
        return found

    def judge(self, numbers: Numbers) -> list[Finding]:
        """The deepest against the best shallower loss, and the roughness of both landscapes."""
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
                    f"{rough['with']:.1%} of the way outwards leads downhill, {rough['without']:.1%} without",
                    at_least(rough["without"] - rough["with"], 0.02, 0.0)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        """The losses at the greatest depth."""
        return (
            f"{numbers['depths'][-1]} layers: loss {numbers['loss']['with'][-1]:.2f} with residuals, "
            f"{numbers['loss']['without'][-1]:.2f} without"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        """Loss by depth, and the two landscapes as contours."""
        axes = figure.subplot_mosaic("AB;AC")
        depths = numbers["depths"]
        for name, colour in (("with", ATTENTION), ("without", RECURRENT)):
            axes["A"].plot(depths, numbers["loss"][name], "o-", color=colour)
            at_end(axes["A"], depths, numbers["loss"][name], f"{name}\nresiduals", colour)
        axes["A"].set(xlabel="layers", ylabel="loss after training", xlim=(0, depths[-1] * 1.35))
        axes["A"].set_xticks(depths)
        for letter, name in zip("BC", WAYS, strict=True):
            surface = np.array(numbers["landscape"][name])
            places = np.linspace(-numbers["reach"], numbers["reach"], len(surface))
            axes[letter].contour(places, places, surface, levels=18, cmap="viridis", linewidths=2)
            axes[letter].set_title(f"landscape {name} residuals", fontsize=18)
            axes[letter].set(xticks=[], yticks=[], aspect="equal")
            axes[letter].grid(visible=False)


def _trained(depth: int, settings: dict[str, Any], setup: Setup) -> tuple[nn.Module, float]:
    generator = setup.seeded(depth)
    model = encoder(depth, **settings)
    losses = learn(model, drawn_loss(generator), setup.pick(400, 3), lr=2e-3)
    return model, smoothed(losses)[-1]


def _landscape(model: nn.Module, setup: Setup, seed: int) -> list[list[float]]:
    """The loss on fixed rows over a square of two random directions around the model's weights."""
    generator = setup.seeded(100 + seed)
    loss = loss_on(*batch(128, generator))
    centre = [parameter.detach().clone() for parameter in model.parameters()]
    one, other = _direction(centre, generator), _direction(centre, generator)
    places = torch.linspace(-REACH, REACH, setup.pick(17, 5)).tolist()

    def at(x: float, y: float) -> float:
        _put(model, [weight + x * a + y * b for weight, a, b in zip(centre, one, other, strict=True)])
        return float(loss(model))

    with torch.no_grad():
        surface = [[at(x, y) for x in places] for y in places]
        _put(model, centre)
    return surface


def _direction(centre: list[Tensor], generator: torch.Generator) -> list[Tensor]:
    """Random numbers, each row of each matrix as long as the model's own; gains and biases stay where they are."""
    found = []
    for weight in centre:
        random = torch.randn(weight.shape, generator=generator)
        same = random * (weight.norm(dim=-1, keepdim=True) / random.norm(dim=-1, keepdim=True))
        found.append(same if weight.dim() > 1 else torch.zeros_like(weight))
    return found


def _put(model: nn.Module, weights: list[Tensor]) -> None:
    for parameter, weight in zip(model.parameters(), weights, strict=True):
        parameter.copy_(weight)


def roughness(surface: list[list[float]]) -> float:
    """How much of all change along rays from the middle to the border leads down: 0 in a bowl, 0.5 in noise."""
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
