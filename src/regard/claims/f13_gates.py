"""F13: gating (LSTM) fights vanishing gradients but the path stays linear."""

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard.claims import graph
from regard.claims.claim import Claim, Finding, Numbers, at_least
from regard.claims.learn import learn
from regard.claims.setup import Setup
from regard.claims.style import ATTENTION, MORE, RECURRENT, at_end
from regard.claims.timing import slope
from regard.models import RecurrentDecoderConfig
from regard.nn.layout import Sequences
from regard.nn.recurrent.layers import Cell

CELLS: tuple[Cell, ...] = ("rnn", "gru", "lstm")
WIDTH, LENGTH, VOCAB = 64, 64, 8
PATHS = (8, 32, 64)
NOTHING = 1e-12
"""Gradients from which on nothing is learnt in this number format."""


class Gates(Claim):
    """Follow gradients back through time in RNN, GRU and LSTM, and let them remember a word."""

    name, title = "f13", "gating against vanishing"
    says = (
        "Gates, as in the LSTM, fight vanishing gradients, but the path between two words stays as long "
        "as their distance."
    )
    how = (
        f"Models that were trained to name the first of {LENGTH // 4} random words: how strongly the last output "
        f"of a row "
        f"of {LENGTH} depends on each word (its gradient, relative to the last word's), and how often they "
        f"remember. Then "
        "the products on the shortest path, as in F2."
    )

    def measure(self, setup: Setup) -> Numbers:
        """Gradients by distance, accuracy, and path lengths, by cell."""
        distances = list(range(setup.pick(LENGTH, 16)))
        found: Numbers = {"distances": distances, "gradient": {}, "remembered": {}, "lengths": list(PATHS)}
        for cell in CELLS:
            model, remembered = _trained(cell, setup)
            found["gradient"][cell] = _gradients(model, len(distances), setup)
            found["remembered"][cell] = remembered
        found["path"] = [_path(length) for length in PATHS]
        return found

    def judge(self, numbers: Numbers) -> list[Finding]:
        """The gradient that is left at the far end, in powers of ten; the slope of the path."""
        left = {cell: values[-1] for cell, values in numbers["gradient"].items()}
        gained = _tens(left["lstm"]) - _tens(left["rnn"])
        grown = slope(numbers["lengths"], numbers["path"])
        far = numbers["distances"][-1]
        return [
            Finding("gates keep gradients alive",
                    f"{far} words back the LSTM's is {_told(left['lstm'])} of the last word's, the RNN's "
                    f"{_told(left['rnn'])}",
                    at_least(gained, 1.0, 0.0)),
            Finding("the LSTM's path stays linear", f"{grown:.2f} products a word", at_least(grown, 0.9, 0.5)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        """The gradients at the far end, and the path."""
        left = {cell: values[-1] for cell, values in numbers["gradient"].items()}
        return (
            f"{numbers['distances'][-1]} words back, {_told(left['lstm'])} of an LSTM's gradient is left, "
            f"{_told(left['rnn'])} "
            f"of an RNN's; the path is {numbers['path'][-1]} products for both"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        """Gradients over distance."""
        axes, distances = figure.subplots(), numbers["distances"]
        for cell, colour in zip(CELLS, (RECURRENT, MORE[1], ATTENTION), strict=True):
            values = [max(value, NOTHING) for value in numbers["gradient"][cell]]
            axes.semilogy(distances, values, color=colour)
            at_end(axes, distances, values, cell.upper(), colour)
        axes.set(xlabel="words back from the last one", ylabel="gradient, relative to the last word's")
        axes.set_xlim(0, distances[-1] * 1.18)


def _told(value: float) -> str:
    return f"{value:.0%}" if value >= 0.01 else f"{value:.0e}" if value > NOTHING else "nothing"


def _tens(value: float) -> float:
    return float(torch.log10(torch.tensor(max(value, NOTHING))))


def _trained(cell: Cell, setup: Setup) -> tuple[nn.Module, float]:
    """A model that learnt to name the first word at the end of a row, and how often it does."""
    generator = setup.seeded()
    config = RecurrentDecoderConfig.from_tree({"cell": cell, "width": WIDTH, "depth": 1, "dropout": 0.0})
    model = config.build(VOCAB)

    def loss_of(model: nn.Module) -> Tensor:
        tokens = torch.randint(VOCAB, (64, LENGTH // 4), generator=generator)
        return F.cross_entropy(model(Sequences.full(tokens))[:, -1], tokens[:, 0])

    learn(model, loss_of, setup.pick(500, 3), lr=3e-3)
    tokens = torch.randint(VOCAB, (1000, LENGTH // 4), generator=generator)
    with torch.no_grad():
        return model, float((model(Sequences.full(tokens))[:, -1].argmax(-1) == tokens[:, 0]).float().mean())


def _gradients(model: nn.Module, length: int, setup: Setup) -> list[float]:
    """The norm of the last output's gradient by each word's vector, from the last word back, the last one's being 1."""
    generator = setup.seeded(1)
    tokens = torch.randint(VOCAB, (64, length), generator=generator)
    x = model.embedding(tokens).detach().requires_grad_()  # type: ignore[operator]
    last = model.stack(x)[0][:, -1]  # type: ignore[operator]
    direction = torch.randn(last.shape, generator=generator)
    gradient = torch.autograd.grad((last * direction).sum(), x)[0].norm(dim=-1).mean(0).flip(0)
    return (gradient / gradient[0]).tolist()


def _path(length: int) -> int:
    tokens = graph.leaves(length, 8)
    path = graph.shortest(graph.token_by_token(graph.recurrent("lstm", 8), tokens), tokens[0])
    assert path is not None
    return path
