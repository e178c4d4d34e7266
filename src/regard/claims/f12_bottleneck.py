"""F12: the fixed-size sentence vector is a bottleneck and has a recency bias; attention removes it."""

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most
from regard.claims.figure import ATTENTION, RECURRENT
from regard.claims.setup import Setup, mean, train
from regard.models import Seq2SeqConfig
from regard.nn.layout import Sequences

KEYS, VALUES, PAIRS = 12, 8, 6
WIDTH, ROWS = 64, 64
ATTENTIONS = {"vector": "none", "attention": "dot"}


class Bottleneck(Claim):
    name, title = "f12", "the sentence vector"
    says = (
        "One vector for the sentence is a bottleneck with a recency bias, mostly its last words; attention removes it."
    )
    how = (
        f"An LSTM encodes {PAIRS} random pairs of words from left to right; a decoder is asked for the partner of one "
        "of them. It sees the sentence vector only, or with attention all states. Accuracy by the position of the "
        "pair."
    )

    def measure(self, setup: Setup) -> Numbers:
        return {"places": list(range(1, PAIRS + 1)), "guess": 1 / VALUES} | {
            name: _accuracy(attention, setup) for name, attention in ATTENTIONS.items()
        }

    def check(self, numbers: Numbers) -> list[Finding]:
        vector, attention = numbers["vector"], numbers["attention"]
        bias, bias_left = _recency(vector), _recency(attention)
        return [
            Finding("one vector is a bottleneck",
                    f"{mean(vector):.0%} of all answers right, with attention {mean(attention):.0%}",
                    at_least(mean(attention) - mean(vector), 0.1, 0.0)),
            Finding("it mostly keeps the last words",
                    f"last pairs {bias:+.0%} against the first", at_least(bias, 0.1, 0.0)),
            Finding("with attention no position is better than another",
                    f"last pairs {bias_left:+.0%} against the first", at_most(abs(bias_left), 0.1, 0.3)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        vector, attention = numbers["vector"], numbers["attention"]
        return (
            f"One vector recalls the last pair of words {vector[-1]:.0%} of the time, the first {vector[0]:.0%}; "
            f"attention {attention[-1]:.0%} and {attention[0]:.0%}"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        axes, positions = figure.subplots(), numbers["places"]
        axes.plot(positions, [100 * value for value in numbers["attention"]], "o-", color=ATTENTION, label="attention")
        axes.plot(positions, [100 * value for value in numbers["vector"]], "o-", color=RECURRENT,
                  label="one sentence vector")  # fmt: skip
        axes.axhline(100 * numbers["guess"], color="#999999", linestyle="--", linewidth=2, label="chance")
        axes.set(xlabel="position of the pair in the sentence", ylabel="recalled (%)", ylim=(0, 104))
        axes.set_xticks(positions)
        axes.legend(loc="center left", bbox_to_anchor=(0.0, 0.62))


def _recency(accuracy: list[float]) -> float:
    """The accuracy of the last third of the positions minus that of the first."""
    third = max(1, len(accuracy) // 3)
    return mean(accuracy[-third:]) - mean(accuracy[:third])


def _batch(rows: int, generator: torch.Generator) -> tuple[Sequences, Sequences, Tensor, Tensor]:
    """Pairs of a key and a value, the queried key, its value, and its position."""
    keys = torch.rand(rows, KEYS, generator=generator).argsort(1)[:, :PAIRS]
    values = torch.randint(VALUES, (rows, PAIRS), generator=generator) + KEYS
    position = torch.randint(PAIRS, (rows, 1), generator=generator)
    source = torch.stack([keys, values], -1).flatten(1)
    return (
        Sequences.full(source),
        Sequences.full(keys.gather(1, position)),
        values.gather(1, position)[:, 0],
        position[:, 0],
    )


def _accuracy(attention: str, setup: Setup) -> list[float]:
    generator = setup.seeded()
    settings = {"width": WIDTH, "depth": 1, "reading": "forward", "attention": attention, "dropout": 0.0}
    model = Seq2SeqConfig.from_tree(settings).build(KEYS + VALUES)

    def loss_of(model: nn.Module) -> Tensor:
        source, target, answer, _ = _batch(ROWS, generator)
        return F.cross_entropy(model(source, target)[:, -1], answer)

    train(model, loss_of, setup.pick(1500, 3), lr=5e-3)
    source, target, answer, position = _batch(4000, generator)
    with torch.no_grad():
        right = (model(source, target)[:, -1].argmax(-1) == answer).float()
    return [float(right[position == number].mean()) for number in range(PAIRS)]
