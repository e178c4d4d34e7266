"""F1: self-attention ignores order; positions restore it."""

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most, both
from regard.claims.figure import ATTENTION, OTHER, bars
from regard.claims.setup import Setup, accuracy, train
from regard.models import EncoderConfig
from regard.nn.layout import Sequences

VOCAB, LENGTH = 16, 8
KINDS = ("none", "sinusoidal", "learned", "relative", "rotary", "t5", "alibi")
EXACT, CLEAR = 1e-5, 1e-3
"""Relative changes: at most rounding, and clearly more than rounding."""


class Order(Claim):
    name, title = "f1", "self-attention ignores order"
    says = "Self-attention ignores the order of its input; position representations restore it."
    how = (
        "Shuffle the tokens of a sequence and undo the shuffle at the output of an encoder: the relative change is "
        "zero if order does not matter. Then train encoders to classify which of two words came first."
    )

    def measure(self, setup: Setup) -> Numbers:
        return {
            "changes": {kind: _change(kind, setup) for kind in KINDS},
            "accuracy": {kind: _which_came_first(kind, setup) for kind in ("none", "sinusoidal")},
        }

    def check(self, numbers: Numbers) -> list[Finding]:
        changes, accuracy = numbers["changes"], numbers["accuracy"]
        least = min(value for kind, value in changes.items() if kind != "none")
        without, restored = accuracy["none"], accuracy["sinusoidal"]
        return [
            Finding("without positions, shuffled words give shuffled outputs", f"relative change {changes['none']:.1e}",
                    at_most(changes["none"], EXACT, CLEAR)),
            Finding("with any kind of position they do not", f"smallest relative change {least:.4f}",
                    at_least(least, CLEAR, EXACT)),
            Finding("without positions a model cannot learn which word came first; with them it can",
                    f"accuracy {without:.0%} without, {restored:.0%} with sinusoids",
                    both(at_most(without, 0.55, 0.7), at_least(restored, 0.9, 0.6))),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        accuracy = numbers["accuracy"]
        return (
            f"Which word came first? {accuracy['none']:.0%} right without positions, "
            f"{accuracy['sinusoidal']:.0%} with them"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        left, right = figure.subplots(1, 2)
        for axes, values, text in ((left, numbers["accuracy"], "{:.0%}"), (right, numbers["changes"], "{:.3f}")):
            colours = [OTHER if name == "none" else ATTENTION for name in values]
            bars(axes, list(values), list(values.values()), colours, text)
        left.set_title("which word came first?")
        left.set_xticks([0, 0.5, 1], ["0%", "guessing", "100%"])
        right.set_title("change when words are shuffled")


def _encoder(kind: str, classes: int | None = None) -> nn.Module:
    config = EncoderConfig.from_tree({"width": 64, "depth": 2, "heads": 4, "position": kind, "dropout": 0.0})
    return config.build(VOCAB, classes)


def _change(kind: str, setup: Setup) -> float:
    """‖unshuffled output of shuffled input − output‖ / ‖output‖, for an untrained model."""
    generator = setup.seeded()
    model = _encoder(kind).eval()
    tokens = torch.randint(VOCAB, (16, 32), generator=generator)
    order = torch.randperm(tokens.shape[1], generator=generator)
    with torch.no_grad():
        plain, shuffled = model(Sequences.full(tokens)), model(Sequences.full(tokens[:, order]))
    return float((shuffled - plain[:, order]).norm() / plain.norm())


def _which_came_first(kind: str, setup: Setup) -> float:
    """Accuracy on fresh sequences in which the words 0 and 1 occur once each: is 0 before 1?"""
    generator = setup.seeded(1)
    model = _encoder(kind, classes=2)

    def loss_of(model: nn.Module) -> Tensor:
        tokens, first = _sequences(64, generator)
        return F.cross_entropy(model(Sequences.full(tokens)), first)

    train(model, loss_of, setup.pick(300, 3))
    tokens, first = _sequences(2000, generator)
    with torch.no_grad():
        return accuracy(model(Sequences.full(tokens)), first)


def _sequences(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random words around the words 0 and 1, and whether 0 comes first."""
    tokens = torch.randint(2, VOCAB, (count, LENGTH), generator=generator)
    positions = torch.rand(count, LENGTH, generator=generator).argsort(1)[:, :2]
    tokens = tokens.scatter(1, positions, torch.tensor([0, 1]).expand(count, 2))
    return tokens, (positions[:, 0] < positions[:, 1]).long()
