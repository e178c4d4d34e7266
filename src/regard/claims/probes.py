"""Properties of a network that need no training: path lengths in autograd's graph, and distance from linear.

A path is counted in matrix products. Linearity is measured with the attention weights frozen or not.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from regard.models import EncoderConfig, RecurrentDecoderConfig
from regard.models.stack import Stack
from regard.nn.attention.heads import join_heads
from regard.nn.attention.reference import record_attention
from regard.nn.block import Block
from regard.nn.context import AttentionContext
from regard.nn.layout import Layout
from regard.nn.recurrent import Cell, RecurrentStack

MATRIX_PRODUCTS = ("Mm", "Addmm", "Bmm", "Baddbmm", "Convolution", "ScaledDotProduct", "MkldnnRnn", "Linear", "Matmul")
"""Prefixes of autograd's names of matrix products; all other nodes are elementwise or reductions."""


def shortest_path(output: Tensor, source: Tensor) -> int | None:
    """Matrix products on the shortest path from `source`, a leaf that requires grad, to an output; None: no path."""
    target, shortest = _leaf(source), None
    distance: dict[Any, int] = {}
    near: list[tuple[Any, int]] = [(output.grad_fn, 0)]
    while near:
        far: list[tuple[Any, int]] = []
        while near:
            node, before = near.pop()
            steps = before + _is_product(node)
            if distance.get(node, steps + 1) <= steps:
                continue
            distance[node] = steps
            if node is target:
                shortest = steps if shortest is None else min(shortest, steps)
            for following, _ in node.next_functions:
                if following is not None:
                    (far if _is_product(following) else near).append((following, steps))
        near = far
    return shortest


def longest_path(output: Tensor) -> int:
    """Matrix products that must run one after another: the longest path that leads to an output."""
    depth: dict[Any, int] = {}
    for node in _leaves_first(output.grad_fn):
        below = [depth[following] for following, _ in node.next_functions if following is not None]
        depth[node] = max(below, default=0) + _is_product(node)
    return depth[output.grad_fn]


def _leaves_first(root: Any) -> Iterator[Any]:  # noqa: ANN401
    """Nodes in topological order; without recursion, as graphs are deep."""
    visited, stack = set(), [(root, False)]
    while stack:
        node, ready = stack.pop()
        if node in visited:
            continue
        if ready:
            visited.add(node)
            yield node
        else:
            stack.append((node, True))
            stack.extend(
                (following, False) for following, _ in node.next_functions if following not in (None, *visited)
            )


def _is_product(node: Any) -> bool:  # noqa: ANN401
    return node.name().startswith(MATRIX_PRODUCTS)


def _leaf(source: Tensor) -> Any:  # noqa: ANN401
    return source.view_as(source).grad_fn.next_functions[0][0]  # type: ignore[union-attr]


def recurrent_stack(cell: Cell, width: int, depth: int = 1) -> RecurrentStack:
    """The recurrent layers of a language model."""
    config = RecurrentDecoderConfig(cell=cell, width=width, depth=depth, dropout=0.0)  # type: ignore[arg-type]
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


def full_context(x: Tensor) -> AttentionContext:
    """The attention context in which every token attends to every other."""
    positions = Layout.full(x.shape[0], x.shape[1]).positions
    return AttentionContext(None, positions, positions)


def bias_free_stack(depth: int, width: int, *, residual: bool, norm: str, feedforward: object) -> Stack:
    """An encoder's blocks without biases, so that everything in them that can be linear is."""
    config = EncoderConfig.from_tree({
        "width": width, "depth": depth, "heads": 4, "position": "none", "dropout": 0.0, "residual": residual,
        "norm": {"kind": norm}, "final_norm": False, "feedforward": feedforward,
        "attention": {"kind": "full", "bias": False},
    })  # fmt: skip
    return config.build(2).eval().stack


def attention_weights(stack: Stack, x: Tensor) -> list[Tensor]:
    """The attention weights of each block for an input."""
    with torch.no_grad(), record_attention(stack) as seen:
        stack(x, full_context(x))
    return [steps[0].weights for steps in seen.values()]


def forward_with_frozen_weights(stack: Stack, x: Tensor, weights: list[Tensor]) -> Tensor:
    """The stack's output with these attention weights in place of those that the input would give."""
    for block, frozen in zip(stack.blocks, weights, strict=True):
        assert isinstance(block, Block)
        attention = block.attention

        def attend(y: Tensor, frozen: Tensor = frozen, attention=attention) -> Tensor:  # noqa: ANN001
            return attention.output(join_heads(frozen @ attention.value(y)))

        x = block.around_attention(x, attend)
        if block.feedforward is not None and block.around_feedforward is not None:
            x = block.around_feedforward(x, block.feedforward)
    return x


def nonlinearity(function: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> float:
    """How far a function is from affine: ‖f(x+y) − f(x) − f(y) + f(0)‖ / ‖f(x+y) − f(0)‖, zero if it is."""
    with torch.no_grad():
        offset = function(torch.zeros_like(x))
        of_sum = function(x + y) - offset
        sum_of = function(x) + function(y) - 2 * offset
    return float((of_sum - sum_of).norm() / of_sum.norm())
