"""F16: loss falls as a power law in size, data and compute."""

from itertools import count

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
WIDTH, ALL_SENTENCES = 32, 20_000
CONTEXT, ROWS = 32, 24
AXES = {"size": "parameters", "data": "sentences", "compute": "training FLOPs"}


class PowerLaw(Claim):
    name, title = "f16", "power laws"
    says = "The loss falls as a power law in the size of the model, in the data and in the compute (Kaplan 2020)."
    how = (
        "Small decoders train on the embedded corpus: several widths on all data, one width on parts of it, and one "
        "width for longer and longer. Held-out loss against each, and how much of its variance a power law explains."
    )

    def measure(self, setup: Setup) -> Numbers:
        rungs, vocab = setup.pick(len(WIDTHS), 3), len(vocabulary()) + 1
        step_flops = 3 * _config(WIDTH).flops(ROWS, CONTEXT, vocab)

        def loss(width: int = WIDTH, sentences: int = ALL_SENTENCES, steps: int = STEPS[-1]) -> float:
            return _loss(width, sentences, setup.pick(steps, 2), setup)

        ladders = {
            "size": [[_config(width).num_params(vocab), loss(width=width)] for width in WIDTHS[:rungs]],
            "data": [[sentences, loss(sentences=sentences)] for sentences in SENTENCES[:rungs]],
            "compute": [[steps * step_flops, loss(steps=steps)] for steps in STEPS[:rungs]],
        }
        return {"ladders": ladders}

    def check(self, numbers: Numbers) -> list[Finding]:
        """The loss must fall by at least 5 %, and a power law must explain nearly all of it."""
        findings: list[Finding] = []
        for name, label in AXES.items():
            ladder = numbers["ladders"][name]
            exponent, explained = fit(ladder)
            measured = f"loss ~ ({label})^{exponent:.3f}, explains {explained:.1%}"
            verdict = both(at_least(explained, 0.95, 0.85), at_least(ladder[0][1] / ladder[-1][1], 1.05, 1.0))
            findings.append(Finding(f"in {name}", measured, verdict))
        return findings

    def headline(self, numbers: Numbers) -> str:
        fits = {name: fit(numbers["ladders"][name]) for name in AXES}
        exponents = [f"{name} {exponent:.2f} ({explained:.0%})" for name, (exponent, explained) in fits.items()]
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


def _loss(width: int, sentences: int, steps: int, setup: Setup) -> float:
    """The best held-out loss of a model during training on so many sentences, before it overfits."""
    generator = setup.seeded(width)
    text, held_out = token_stream("train", min(sentences, setup.pick(sentences, 500))), token_stream("valid", 1000)
    model, step = _config(width).build(len(vocabulary()) + 1), count(1)
    losses: list[float] = []

    def held_out_loss() -> float:
        tokens = sample_rows(held_out, setup.pick(128, 8), CONTEXT + 1, torch.Generator().manual_seed(setup.seed))
        with torch.no_grad():
            return float(next_token_loss(model, tokens))

    def watched_loss(model: nn.Module) -> Tensor:
        if next(step) % max(1, steps // 5) == 0:
            losses.append(held_out_loss())
        return next_token_loss(model, sample_rows(text, ROWS, CONTEXT + 1, generator))

    train(model, watched_loss, steps, lr=5e-3)
    return min([*losses, held_out_loss()])
