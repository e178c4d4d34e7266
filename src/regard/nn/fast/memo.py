"""The one cache for what is derived from patterns (masks, key ranges, block layouts): computed once, not per layer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from regard.nn.pattern import Pattern

T = TypeVar("T")

_graph_values: dict[object, Any] | None = None
"""While a CUDA graph is captured: all that it reads, under (pattern, what it is, *shape)."""


def memo(pattern: Pattern, key: tuple[object, ...], build: Callable[[], T], keep: int) -> T:
    """`build()`, kept on the pattern under (what it is, *shape): with a new shape beyond `keep`, all are dropped.

    The pattern itself holds the values, so both are freed together even where a value refers to its pattern.
    """
    name, *shape = key
    values: dict[object, T] = vars(pattern).setdefault("_memo", {}).setdefault(name, {})
    shape = tuple(shape)
    if _graph_values is not None:
        if (pattern, *key) not in _graph_values:
            _graph_values[(pattern, *key)] = values[shape] if shape in values else build()
        return _graph_values[(pattern, *key)]
    if shape not in values:
        if len(values) >= keep:
            values.clear()
        values[shape] = build()
    return values[shape]


@contextmanager
def graph_values() -> Iterator[dict[object, Any]]:
    """Within it, a CUDA graph is captured: what it reads must live as long as the graph, and what it computes itself
    must not be kept for others."""
    global _graph_values
    _graph_values = {}
    try:
        yield _graph_values
    finally:
        _graph_values = None
