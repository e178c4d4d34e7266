"""F10: sinusoids do not really extrapolate, learned positions cannot, distance biases do."""

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import nn

from regard.claims.claim import Claim, Finding, Numbers, Verdict, at_least, at_most
from regard.claims.figure import ATTENTION, MORE, OTHER, RECURRENT, WINDOWS, label_line
from regard.claims.setup import Setup, next_token_loss, sample_rows, token_stream, train, vocabulary
from regard.errors import ConfigError
from regard.models import DecoderConfig
from regard.nn.layout import Sequences

TRAINED = 32
LENGTHS = (32, 64, 128, 256)
COLOURS = {"sinusoidal": RECURRENT, "rotary": MORE[1], "relative": MORE[0], "t5": WINDOWS, "alibi": ATTENTION}


class Length(Claim):
    name, title = "f10", "beyond the trained length"
    says = "Sinusoids do not really extrapolate to longer sequences, learned positions cannot, distance biases do."
    how = (
        f"Decoders with each kind of position train on the embedded corpus in rows of {TRAINED} words, then read "
        "longer rows; the loss is that of the last quarter of each row. It does not grow with a kind that "
        "extrapolates."
    )

    def measure(self, setup: Setup) -> Numbers:
        lengths = setup.pick(LENGTHS, LENGTHS[:2])
        loss = {kind: _losses(kind, lengths, setup) for kind in COLOURS}
        return {"lengths": list(lengths), "trained": TRAINED, "loss": loss, "learned_refused": _refused()}

    def check(self, numbers: Numbers) -> list[Finding]:
        """By the factor from the trained to the greatest length: 10 % more is worse, 5 % is not."""
        grown = {name: losses[-1] / losses[0] for name, losses in numbers["loss"].items()}
        refused: Verdict = "holds" if numbers["learned_refused"] else "does not hold"
        times = numbers["lengths"][-1] // numbers["trained"]
        return [
            Finding("sinusoids do not extrapolate", f"loss × {grown['sinusoidal']:.2f} at {times} times the length",
                    at_least(grown["sinusoidal"], 1.1, 1.02)),
            Finding("learned positions cannot",
                    "longer rows are refused" if numbers["learned_refused"] else "longer rows were read", refused),
            Finding("a fixed distance bias does (ALiBi)", f"loss × {grown['alibi']:.2f}",
                    at_most(grown["alibi"], 1.05, 1.2)),
            Finding("a learned one does too (T5)", f"loss × {grown['t5']:.2f}", at_most(grown["t5"], 1.05, 1.2)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        loss, times = numbers["loss"], numbers["lengths"][-1] // numbers["trained"]
        grown = {name: loss[name][-1] / loss[name][0] for name in loss}
        return (
            f"At {times} times the trained length the loss is × {grown['sinusoidal']:.2f} with sinusoids, "
            f"× {grown['t5']:.2f} with T5's bias, × {grown['alibi']:.2f} with ALiBi"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        axes, lengths = figure.subplots(), numbers["lengths"]
        ends = sorted(numbers["loss"], key=lambda name: numbers["loss"][name][-1])
        for name in ends:
            axes.plot(lengths, numbers["loss"][name], "o-", color=COLOURS[name])
        low, high = axes.get_ylim()
        before = -1e9
        for name in ends:  # labels must not overlap
            height = max(numbers["loss"][name][-1], before + (high - low) * 0.06)
            label_line(axes, lengths, [height], name, COLOURS[name])
            before = height
        axes.axvline(numbers["trained"], color=OTHER, linestyle="--", linewidth=2)
        axes.annotate("learned positions\nend here", (numbers["trained"], high), (10, -40), textcoords="offset points",
                      color=OTHER, va="top")  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [str(length) for length in lengths])
        axes.set(xlabel=f"words in a row (trained on {numbers['trained']})", ylabel="loss at the end of the row")
        axes.set_xlim(right=lengths[-1] * 1.9)


def _decoder(position: object) -> nn.Module:
    settings = {"width": 64, "depth": 2, "heads": 4, "dropout": 0.0, "position": position}
    return DecoderConfig.from_tree(settings).build(len(vocabulary()) + 1)


def _losses(position: str, lengths: tuple[int, ...], setup: Setup) -> list[float]:
    generator = setup.seeded()
    text = token_stream("train", setup.pick(20_000, 500))
    model = _decoder(position)
    train(
        model, lambda model: next_token_loss(model, sample_rows(text, 24, TRAINED + 1, generator)), setup.pick(300, 2)
    )
    return [_at_the_end(model, length, setup) for length in lengths]


def _at_the_end(model: nn.Module, length: int, setup: Setup) -> float:
    """The mean loss of the last quarter of held-out rows: the same number of words for each length."""
    generator = setup.seeded(1)
    words = setup.pick(8192, 256)
    tokens = sample_rows(token_stream("valid", 1000), words // length, length + 1, generator)
    late = length - length // 4
    with torch.no_grad():
        scores = model(Sequences.full(tokens[:, :-1]))[:, late:]
    return float(F.cross_entropy(scores.flatten(0, 1), tokens[:, 1 + late :].flatten()))


def _refused() -> bool:
    """Whether learned positions refuse a row that is longer than their table."""
    model = _decoder({"kind": "learned", "length": TRAINED})
    try:
        model(Sequences.full(torch.zeros(1, TRAINED + 1, dtype=torch.long)))
    except ConfigError:
        return True
    return False
