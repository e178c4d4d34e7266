"""What the queries of one forward pass may see: the pattern, and where both sides stand. Made once for all layers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jaxtyping import Int
from torch import Tensor

from regard.nn.pattern import Pattern


@dataclass(frozen=True, eq=False)
class Sight:
    """Which keys each query may look at, and the places that position kinds compute with."""

    pattern: Pattern | None
    """None: everything may be seen."""
    queries: Int[Tensor, "#batch query"]
    """Place of each query in its own sequence."""
    keys: Int[Tensor, "#batch key"]
    """Place of each key in its own sequence."""
    tree: Int[Tensor, "batch key"] | None = None
    """Dependency head of each token, for the position kinds that follow the sentence's tree."""
    reach: int | None = None
    """All places are smaller than this; when left out, than the number of keys."""
    shared: dict[Any, Any] = field(default_factory=dict)
    """What layers that share a position kind compute once a pass."""
    turns: "tuple[Sight, ...]" = ()
    """Where kinds of attention take turns, what the first layer sees, what the second, and so on."""

    @classmethod
    def in_turn(cls, turns: "Sequence[Sight]") -> "Sight":
        """One sight for all layers, whose kinds of attention see each what is theirs."""
        return replace(turns[0], turns=tuple(turns)) if len(turns) > 1 else turns[0]

    def of(self, layer: int) -> "Sight":
        """What a layer sees."""
        return self.turns[layer % len(self.turns)] if self.turns else self
