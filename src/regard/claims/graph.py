"""How far information travels through a computation: paths of matrix products in the graph that autograd records."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.models import RecurrentDecoderConfig
from regard.nn.recurrent.layers import Cell
from regard.nn.recurrent.stack import RecurrentStack

PRODUCTS = ("Mm", "Addmm", "Bmm", "Baddbmm", "Convolution", "ScaledDotProduct", "MkldnnRnn", "Linear", "Matmul")
"""How autograd's names of matrix products begin; everything else is done number by number."""


def shortest(output: Tensor, source: Tensor) -> int | None:
    """Matrix products on the shortest path from `source`, a leaf that needs a gradient, to an output; None: no path."""
    target, found = _leaf(source), None
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
                found = steps if found is None else min(found, steps)
            for following, _ in node.next_functions:
                if following is not None:
                    (far if _is_product(following) else near).append((following, steps))
        near = far
    return found


def longest(output: Tensor) -> int:
    """Matrix products that must wait for one another: the longest path that leads to an output."""
    depth: dict[Any, int] = {}
    for node in _leaves_first(output.grad_fn):
        below = [depth[following] for following, _ in node.next_functions if following is not None]
        depth[node] = max(below, default=0) + _is_product(node)
    return depth[output.grad_fn]


def _leaves_first(root: Any) -> Iterator[Any]:  # noqa: ANN401
    """All nodes of a graph, each after all that it depends on; written without recursion, as graphs are deep."""
    done, stack = set(), [(root, False)]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        if ready:
            done.add(node)
            yield node
        else:
            stack.append((node, True))
            stack.extend((following, False) for following, _ in node.next_functions if following not in (None, *done))


def _is_product(node: Any) -> bool:  # noqa: ANN401
    return node.name().startswith(PRODUCTS)


def _leaf(source: Tensor) -> Any:  # noqa: ANN401
    return source.view_as(source).grad_fn.next_functions[0][0]  # type: ignore[union-attr]


def recurrent(cell: Cell, width: int, depth: int = 1) -> RecurrentStack:
    """The recurrent layers of a language model, as a recipe would make them."""
    config = RecurrentDecoderConfig(cell=cell, width=width, depth=depth, dropout=0.0)  # type: ignore[arg-type]
    return config.build(2).eval().stack


def token_by_token(stack: RecurrentStack, tokens: list[Tensor]) -> Tensor:
    """What recurrent layers give at the last token when their steps are laid open, one call a token."""
    memories = stack.blank(len(tokens[0]))
    outputs = tokens[0]
    for token in tokens:
        outputs, memories = stack(token[:, None], memories=memories)
    return outputs[:, -1]


def leaves(length: int, width: int) -> list[Tensor]:
    """Random vectors of single tokens whose gradients can be asked for."""
    return [torch.randn(1, width, requires_grad=True) for _ in range(length)]
