"""F2: the interaction distance is O(T) for an RNN, T/window for windows, 1 for attention.
F3: unparallelisable steps grow with T for an RNN and not for attention.

Both are path lengths in autograd's graph, counted in matrix products.
"""

from collections.abc import Callable, Iterator

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.autograd.graph import Node

from regard.claims.claim import Claim, Finding, Numbers, at_least, at_most, both
from regard.claims.figure import ATTENTION, RECURRENT, WINDOWS, label_line
from regard.claims.setup import Setup, fastest, full_context, growth_rate
from regard.models import EncoderConfig, RecurrentDecoderConfig, WindowEncoderConfig
from regard.models.stack import Stack
from regard.nn.block import Block
from regard.nn.recurrent import Cell, RecurrentStack

MATRIX_PRODUCTS = ("Mm", "Addmm", "Bmm", "Baddbmm", "Convolution", "ScaledDotProduct", "MkldnnRnn", "Linear", "Matmul")
"""Prefixes of autograd's names of matrix products; all other nodes are elementwise or reductions."""
WIDTH, KERNEL = 8, 5
REACH = KERNEL // 2
DISTANCES = (8, 16, 32, 64, 96, 128)
LENGTHS = (16, 32, 64, 128, 256)
TIMED_WIDTH, HEADS = 128, 4
"""At T = 2 × width, one layer of an LSTM and of attention cost the same: 8·width² = 4·width² + 2·T·width per word."""


