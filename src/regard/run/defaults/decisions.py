"""Decisions about single settings: what the recipe states is kept, what it leaves out gets a value and a reason."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

LIMITS = ("steps", "epochs", "minutes", "flops", "tokens")
"""The names of a budget's limits, below `train`."""


@dataclass(frozen=True)
class Decision:
    """A setting that the recipe leaves out, its value, and why it has this one."""

    path: str
    value: Any
    why: str


class Decider:
    """Values by path: those that the recipe states, and what was decided so far."""

    def __init__(self, stated: Iterable[tuple[str, Any]]) -> None:
        self.stated = dict(stated)
        self.decisions: list[Decision] = []
        self.kinds: dict[str, str] = {}
        """The kinds in force, stated or decided, by the path of their family."""

    def has(self, path: str) -> bool:
        """Whether the recipe sets this setting, or the whole table that it stands in; a bare name is a kind only."""
        table, _, name = path.rpartition(".")
        if path in self.stated or (name == "kind" and isinstance(self.stated.get(table), str)):
            return True
        parts = path.split(".")
        above = [".".join(parts[:end]) for end in range(1, len(parts))]
        return any(table in self.stated and not isinstance(self.stated[table], str) for table in above)

    def sets_below(self, table: str) -> list[str]:
        """The settings below a table that the recipe sets."""
        return [path.removeprefix(f"{table}.") for path in self.stated if path.startswith(f"{table}.")]

    def __call__(self, path: str, value: Any, why: str) -> Any:  # noqa: ANN401
        """The value in force: the recipe's own, or this one, which is noted with its reason."""
        if self.has(path):
            return self.stated.get(path, value)
        if (value_in_force := self.value(path)) is not None:
            return value_in_force
        self.decisions.append(Decision(path, value, why))
        return value

    def value(self, path: str) -> Any:  # noqa: ANN401
        """The value in force of a setting, as far as it is known here."""
        return next((decision.value for decision in self.decisions if decision.path == path), self.stated.get(path))

    def kind(self, path: str, value: str, why: str) -> str:
        """The kind in force of a family of settings; a bare name is a kind."""
        named = self.stated.get(path)
        if isinstance(named, Mapping):
            named = named.get("kind", value)
        self.kinds[path] = str(self(f"{path}.kind", value, why) if named is None else named)
        return self.kinds[path]

    def withdraw(self, paths: Collection[str]) -> None:
        """Removes decisions that have no effect beside what the recipe sets."""
        self.decisions = [decision for decision in self.decisions if decision.path not in paths]

    def limits(self) -> dict[str, float]:
        """The limits of the budget that the recipe sets."""
        limits = {name: self.stated.get(f"train.{name}") for name in LIMITS}
        return {name: float(limit) for name, limit in limits.items() if isinstance(limit, int | float)}

    def tree(self) -> dict[str, Any]:
        """What was decided, as a tree; each table has the kind for which it was decided."""
        tree: dict[str, Any] = {}
        named = [(f"{path}.kind", kind) for path, kind in self.kinds.items()]
        for path, value in [*named, *((decision.path, decision.value) for decision in self.decisions)]:
            *tables, name = path.split(".")
            table = tree
            for key in tables:
                table = table.setdefault(key, {})
            table[name] = value
        return tree
