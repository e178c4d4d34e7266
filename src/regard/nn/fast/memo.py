"""The one cache for what is derived from patterns (masks, key ranges, block layouts): computed once, not per layer."""

from collections.abc import Callable
from typing import TypeVar

from regard.nn.pattern import Pattern

T = TypeVar("T")


def memo(pattern: Pattern, key: tuple[object, ...], build: Callable[[], T], keep: int) -> T:
    """`build()`, kept on the pattern under (what it is, *shape): with a new shape beyond `keep`, all are dropped.

    The pattern itself holds the values, so both are freed together even where a value refers to its pattern.
    """
    name, *shape = key
    values: dict[object, T] = vars(pattern).setdefault("_memo", {}).setdefault(name, {})
    shape = tuple(shape)
    if shape not in values:
        if len(values) >= keep:
            values.clear()
        values[shape] = build()
    return values[shape]
