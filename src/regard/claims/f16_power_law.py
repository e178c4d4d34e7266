"""F16: loss falls as a power law in size, data and compute."""

import math

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard.claims.claim import Claim, Finding, Numbers, at_least, both
from regard.claims.figure import ATTENTION, RECURRENT, WINDOWS
from regard.claims.setup import Setup, next_token_loss, sample_rows, token_stream, train, vocabulary
from regard.models import DecoderConfig

WIDTHS = (4, 8, 16, 32, 64)
SENTENCES = (125, 250, 500, 1000, 2000)
STEPS = (25, 50, 100, 200, 400)
LARGEST, CONTEXT, ROWS = 64, 32, 24
AXES = {"size": "parameters", "data": "sentences", "compute": "training FLOPs"}


class PowerLaw(Claim):
    name, title = "f16", "power laws"
    says = "The loss falls as a power law in the size of the model, in the data and in the compute (Kaplan 2020)."
    how = (
        "Small decoders train on the embedded corpus: several widths on all data, one width on parts of it, and one "
        "width for longer and longer. Held-out loss against each, and how much of its variance a power law explains."
    )

    def measure(self, setup: Setup) -> Numbers:
        many, steps = 20_000, STEPS[-1]
        count = setup.pick(len(WIDTHS), 3)
        ladders: dict[str, list[list[float]]] = {"size": [], "data": [], "compute": []}
        for width in WIDTHS[:count]:
            ladders["size"].append([_params(width), _loss(width, many, setup.pick(steps, 2), setup)])
        for sentences in SENTENCES[:count]:
            ladders["data"].append([sentences, _loss(LARGEST // 2, sentences, setup.pick(steps, 2), setup)])
        for number in STEPS[:count]:
            loss = _loss(LARGEST // 2, many, setup.pick(number, 2), setup)
            ladders["compute"].append([number * _step_flops(LARGEST // 2), loss])
        return {"ladders": ladders}

    def check(self, numbers: Numbers) -> list[Finding]:
        """The loss must fall by at least 5 %, and a power law must explain nearly all of it."""
        findings = []
        for name, label in AXES.items():
            exponent, explained = fit(numbers["ladders"][name])
            first, last = numbers["ladders"][name][0][1], numbers["ladders"][name][-1][1]
            verdict = both(at_least(explained, 0.95, 0.85), at_least(first / last, 1.05, 1.0))
            findings.append(
                Finding(f"in {name}", f"loss ~ ({label})^{exponent:.3f}, explains {explained:.1%}", verdict)
            )
        return findings

    def headline(self, numbers: Numbers) -> str:
        exponents = [
            f"{name} {fit(numbers['ladders'][name])[0]:.2f} ({fit(numbers['ladders'][name])[1]:.0%})" for name in AXES
        ]
        return "Exponents of the loss, and the variance that a power law explains: " + ", ".join(exponents)

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        panels = figure.subplots(1, 3, sharey=True)
        for axes, (name, label), colour in zip(panels, AXES.items(), (ATTENTION, WINDOWS, RECURRENT), strict=True):
            x, y = np.array(numbers["ladders"][name]).T
            line = np.polyfit(np.log(x), np.log(y), 1)
            axes.loglog(x, np.exp(np.polyval(line, np.log(x))), "--", color="#999999", linewidth=2)
            axes.loglog(x, y, "o", color=colour, markersize=14)
            axes.set(xlabel=label, title=name)
            axes.minorticks_off()
        panels[0].set_ylabel("held-out loss")
        low, high = (f([point[1] for ladder in numbers["ladders"].values() for point in ladder]) for f in (min, max))
        ticks = np.geomspace(low, high, 4)
        panels[0].set_yticks(ticks, [f"{tick:.1f}" for tick in ticks])


def fit(points: list[list[float]]) -> tuple[float, float]:
    """The exponent of a power law through points, and the share of the variance of log y that it explains."""
    x, y = np.log(np.array(points)).T
    line = np.polyfit(x, y, 1)
    spread = float(((y - y.mean()) ** 2).sum())
    return float(line[0]), 1 - float(((y - np.polyval(line, x)) ** 2).sum()) / spread if spread else 0.0


def _config(width: int) -> DecoderConfig:
    return DecoderConfig.from_tree({"width": width, "depth": 2, "heads": max(1, width // 16), "dropout": 0.0})


def _params(width: int) -> int:
    return _config(width).num_params(len(vocabulary()) + 1)


def _step_flops(width: int) -> int:
    return 3 * _config(width).flops(ROWS, CONTEXT, len(vocabulary()) + 1)


def _loss(width: int, sentences: int, steps: int, setup: Setup) -> float:
    """The best held-out loss of a model during training on so many sentences, before it overfits."""
    generator = setup.seeded(width)
    text, held_out = token_stream("train", min(sentences, setup.pick(sentences, 500))), token_stream("valid", 1000)
    model, best = _config(width).build(len(vocabulary()) + 1), math.inf

    def watched_loss(model: nn.Module) -> Tensor:
        nonlocal best, step
        step += 1
        if step % max(1, steps // 5) == 0:
            best = min(best, _held_out(model, held_out, setup))
        return next_token_loss(model, sample_rows(text, ROWS, CONTEXT + 1, generator))

    step = 0
    train(model, watched_loss, steps, lr=5e-3)
    return min(best, _held_out(model, held_out, setup))


def _held_out(model: nn.Module, text: Tensor, setup: Setup) -> float:
    tokens = sample_rows(text, setup.pick(128, 8), CONTEXT + 1, torch.Generator().manual_seed(setup.seed))
    with torch.no_grad():
        return float(next_token_loss(model, tokens))
