"""The attention context of one forward pass: the mask pattern, and the positions of queries and keys. Built once for
all layers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jaxtyping import Int
from torch import Tensor

from regard.nn.pattern import Pattern


@dataclass(frozen=True, eq=False)
class AttentionContext:
    """Which keys each query may attend to, and the positions that position encodings compute with."""

    pattern: Pattern | None
    """None: every query attends to every key."""
    query_positions: Int[Tensor, "#batch query"]
    key_positions: Int[Tensor, "#batch key"]
    tree: Int[Tensor, "batch key"] | None = None
    """Dependency head of each token, for tree positions."""
    length: int | None = None
    """All positions are smaller than this; the number of keys when left out."""
    shared: dict[Any, Any] = field(default_factory=dict)
    """What layers that share a position encoding compute once per pass."""
    cycle: "tuple[AttentionContext, ...]" = ()
    """Where kinds of attention alternate: the context of the first layer, of the second, and so on, repeated."""

    @classmethod
    def alternating(cls, contexts: "Sequence[AttentionContext]") -> "AttentionContext":
        """One context for layers whose kinds of attention alternate."""
        return replace(contexts[0], cycle=tuple(contexts)) if len(contexts) > 1 else contexts[0]

    def for_layer(self, layer: int) -> "AttentionContext":
        return self.cycle[layer % len(self.cycle)] if self.cycle else self
