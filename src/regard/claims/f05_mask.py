"""F5: the causal mask lets nothing leak from the future; without it the model copies."""

from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most
from regard.claims.learn import learn
from regard.claims.setup import Setup
from regard.claims.style import ATTENTION, MORE, bars
from regard.models import DecoderConfig, EncoderConfig
from regard.nn.layout import Sequences

VOCAB, LENGTH = 16, 24
ATTENTIONS: dict[str, dict[str, Any]] = {
    "full": {"kind": "full"},
    "window": {"kind": "window", "reach": 4},
    "bigbird": {"kind": "bigbird", "block": 4, "global_tokens": 4, "random": 1},
    "memory-compressed": {"kind": "memory-compressed", "block": 8, "stride": 2},
}
SHAPE: dict[str, Any] = {"width": 64, "depth": 2, "heads": 4, "dropout": 0.0}


class Mask(Claim):
    """Change the future and see who notices; then predict what cannot be predicted, with the mask and without."""

    name, title = "f5", "the mask lets nothing leak"
    says = "The causal mask lets nothing leak from the future; without it a language model just copies its input."
    how = (
        "Change all tokens behind a place and look whether any score before it moves, for every kind of "
        "attention that a "
        "decoder has. Then train on random tokens, which nobody can predict: who is better than guessing has looked."
    )

    def measure(self, setup: Setup) -> Numbers:
        """The largest move of any score, and the accuracy with and without the mask."""
        setup.seeded()
        leaks = {name: _leak(_model(DecoderConfig, name), setup) for name in ATTENTIONS}
        open_leak = _leak(_model(EncoderConfig, "full"), setup)
        masked, copied = _accuracy(DecoderConfig, setup), _accuracy(EncoderConfig, setup)
        return {
            "leaks": leaks,
            "leak_without_mask": open_leak,
            "guess": 1 / VOCAB,
            "masked": masked,
            "unmasked": copied,
        }

    def judge(self, numbers: Numbers) -> list[Finding]:
        """No score may move beyond rounding; guessing is the best that can be done with the mask."""
        most = max(numbers["leaks"].values())
        return [
            Finding("with the mask no score depends on the future",
                    f"largest move {most:.1e} (without the mask {numbers['leak_without_mask']:.1f})",
                    at_most(most, 1e-5, 1e-3)),
            Finding("with the mask nobody predicts random tokens",
                    f"accuracy {numbers['masked']:.1%}, guessing gives {numbers['guess']:.1%}",
                    at_most(numbers["masked"], 1.3 * numbers["guess"], 2 * numbers["guess"])),
            Finding("without it the model copies the answer", f"accuracy {numbers['unmasked']:.1%}",
                    at_least(numbers["unmasked"], 0.9, 0.5)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        """The two accuracies."""
        return (
            f"Predicting random words: {numbers['unmasked']:.0%} right without the mask, "
            f"{numbers['masked']:.0%} with it"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        """Three bars."""
        axes = figure.subplots()
        names, values = ("without mask", "with mask", "guessing"), ("unmasked", "masked", "guess")
        bars(axes, names, [100 * numbers[key] for key in values], (MORE[1], ATTENTION, "#BBBBBB"), "{:.1f} %")
        axes.set_xlabel("next words guessed right, of words drawn at random (%)")


def _model(config: type[DecoderConfig] | type[EncoderConfig], attention: str) -> nn.Module:
    return config.from_tree({**SHAPE, "attention": ATTENTIONS[attention]}).build(VOCAB)


def _leak(model: nn.Module, setup: Setup) -> float:
    """The largest move of a score when everything behind it changes, over all places."""
    generator = setup.seeded()
    model.eval()
    tokens = torch.randint(VOCAB, (8, LENGTH), generator=generator)
    worst = 0.0
    with torch.no_grad():
        before = model(Sequences.full(tokens))
        for place in range(LENGTH - 1):
            changed = tokens.clone()
            changed[:, place + 1 :] = torch.randint(VOCAB, (8, LENGTH - place - 1), generator=generator)
            moved = model(Sequences.full(changed))[:, : place + 1] - before[:, : place + 1]
            worst = max(worst, float(moved.abs().max()))
    return worst


def _accuracy(config: type[DecoderConfig] | type[EncoderConfig], setup: Setup) -> float:
    """How many next tokens a trained model gets right, of tokens drawn at random."""
    generator = setup.seeded(1)
    model = _model(config, "full")

    def draw(rows: int) -> tuple[Sequences, Tensor]:
        tokens = torch.randint(VOCAB, (rows, LENGTH + 1), generator=generator)
        return Sequences.full(tokens[:, :-1]), tokens[:, 1:]

    def loss_of(model: nn.Module) -> Tensor:
        inputs, targets = draw(32)
        return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())

    learn(model, loss_of, setup.pick(600, 3))
    inputs, targets = draw(256)
    with torch.no_grad():
        return float((model(inputs).argmax(-1) == targets).float().mean())
