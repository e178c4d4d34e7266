"""F5: the causal mask lets nothing leak from the future; without it the model copies."""

import torch
from matplotlib.figure import Figure
from torch import nn

from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most
from regard.claims.figure import ATTENTION, MORE, bars
from regard.claims.setup import Setup, accuracy, next_token_loss, train
from regard.models import DecoderConfig, EncoderConfig
from regard.nn.layout import Sequences

VOCAB, LENGTH = 16, 24
ATTENTIONS = {
    "full": {"kind": "full"},
    "window": {"kind": "window", "reach": 4},
    "bigbird": {"kind": "bigbird", "block": 4, "global_tokens": 4, "random": 1},
    "memory-compressed": {"kind": "memory-compressed", "block": 8, "stride": 2},
}
AnyConfig = type[DecoderConfig] | type[EncoderConfig]


class Mask(Claim):
    name, title = "f5", "the mask lets nothing leak"
    says = "The causal mask lets nothing leak from the future; without it a language model just copies its input."
    how = (
        "Change all tokens after a position and test whether any logit before it changes, for every kind of attention "
        "that a decoder has. Then train on random tokens, which cannot be predicted: accuracy above chance means a "
        "leak."
    )

    def measure(self, setup: Setup) -> Numbers:
        setup.seeded()
        return {
            "leaks": {name: _leak(_model(DecoderConfig, name), setup) for name in ATTENTIONS},
            "leak_without_mask": _leak(_model(EncoderConfig, "full"), setup),
            "guess": 1 / VOCAB,
            "masked": _accuracy(DecoderConfig, setup),
            "unmasked": _accuracy(EncoderConfig, setup),
        }

    def check(self, numbers: Numbers) -> list[Finding]:
        most = max(numbers["leaks"].values())
        return [
            Finding("with the mask no logit depends on the future",
                    f"largest change {most:.1e} (without the mask {numbers['leak_without_mask']:.1f})",
                    at_most(most, 1e-5, 1e-3)),
            Finding("with the mask random tokens cannot be predicted",
                    f"accuracy {numbers['masked']:.1%}, chance is {numbers['guess']:.1%}",
                    at_most(numbers["masked"], 1.3 * numbers["guess"], 2 * numbers["guess"])),
            Finding("without it the model copies the answer", f"accuracy {numbers['unmasked']:.1%}",
                    at_least(numbers["unmasked"], 0.9, 0.5)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        return (
            f"Predicting random tokens: {numbers['unmasked']:.0%} right without the mask, "
            f"{numbers['masked']:.0%} with it"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        axes = figure.subplots()
        names, values = ("without mask", "with mask", "chance"), ("unmasked", "masked", "guess")
        bars(axes, names, [100 * numbers[key] for key in values], (MORE[1], ATTENTION, "#BBBBBB"), "{:.1f} %")
        axes.set_xlabel("accuracy of the next token, of random tokens (%)")


def _model(config: AnyConfig, attention: str) -> nn.Module:
    settings = {"width": 64, "depth": 2, "heads": 4, "dropout": 0.0, "attention": ATTENTIONS[attention]}
    return config.from_tree(settings).build(VOCAB)


def _leak(model: nn.Module, setup: Setup) -> float:
    """The largest change of a logit when all later tokens change, over all positions."""
    generator = setup.seeded()
    model.eval()
    tokens = torch.randint(VOCAB, (8, LENGTH), generator=generator)
    worst = 0.0
    with torch.no_grad():
        before = model(Sequences.full(tokens))
        for position in range(LENGTH - 1):
            changed = tokens.clone()
            changed[:, position + 1 :] = torch.randint(VOCAB, (8, LENGTH - position - 1), generator=generator)
            change = model(Sequences.full(changed))[:, : position + 1] - before[:, : position + 1]
            worst = max(worst, float(change.abs().max()))
    return worst


def _accuracy(config: AnyConfig, setup: Setup) -> float:
    """Next-token accuracy of a trained model on random tokens."""
    generator = setup.seeded(1)
    model = _model(config, "full")
    train(
        model,
        lambda model: next_token_loss(model, torch.randint(VOCAB, (32, LENGTH + 1), generator=generator)),
        setup.pick(600, 3),
    )
    tokens = torch.randint(VOCAB, (256, LENGTH + 1), generator=generator)
    with torch.no_grad():
        return accuracy(model(Sequences.full(tokens[:, :-1])), tokens[:, 1:])
