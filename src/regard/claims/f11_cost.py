"""F11: compute grows as T²d; T = 512 is usual; T ≥ 10,000 needs another kind; Linformer and BigBird grow linearly."""

from collections.abc import Mapping

import torch
from matplotlib.figure import Figure

from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most, both
from regard.claims.figure import ATTENTION, MORE, RECURRENT, WINDOWS, label_line
from regard.claims.setup import Setup, exponent, fastest
from regard.models import EncoderConfig
from regard.models.stack import Stack
from regard.nn.layout import Layout

WIDTH, HEADS = 64, 4
LENGTHS = (1024, 2048, 4096, 8192, 16384)
LONG = 10_000
KINDS = {
    "full": {"kind": "full"},
    "linformer": {"kind": "linformer", "length": LENGTHS[-1], "projected": 128},
    "bigbird": {"kind": "bigbird", "block": 64, "global_tokens": 64, "random": 2},
    "window": {"kind": "window", "reach": 64},
}
LINEAR = ("linformer", "bigbird")


class Cost(Claim):
    name, title = "f11", "cost of long sequences"
    says = (
        "Attention's compute grows as T²d: bounds of 512 tokens are usual, and 10,000 need another kind of attention; "
        "Linformer and BigBird grow linearly."
    )
    how = (
        f"One layer at width {WIDTH}, forward, by kind of attention. FLOPs of scores and weighted sums from the config "
        "(tests compare them with torch's count), and the fastest of several passes; growth is the exponent of a "
        "fitted power law."
    )

    def measure(self, setup: Setup) -> Numbers:
        setup.seeded()
        lengths = setup.pick(LENGTHS, (256, 512, 1024))
        flops = {name: [_pair_flops(kind, length) for length in lengths] for name, kind in KINDS.items()}
        seconds = {name: [_seconds(_stack(kind), length, setup) for length in lengths] for name, kind in KINDS.items()}
        widths = {str(width): _pair_flops(KINDS["full"], lengths[0], width) for width in (WIDTH, 2 * WIDTH, 4 * WIDTH)}
        return {"lengths": list(lengths), "flops": flops, "seconds": seconds, "by_width": widths}

    def check(self, numbers: Numbers) -> list[Finding]:
        """Exponents of the FLOPs, and of the time over the last three lengths, where fixed costs are small."""
        lengths, seconds = numbers["lengths"], numbers["seconds"]
        by_length = exponent(lengths, numbers["flops"]["full"])
        by_width = exponent([int(width) for width in numbers["by_width"]], list(numbers["by_width"].values()))
        grown = {name: exponent(lengths[-3:], values[-3:]) for name, values in seconds.items()}
        factor = min(_at(LONG, lengths, seconds["full"]) / _at(LONG, lengths, seconds[name]) for name in LINEAR)
        return [
            Finding("full attention's scores cost T²d", f"T^{by_length:.2f} d^{by_width:.2f}",
                    both(at_most(abs(by_length - 2), 0.05, 0.3), at_most(abs(by_width - 1), 0.05, 0.3))),
            Finding("its time grows as fast", f"as T^{grown['full']:.2f}", at_least(grown["full"], 1.6, 1.3)),
            Finding("Linformer and BigBird grow linearly",
                    ", ".join(f"{name} as T^{grown[name]:.2f}" for name in LINEAR),
                    at_most(max(grown[name] for name in LINEAR), 1.25, 1.6)),
            Finding(f"at T = {LONG:,} they are clearly faster", f"full attention takes {factor:.1f} times as long",
                    at_least(factor, 2.0, 1.0)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        grown = {name: exponent(numbers["lengths"][-3:], values[-3:]) for name, values in numbers["seconds"].items()}
        return (
            f"Time grows as T^{grown['full']:.1f} for full attention, T^{grown['bigbird']:.1f} for BigBird, "
            f"T^{grown['linformer']:.1f} for Linformer"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        axes, lengths = figure.subplots(), numbers["lengths"]
        labels = {"full": "full", "linformer": "Linformer", "bigbird": "BigBird", "window": "window"}
        shifts = {"full": 0, "linformer": -16, "bigbird": 16, "window": 0}
        for (name, label), colour in zip(labels.items(), (RECURRENT, ATTENTION, WINDOWS, MORE[1]), strict=True):
            milliseconds = [1000 * value for value in numbers["seconds"][name]]
            axes.loglog(lengths, milliseconds, "o-", color=colour)
            label_line(axes, lengths, milliseconds, label, colour, shifts[name])
        axes.set(xlabel="tokens in a row, T", ylabel="ms for one layer", xlim=(lengths[0] * 0.9, lengths[-1] * 2.6))
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
        axes.minorticks_off()


def _at(length: int, lengths: list[int], values: list[float]) -> float:
    """A value interpolated between the two nearest lengths, by a power law."""
    pairs = list(zip(lengths, values, strict=True))
    (x0, y0), (x1, y1) = sorted(sorted(pairs, key=lambda pair: abs(pair[0] - length))[:2])
    return y0 * (length / x0) ** exponent([x0, x1], [y0, y1])


def _config(attention: Mapping[str, object], width: int = WIDTH) -> EncoderConfig:
    settings = {"width": width, "depth": 1, "heads": HEADS, "dropout": 0.0, "feedforward": "none", "position": "none"}
    return EncoderConfig.from_tree({**settings, "attention": attention})


def _pair_flops(attention: Mapping[str, object], length: int, width: int = WIDTH) -> int:
    """FLOPs of scores and weighted sums, and of a kind's own operations; the projections are the same for all kinds."""
    config = _config(attention, width)
    kind, head_width = config.attention, width // HEADS
    return 4 * kind.pairs(HEADS, length) * head_width + kind.extra_flops(HEADS, head_width, length)


def _stack(attention: Mapping[str, object]) -> Stack:
    return _config(attention).build(2).eval().stack


def _seconds(stack: Stack, length: int, setup: Setup) -> float:
    x = torch.randn(1, length, WIDTH)
    context = stack.context(Layout.full(1, length))
    with torch.no_grad():
        return fastest(lambda: stack(x, context), setup.pick(4, 1))
