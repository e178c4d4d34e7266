"""F3: unparallelisable steps grow with T for an RNN and not for attention."""

from collections.abc import Callable

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.claims import probes
from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most
from regard.claims.figure import ATTENTION, RECURRENT, label_line
from regard.claims.setup import Setup, fastest, growth_rate
from regard.models import EncoderConfig
from regard.models.stack import Stack
from regard.nn.recurrent import RecurrentStack

LENGTHS = (16, 32, 64, 128, 256)
WIDTH, HEADS = 128, 4
"""At T = 2 × width, one layer of an LSTM and of attention cost the same: 8·width² = 4·width² + 2·T·width per word."""


class Steps(Claim):
    """The longest chain of matrix products that must run in sequence, and the time of one sentence."""

    name, title = "f3", "sequential steps"
    says = "An RNN's steps cannot run in parallel, so they grow with T; attention's do not grow."
    how = (
        "The longest chain of matrix products that must run one after another, in autograd's graph of one layer. "
        "Beside it the time of one forward and backward pass over a single sentence; the last length costs both about "
        "the same FLOPs."
    )

    def measure(self, setup: Setup) -> Numbers:
        """Chains and seconds for each length."""
        setup.seeded()
        lengths = setup.pick(LENGTHS, LENGTHS[:3])
        recurrent, attention = probes.recurrent_stack("lstm", WIDTH), _attention()
        return {
            "lengths": list(lengths),
            "chain": {
                "rnn": [
                    probes.longest_path(probes.token_by_token(recurrent, probes.leaf_vectors(n, WIDTH)))
                    for n in lengths
                ],
                "attention": [probes.longest_path(_attend(attention, torch.randn(1, n, WIDTH))) for n in lengths],
            },
            "seconds": {
                "rnn": [_seconds(lambda x: recurrent(x)[0], n, setup) for n in lengths],
                "attention": [_seconds(lambda x: _attend(attention, x), n, setup) for n in lengths],
            },
        }

    def check(self, numbers: Numbers) -> list[Finding]:
        """By the growth of the chains. The time decides nothing, as it depends on the machine."""
        lengths, chain = numbers["lengths"], numbers["chain"]
        rnn, attention = growth_rate(lengths, chain["rnn"]), growth_rate(lengths, chain["attention"])
        return [
            Finding("an RNN's chain grows with T", f"{rnn:.2f} products per token", at_least(rnn, 0.9, 0.5)),
            Finding("attention's does not", f"{chain['attention'][-1]} products at any length",
                    at_most(abs(attention), 1e-6, 0.01)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        chain, length = numbers["chain"], numbers["lengths"][-1]
        return (
            f"At T = {length}, {chain['rnn'][-1]} matrix products of an RNN run in sequence, "
            f"{chain['attention'][-1]} of attention"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        left, right = figure.subplots(1, 2)
        lengths = numbers["lengths"]
        for name, label, colour in (("rnn", "LSTM", RECURRENT), ("attention", "attention", ATTENTION)):
            left.plot(lengths, numbers["chain"][name], "o-", color=colour)
            label_line(left, lengths, numbers["chain"][name], label, colour)
            seconds = [1000 * value for value in numbers["seconds"][name]]
            right.plot(lengths, seconds, "o-", color=colour)
            label_line(right, lengths, seconds, label, colour)
        left.set_title("products in sequence")
        right.set_title("ms for one sentence")
        right.set_ylim(bottom=0)
        for axes in (left, right):
            axes.set_xlabel("words in the sentence, T")
            axes.set_xlim(0, lengths[-1] * 1.5)


def _recurrent_chain(stack: RecurrentStack, length: int) -> int:
    return probes.longest_path(probes.token_by_token(stack, probes.leaf_vectors(length, WIDTH)))


def _attention() -> Stack:
    config = {"width": WIDTH, "depth": 1, "heads": HEADS, "dropout": 0.0, "feedforward": "none"}
    return EncoderConfig.from_tree(config).build(2).eval().stack


def _attend(stack: Stack, x: Tensor) -> Tensor:
    return stack(x, probes.full_context(x))


def _seconds(layer: Callable[[Tensor], Tensor], length: int, setup: Setup) -> float:
    x = torch.randn(1, length, WIDTH)
    return fastest(lambda: layer(x).sum().backward(), setup.pick(20, 1))
