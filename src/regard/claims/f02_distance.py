"""F2: interaction distance: O(T) for an RNN, T/window for windows, 1 for attention."""

import torch
from matplotlib.figure import Figure

from regard.claims import probes
from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most, both
from regard.claims.figure import ATTENTION, RECURRENT, WINDOWS, label_line
from regard.claims.setup import Setup, growth_rate
from regard.models import EncoderConfig, WindowEncoderConfig

WIDTH, KERNEL = 8, 5
REACH = KERNEL // 2
LENGTHS = (8, 16, 32, 64, 96, 128)


class Distance(Claim):
    """Path lengths in autograd's graph, from the first token to the last output."""

    name, title = "f2", "interaction distance"
    says = "For two words T apart to interact takes O(T) steps in an RNN, T/window in word windows, one in attention."
    how = (
        "Count the matrix products on the shortest path from the first token's vector to the last one's output, in "
        "the graph that autograd records. Windows are stacked until a gradient arrives at all; attention needs one "
        "layer."
    )

    def measure(self, setup: Setup) -> Numbers:
        """The shortest path for each length, and the layers of windows that it needs."""
        setup.seeded()
        lengths = setup.pick(LENGTHS, LENGTHS[:3])
        windows = [_windows(length) for length in lengths]
        return {
            "lengths": list(lengths),
            "rnn": [_recurrent(length) for length in lengths],
            "windows": [path for path, _ in windows],
            "layers": [layers for _, layers in windows],
            "attention": [_attention(length) for length in lengths],
        }

    def check(self, numbers: Numbers) -> list[Finding]:
        """Growth per token: one product for an RNN, one per reach for windows, none for attention."""
        lengths = numbers["lengths"]
        growth = {name: growth_rate(lengths, numbers[name]) for name in ("rnn", "windows", "attention")}
        return [
            Finding("RNN: the path grows with T", f"{growth['rnn']:.2f} products per token",
                    at_least(growth["rnn"], 0.9, 0.5)),
            Finding("windows: it grows with T/window", 
                    f"{growth['windows']:.2f} products per token, one word in {REACH}",
                    both(at_least(growth["windows"], 0.8 / REACH, 0.0), at_most(growth["windows"], 1.2 / REACH, 1.0))),
            Finding("attention: it does not grow", f"{numbers['attention'][-1]} products at any length",
                    at_most(abs(growth["attention"]), 1e-6, 0.01)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        length, rnn, windows, attention = (numbers[name][-1] for name in ("lengths", "rnn", "windows", "attention"))
        return (
            f"From word 1 to word {length}: {rnn} matrix products in an RNN, {windows} through windows, "
            f"{attention} in attention"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        axes, lengths = figure.subplots(), numbers["lengths"]
        labels = {"rnn": ("RNN", RECURRENT), "windows": (f"windows of {KERNEL}", WINDOWS),
                  "attention": ("attention", ATTENTION)}  # fmt: skip
        for name, (label, colour) in labels.items():
            axes.plot(lengths, numbers[name], "o-", color=colour)
            label_line(axes, lengths, numbers[name], label, colour)
        axes.set_xlabel("words in the sequence, T")
        axes.set_ylabel("matrix products on the shortest path")
        axes.set_xlim(0, lengths[-1] * 1.25)


def _recurrent(length: int) -> int:
    tokens = probes.leaf_vectors(length, WIDTH)
    path = probes.shortest_path(probes.token_by_token(probes.recurrent_stack("rnn", WIDTH), tokens), tokens[0])
    assert path is not None
    return path


def _windows(length: int) -> tuple[int, int]:
    """The shortest path, and the fewest layers of windows through which a gradient arrives."""
    for layers in range(1, length):
        # without residuals, so that every path to another word leads through windows
        settings = {"width": WIDTH, "kernel": KERNEL, "dropout": 0.0, "residual": False, "activation": "tanh"}
        model = WindowEncoderConfig.from_tree({"depth": layers, **settings}).build(2).eval()
        tokens = probes.leaf_vectors(length, WIDTH)
        x = torch.stack(tokens, 1)
        for layer in model.layers:
            x = layer(x)
        last = x[:, -1]
        if torch.autograd.grad(last.square().sum(), tokens[0], retain_graph=True)[0].abs().sum() > 0:
            path = probes.shortest_path(last, tokens[0])
            assert path is not None
            return path, layers
    raise AssertionError("enough windows reach everywhere")


def _attention(length: int) -> int:
    model = EncoderConfig.from_tree({"width": WIDTH, "depth": 1, "heads": 1, "dropout": 0.0}).build(2).eval()
    tokens = probes.leaf_vectors(length, WIDTH)
    x = torch.stack(tokens, 1)
    outputs = model.stack.blocks[0].attention(x, probes.full_context(x))  # type: ignore[union-attr, operator]
    path = probes.shortest_path(outputs[:, -1], tokens[0])
    assert path is not None
    return path
