"""F2: interaction distance: O(T) for an RNN, T/window for windows, 1 for attention."""

import torch
from matplotlib.figure import Figure

from regard.claims import graph
from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most, both
from regard.claims.setup import Setup
from regard.claims.style import ATTENTION, RECURRENT, WINDOWS, at_end
from regard.claims.timing import slope
from regard.models import EncoderConfig, WindowEncoderConfig
from regard.nn.context import AttentionContext
from regard.nn.layout import Layout

WIDTH, KERNEL = 8, 5
REACH = KERNEL // 2
LENGTHS = (8, 16, 32, 64, 96, 128)


class Distance(Claim):
    """Follow the gradient from the last word back to the first and count the products on the way."""

    name, title = "f2", "interaction distance"
    says = "For two words T apart to interact takes O(T) steps in an RNN, T/window in word windows, one in attention."
    how = (
        "Count the matrix products on the shortest path from the first token's vector to the last one's output, in the "
        "graph that autograd records. Windows are stacked until a gradient arrives at all; attention needs one layer."
    )

    def measure(self, setup: Setup) -> Numbers:
        """The shortest path for each length, and the layers of windows that it took."""
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

    def judge(self, numbers: Numbers) -> list[Finding]:
        """By slopes: one product a token, one for each token that a window reaches, none."""
        lengths = numbers["lengths"]
        found = {name: slope(lengths, numbers[name]) for name in ("rnn", "windows", "attention")}
        return [
            Finding("RNN: the path grows with T", f"{found['rnn']:.2f} products a token",
                    at_least(found["rnn"], 0.9, 0.5)),
            Finding("windows: it grows with T/window", f"{found['windows']:.2f} products a token, one word in {REACH}",
                    both(at_least(found["windows"], 0.8 / REACH, 0.0), at_most(found["windows"], 1.2 / REACH, 1.0))),
            Finding("attention: it does not grow", f"{numbers['attention'][-1]} products at any length",
                    at_most(abs(found["attention"]), 1e-6, 0.01)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        """The three paths at the greatest length."""
        length, rnn, windows, attention = (numbers[name][-1] for name in ("lengths", "rnn", "windows", "attention"))
        return (
            f"From word 1 to word {length}: {rnn} matrix products in an RNN, {windows} through windows, "
            f"{attention} in attention"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        """Three lines."""
        axes, lengths = figure.subplots(), numbers["lengths"]
        labels = {"rnn": ("RNN", RECURRENT), "windows": (f"windows of {KERNEL}", WINDOWS),
                  "attention": ("attention", ATTENTION)}  # fmt: skip
        for name, (label, colour) in labels.items():
            axes.plot(lengths, numbers[name], "o-", color=colour)
            at_end(axes, lengths, numbers[name], label, colour)
        axes.set_xlabel("words in the sequence, T")
        axes.set_ylabel("matrix products on the shortest path")
        axes.set_xlim(0, lengths[-1] * 1.25)


def _recurrent(length: int) -> int:
    tokens = graph.leaves(length, WIDTH)
    path = graph.shortest(graph.token_by_token(graph.recurrent("rnn", WIDTH), tokens), tokens[0])
    assert path is not None
    return path


def _windows(length: int) -> tuple[int, int]:
    """The shortest path, and the layers of windows from which on a gradient arrives."""
    for layers in range(1, length):
        # without residuals, so that every path to another word leads through windows
        settings = {"width": WIDTH, "kernel": KERNEL, "dropout": 0.0, "residual": False, "activation": "tanh"}
        model = WindowEncoderConfig.from_tree({"depth": layers, **settings}).build(2).eval()
        tokens = graph.leaves(length, WIDTH)
        x = torch.stack(tokens, 1)
        for layer in model.layers:
            x = layer(x)
        last = x[:, -1]
        if torch.autograd.grad(last.square().sum(), tokens[0], retain_graph=True)[0].abs().sum() > 0:
            path = graph.shortest(last, tokens[0])
            assert path is not None
            return path, layers
    raise AssertionError("enough windows reach everywhere")


def _attention(length: int) -> int:
    model = EncoderConfig.from_tree({"width": WIDTH, "depth": 1, "heads": 1, "dropout": 0.0}).build(2).eval()
    tokens = graph.leaves(length, WIDTH)
    places = Layout.full(1, length).positions
    outputs = model.stack.blocks[0].attention(torch.stack(tokens, 1), AttentionContext(None, places, places))  # type: ignore[union-attr, operator]
    path = graph.shortest(outputs[:, -1], tokens[0])
    assert path is not None
    return path
