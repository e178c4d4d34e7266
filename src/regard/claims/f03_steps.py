"""F3: unparallelisable steps grow with T for an RNN and not for attention."""

from collections.abc import Callable

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.claims import graph
from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most
from regard.claims.setup import Setup
from regard.claims.style import ATTENTION, RECURRENT, at_end
from regard.claims.timing import fastest, slope
from regard.models import EncoderConfig
from regard.models.stack import Stack
from regard.nn.context import AttentionContext
from regard.nn.layout import Layout

LENGTHS = (16, 32, 64, 128, 256)
WIDTH, HEADS = 128, 4
"""At T = 2 × width, one layer of an LSTM and of attention cost the same: 8·width² = 4·width² + 2·T·width a word."""


class Steps(Claim):
    """Count the products that must wait for one another, and take the time of one sentence."""

    name, title = "f3", "sequential steps"
    says = "An RNN's steps cannot be done at once, so they grow with T; attention's do not grow."
    how = (
        "The longest chain of matrix products that must wait for one another, in autograd's graph of one layer. Beside "
        "it the time of one forward and backward pass over a single sentence; the last one costs both about the "
        "same FLOPs."
    )

    def measure(self, setup: Setup) -> Numbers:
        """Chains and seconds for each length."""
        setup.seeded()
        lengths = setup.pick(LENGTHS, LENGTHS[:3])
        recurrent, attention = graph.recurrent("lstm", WIDTH), _attention()
        return {
            "lengths": list(lengths),
            "chain": {
                "rnn": [graph.longest(graph.token_by_token(recurrent, graph.leaves(n, WIDTH))) for n in lengths],
                "attention": [graph.longest(_attend(attention, torch.randn(1, n, WIDTH))) for n in lengths],
            },
            "seconds": {
                "rnn": [_seconds(lambda x: recurrent(x)[0], n, setup) for n in lengths],
                "attention": [_seconds(lambda x: _attend(attention, x), n, setup) for n in lengths],
            },
        }

    def judge(self, numbers: Numbers) -> list[Finding]:
        """By the slopes of the chains. The time decides nothing: how much waiting costs depends on the machine."""
        lengths, chain = numbers["lengths"], numbers["chain"]
        rnn, attention = slope(lengths, chain["rnn"]), slope(lengths, chain["attention"])
        return [
            Finding("an RNN's chain grows with T", f"{rnn:.2f} products a token", at_least(rnn, 0.9, 0.5)),
            Finding("attention's does not", f"{chain['attention'][-1]} products at any length",
                    at_most(abs(attention), 1e-6, 0.01)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        """The chains at the greatest length."""
        chain, length = numbers["chain"], numbers["lengths"][-1]
        return (
            f"At T = {length}, {chain['rnn'][-1]} matrix products of an RNN wait in line; "
            f"{chain['attention'][-1]} of attention do"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        """Chains on the left, seconds on the right."""
        left, right = figure.subplots(1, 2)
        lengths = numbers["lengths"]
        for name, label, colour in (("rnn", "LSTM", RECURRENT), ("attention", "attention", ATTENTION)):
            left.plot(lengths, numbers["chain"][name], "o-", color=colour)
            at_end(left, lengths, numbers["chain"][name], label, colour)
            seconds = [1000 * value for value in numbers["seconds"][name]]
            right.plot(lengths, seconds, "o-", color=colour)
            at_end(right, lengths, seconds, label, colour)
        left.set_title("products that wait in line")
        right.set_title("ms for one sentence")
        right.set_ylim(bottom=0)
        for axes in (left, right):
            axes.set_xlabel("words in the sentence, T")
            axes.set_xlim(0, lengths[-1] * 1.5)


def _attention() -> Stack:
    config = {"width": WIDTH, "depth": 1, "heads": HEADS, "dropout": 0.0, "feedforward": "none"}
    return EncoderConfig.from_tree(config).build(2).eval().stack


def _attend(stack: Stack, x: Tensor) -> Tensor:
    places = Layout.full(x.shape[0], x.shape[1]).positions
    return stack(x, AttentionContext(None, places, places))


def _seconds(layer: Callable[[Tensor], Tensor], length: int, setup: Setup) -> float:
    x = torch.randn(1, length, WIDTH)
    return fastest(lambda: layer(x).sum().backward(), setup.pick(20, 1))