class Distance(Claim):
    name, title = "f2", "interaction distance"
    says = "For two words T apart to interact takes O(T) steps in an RNN, T/window in word windows, one in attention."
    how = (
        "Count the matrix products on the shortest path from the first token's vector to the last one's output, in "
        "the graph that autograd records. Windows are stacked until a gradient arrives at all; attention needs one "
        "layer."
    )

    def measure(self, setup: Setup) -> Numbers:
        setup.seeded()
        lengths = setup.pick(DISTANCES, DISTANCES[:3])
        windows = [_windows_path(length) for length in lengths]
        return {
            "lengths": list(lengths),
            "rnn": [recurrent_path("rnn", length) for length in lengths],
            "windows": [path for path, _ in windows],
            "layers": [layers for _, layers in windows],
            "attention": [_attention_path(length) for length in lengths],
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
        axes.set(xlabel="words in the sequence, T", ylabel="matrix products on the shortest path")
        axes.set_xlim(0, lengths[-1] * 1.25)


class Steps(Claim):
    name, title = "f3", "sequential steps"
    says = "An RNN's steps cannot run in parallel, so they grow with T; attention's do not grow."
    how = (
        "The longest chain of matrix products that must run one after another, in autograd's graph of one layer. "
        "Beside it the time of one forward and backward pass over a single sentence; the last length costs both about "
        "the same FLOPs."
    )

    def measure(self, setup: Setup) -> Numbers:
        setup.seeded()
        lengths = setup.pick(LENGTHS, LENGTHS[:3])
        recurrent, attention = recurrent_stack("lstm", TIMED_WIDTH), _attention_stack()

        def attend(x: Tensor) -> Tensor:
            return attention(x, full_context(x))

        def chain(length: int) -> int:
            return longest_path(token_by_token(recurrent, leaf_vectors(length, TIMED_WIDTH)))

        return {
            "lengths": list(lengths),
            "chain": {
                "rnn": [chain(length) for length in lengths],
                "attention": [longest_path(attend(torch.randn(1, length, TIMED_WIDTH))) for length in lengths],
            },
            "seconds": {
                "rnn": [_seconds(lambda x: recurrent(x)[0], length, setup) for length in lengths],
                "attention": [_seconds(attend, length, setup) for length in lengths],
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
            seconds = [1000 * value for value in numbers["seconds"][name]]
            for axes, values in ((left, numbers["chain"][name]), (right, seconds)):
                axes.plot(lengths, values, "o-", color=colour)
                label_line(axes, lengths, values, label, colour)
        left.set_title("products in sequence")
        right.set_title("ms for one sentence")
        right.set_ylim(bottom=0)
        for axes in (left, right):
            axes.set_xlabel("words in the sentence, T")
            axes.set_xlim(0, lengths[-1] * 1.5)


def _attention_stack() -> Stack:
    config = {"width": TIMED_WIDTH, "depth": 1, "heads": HEADS, "dropout": 0.0, "feedforward": "none"}
    return EncoderConfig.from_tree(config).build(2).eval().stack


def _seconds(layer: Callable[[Tensor], Tensor], length: int, setup: Setup) -> float:
    x = torch.randn(1, length, TIMED_WIDTH)
    return fastest(lambda: layer(x).sum().backward(), setup.pick(20, 1))


def recurrent_stack(cell: Cell, width: int) -> RecurrentStack:
    """The recurrent layer of a language model."""
    config = RecurrentDecoderConfig.from_tree({"cell": cell, "width": width, "depth": 1, "dropout": 0.0})
    return config.build(2).eval().stack


def token_by_token(stack: RecurrentStack, tokens: list[Tensor]) -> Tensor:
    """The output at the last token, by one call per token, so that every step is in the graph."""
    hidden_states = stack.initial_state(len(tokens[0]))
    outputs = tokens[0]
    for token in tokens:
        outputs, hidden_states = stack(token[:, None], hidden_states=hidden_states)
    return outputs[:, -1]


def leaf_vectors(length: int, width: int) -> list[Tensor]:
    """Random input vectors that require grad, one per token."""
    return [torch.randn(1, width, requires_grad=True) for _ in range(length)]


def recurrent_path(cell: Cell, length: int) -> int | None:
    """The shortest path from the first token to the last output of a recurrent layer."""
    tokens = leaf_vectors(length, WIDTH)
    return shortest_path(token_by_token(recurrent_stack(cell, WIDTH), tokens), tokens[0])


def _windows_path(length: int) -> tuple[int | None, int]:
    """The shortest path, and the fewest layers of windows through which a gradient arrives."""
    for layers in range(1, length):
        # without residuals, so that every path to another word leads through windows
        settings = {"width": WIDTH, "kernel": KERNEL, "dropout": 0.0, "residual": False, "activation": "tanh"}
        model = WindowEncoderConfig.from_tree({"depth": layers, **settings}).build(2).eval()
        tokens = leaf_vectors(length, WIDTH)
        x = torch.stack(tokens, 1)
        for layer in model.layers:
            x = layer(x)
        last = x[:, -1]
        if torch.autograd.grad(last.square().sum(), tokens[0], retain_graph=True)[0].abs().sum() > 0:
            return shortest_path(last, tokens[0]), layers
    raise AssertionError("enough windows reach everywhere")


def _attention_path(length: int) -> int | None:
    model = EncoderConfig.from_tree({"width": WIDTH, "depth": 1, "heads": 1, "dropout": 0.0}).build(2).eval()
    block = model.stack.blocks[0]
    assert isinstance(block, Block)
    tokens = leaf_vectors(length, WIDTH)
    x = torch.stack(tokens, 1)
    return shortest_path(block.attention(x, full_context(x))[:, -1], tokens[0])


def shortest_path(output: Tensor, source: Tensor) -> int | None:
    """Matrix products on the shortest path from `source`, a leaf that requires grad, to an output; None: no path."""
    target = _node(source.view_as(source)).next_functions[0][0]
    shortest = None
    distance: dict[Node, int] = {}
    near = [(_node(output), 0)]
    while near:
        far: list[tuple[Node, int]] = []
        while near:
            node, before = near.pop()
            steps = before + _is_product(node)
            if distance.get(node, steps + 1) <= steps:
                continue
            distance[node] = steps
            if node is target:
                shortest = steps if shortest is None else min(shortest, steps)
            for following in _inputs(node):
                (far if _is_product(following) else near).append((following, steps))
        near = far
    return shortest


def longest_path(output: Tensor) -> int:
    """Matrix products that must run one after another: the longest path that leads to an output."""
    depth: dict[Node, int] = {}
    for node in _leaves_first(_node(output)):
        depth[node] = max((depth[following] for following in _inputs(node)), default=0) + _is_product(node)
    return depth[_node(output)]


def _leaves_first(root: Node) -> Iterator[Node]:
    """Nodes in topological order; without recursion, as graphs are deep."""
    visited: set[Node] = set()
    stack = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if node in visited:
            continue
        if ready:
            visited.add(node)
            yield node
        else:
            stack.append((node, True))
            stack.extend((following, False) for following in _inputs(node) if following not in visited)


def _node(tensor: Tensor) -> Node:
    assert tensor.grad_fn is not None
    return tensor.grad_fn


def _inputs(node: Node) -> list[Node]:
    return [following for following, _ in node.next_functions if following is not None]


def _is_product(node: Node) -> bool:
    return node.name().startswith(MATRIX_PRODUCTS)
