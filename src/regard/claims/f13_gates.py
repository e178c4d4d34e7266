"""F13: gating (LSTM) fights vanishing gradients but the path stays linear."""

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard.claims.claim import Claim, Finding, Numbers, at_least
from regard.claims.f02_f03_paths import recurrent_path
from regard.claims.figure import ATTENTION, MORE, RECURRENT, label_line
from regard.claims.setup import Setup, accuracy, growth_rate, train
from regard.models import RecurrentDecoderConfig
from regard.models.recurrent.single_stack import RecurrentDecoder
from regard.nn.layout import Sequences
from regard.nn.recurrent import Cell

CELLS: tuple[Cell, ...] = ("rnn", "gru", "lstm")
WIDTH, LENGTH, VOCAB = 64, 64, 8
PATHS = (8, 32, 64)
LOST = 1e-12
"""Gradients below this are lost in float32."""


class Gates(Claim):
    name, title = "f13", "gating against vanishing"
    says = (
        "Gates, as in the LSTM, fight vanishing gradients, but the path between two words stays as long as their "
        "distance."
    )
    how = (
        f"Models trained to name the first of {LENGTH // 4} random words: the gradient of the last output of a row of "
        f"{LENGTH} with respect to each word, relative to the last word's, and how often they recall the first word. "
        "Then the matrix products on the shortest path, as in F2."
    )

    def measure(self, setup: Setup) -> Numbers:
        distances = list(range(setup.pick(LENGTH, 16)))
        numbers: Numbers = {"distances": distances, "gradient": {}, "remembered": {}, "lengths": list(PATHS)}
        for cell in CELLS:
            model, remembered = _trained(cell, setup)
            numbers["gradient"][cell] = _gradients(model, len(distances), setup)
            numbers["remembered"][cell] = remembered
        numbers["path"] = [recurrent_path("lstm", length) for length in PATHS]
        return numbers

    def check(self, numbers: Numbers) -> list[Finding]:
        left = {cell: values[-1] for cell, values in numbers["gradient"].items()}
        gained = _log10(left["lstm"]) - _log10(left["rnn"])
        grown = growth_rate(numbers["lengths"], numbers["path"])
        far = numbers["distances"][-1]
        return [
            Finding("gates keep gradients alive",
                    f"{far} words back the LSTM's is {_share(left['lstm'])} of the last word's, the RNN's "
                    f"{_share(left['rnn'])}",
                    at_least(gained, 1.0, 0.0)),
            Finding("the LSTM's path stays linear", f"{grown:.2f} products per word", at_least(grown, 0.9, 0.5)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        left = {cell: values[-1] for cell, values in numbers["gradient"].items()}
        return (
            f"{numbers['distances'][-1]} words back, {_share(left['lstm'])} of an LSTM's gradient is left, "
            f"{_share(left['rnn'])} of an RNN's; the path is {numbers['path'][-1]} products for both"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        axes, distances = figure.subplots(), numbers["distances"]
        for cell, colour in zip(CELLS, (RECURRENT, MORE[1], ATTENTION), strict=True):
            values = [max(value, LOST) for value in numbers["gradient"][cell]]
            axes.semilogy(distances, values, color=colour)
            label_line(axes, distances, values, cell.upper(), colour)
        axes.set(xlabel="words back from the last one", ylabel="gradient, relative to the last word's")
        axes.set_xlim(0, distances[-1] * 1.18)


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.01 else f"{value:.0e}" if value > LOST else "nothing"


def _log10(value: float) -> float:
    return float(torch.log10(torch.tensor(max(value, LOST))))


def _trained(cell: Cell, setup: Setup) -> tuple[RecurrentDecoder, float]:
    """A model trained to name the first word at the end of a row, and its accuracy."""
    generator = setup.seeded()
    config = RecurrentDecoderConfig.from_tree({"cell": cell, "width": WIDTH, "depth": 1, "dropout": 0.0})
    model = config.build(VOCAB)

    def loss_of(model: nn.Module) -> Tensor:
        tokens = torch.randint(VOCAB, (64, LENGTH // 4), generator=generator)
        return F.cross_entropy(model(Sequences.full(tokens))[:, -1], tokens[:, 0])

    train(model, loss_of, setup.pick(500, 3), lr=3e-3)
    tokens = torch.randint(VOCAB, (1000, LENGTH // 4), generator=generator)
    with torch.no_grad():
        return model, accuracy(model(Sequences.full(tokens))[:, -1], tokens[:, 0])


def _gradients(model: RecurrentDecoder, length: int, setup: Setup) -> list[float]:
    """Gradient norms of the last output by word vector, from the last word back, relative to the last word's."""
    generator = setup.seeded(1)
    tokens = torch.randint(VOCAB, (64, length), generator=generator)
    x = model.embedding(tokens).detach().requires_grad_()
    last = model.stack(x)[0][:, -1]
    direction = torch.randn(last.shape, generator=generator)
    gradient = torch.autograd.grad((last * direction).sum(), x)[0].norm(dim=-1).mean(0).flip(0)
    return (gradient / gradient[0]).tolist()
