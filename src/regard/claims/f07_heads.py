"""F7: several heads cost the same as one (standard), and look at different things."""

from itertools import combinations

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most
from regard.claims.figure import ATTENTION, MORE, RECURRENT, bars, label_line
from regard.claims.setup import Setup, full_context, mean
from regard.data.street import pairs
from regard.look.model_input import encoder_output
from regard.nn.attention.heads import HeadShape
from regard.nn.attention.module import Attention
from regard.nn.attention.reference import record_attention
from regard.nn.layout import Sequences

WIDTH, LENGTH = 256, 64
HEADS = (1, 2, 4, 8, 16)
SHAPES: tuple[HeadShape, ...] = ("standard", "narrow", "wide")


class Heads(Claim):
    name, title = "f7", "several heads"
    uses_translator = True
    says = (
        "Several heads cost the same as one, since each has a share of the width, and they attend to different things."
    )
    how = (
        f"FLOPs of attention at width {WIDTH} with 1 to {HEADS[-1]} heads, counted by torch while it runs. Then the "
        "divergence (Jensen-Shannon, 1 bit at most) between heads of one layer of a trained translator, on test "
        "sentences."
    )

    def measure(self, setup: Setup) -> Numbers:
        setup.seeded()
        heads = setup.pick(HEADS, HEADS[:3])
        flops = {shape: [_flops(shape, count) for count in heads] for shape in SHAPES}
        run = setup.translator
        sentences = [source for source, _ in pairs("test", setup.pick(100, 8))]
        ids = [run.task.vocabularies.tokenizers["source"].encode(text) for text in sentences]
        setup.seeded(1)
        untrained = run.task.build(run.recipe.model).eval()
        return {
            "heads": list(heads),
            "flops": flops,
            "trained": _divergences(run.model, ids),
            "untrained": _divergences(untrained, ids),
        }

    def check(self, numbers: Numbers) -> list[Finding]:
        standard, wide = (numbers["flops"][shape] for shape in ("standard", "wide"))
        off = max(abs(value / standard[0] - 1) for value in standard)
        trained, untrained = (mean(numbers[name]) for name in ("trained", "untrained"))
        return [
            Finding(f"{numbers['heads'][-1]} standard heads cost as much as one",
                    f"{off:.1%} apart (wide heads: {wide[-1] / wide[0]:.0f} times as much)", at_most(off, 0.01, 0.1)),
            Finding("trained heads of one layer attend to different things",
                    f"{trained:.2f} bits apart, {untrained:.2f} before training",
                    at_least(trained - untrained, 0.1, 0.02)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        standard = numbers["flops"]["standard"]
        return (
            f"{numbers['heads'][-1]} heads cost {standard[-1] / standard[0]:.2f} times as much as one, and "
            f"training drives heads {mean(numbers['trained']):.2f} bits apart"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        left, right = figure.subplots(1, 2)
        heads = numbers["heads"]
        for shape, colour, shift in zip(SHAPES, (ATTENTION, MORE[1], RECURRENT), (10, 12, 0), strict=True):
            values = [value / 1e6 for value in numbers["flops"][shape]]
            left.loglog(heads, values, "o-", color=colour)
            label_line(left, heads, values, shape, colour, shift)
        left.set_xticks(heads, [str(count) for count in heads])
        left.minorticks_off()
        left.set_xlim(right=heads[-1] * 5)
        left.set_xlabel("heads")
        left.set_title(f"MFLOPs for {LENGTH} words")
        names = [f"layer {layer}" for layer in range(1, len(numbers["trained"]) + 1)]
        bars(right, [*names, "untrained"], [*numbers["trained"], mean(numbers["untrained"])],
             [ATTENTION] * len(names) + ["#BBBBBB"])  # fmt: skip
        right.set_title("bits between two heads")


def _flops(shape: HeadShape, heads: int) -> int:
    """FLOPs of one pass through attention, counted by torch."""
    attention = Attention(WIDTH, heads, shape=shape).eval()
    x = torch.randn(1, LENGTH, WIDTH)
    with torch.no_grad(), record_attention(attention), FlopCounterMode(display=False) as counter:
        attention(x, full_context(x))
    return counter.get_total_flops()


def _divergences(model: nn.Module, sentences: list[list[int]]) -> list[float]:
    """The mean divergence between two heads of each layer of the encoder, over all tokens of all sentences."""
    with torch.no_grad(), record_attention(model.get_submodule("encoder")) as seen:
        for ids in sentences:
            encoder_output(model, Sequences.padded([ids]))
    return [mean([_between_heads(one.weights[0]) for one in steps]) for steps in seen.values()]


def _between_heads(weights: Tensor) -> float:
    """The Jensen-Shannon divergence in bits between two heads' weights, a mean over pairs of heads and queries."""
    divergences = [_entropy((a + b) / 2) - (_entropy(a) + _entropy(b)) / 2 for a, b in combinations(weights, 2)]
    return float(torch.stack(divergences).mean())


def _entropy(weights: Tensor) -> Tensor:
    return -torch.special.xlogy(weights, weights).sum(-1) / torch.log(torch.tensor(2.0))
