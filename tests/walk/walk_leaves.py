"""The leaves of the recipe's tree, read from the classes, and other values for each."""

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types as at
from pydantic.fields import FieldInfo

from regard.config import Config
from regard.config.tree import kinds, sub_config
from regard.run import Recipe

Tree = dict[str, Any]
SEARCH = "search"
"""A section that acts on generation only; tests/effects walks over it."""


@dataclass(frozen=True)
class Leaf:
    """One setting; `path` names the kind of each family on the way, as in `model:encoder.position:rotary.theta`."""

    path: tuple[str, ...]
    owner: type[Config]

    @property
    def name(self) -> str:
        """The path with the kinds on the way."""
        return ".".join(self.path)

    @property
    def keys(self) -> tuple[str, ...]:
        """The path as a recipe writes it."""
        return tuple(step.partition(":")[0] for step in self.path)

    @property
    def section(self) -> str:
        """The table of the recipe in which it stands."""
        return self.keys[0]

    @property
    def field(self) -> FieldInfo:
        """What pydantic knows of it."""
        return self.owner.model_fields[self.keys[-1]]

    def base(self) -> Tree:
        """The smallest tree in which it can be set: the kinds on the way to it."""
        tree: Tree = {}
        here = tree
        for step in self.path[:-1]:
            key, _, kind = step.partition(":")
            here[key] = {"kind": kind} if kind else {}
            here = here[key]
        return tree

    def setting(self, value: object) -> Tree:
        """The same tree with a value for it."""
        tree = self.base()
        here = tree
        for key in self.keys[:-1]:
            here = here[key]
        here[self.keys[-1]] = value
        return tree


def leaves(owner: type[Config] = Recipe, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Every setting under every kind; a table or a family is a leaf itself where it can be left out or changed."""
    for name, field in owner.model_fields.items():
        if name == "kind":
            continue
        family, table = kinds(field.annotation), sub_config(field.annotation)
        if family or table is None or type(None) in get_args(field.annotation):
            yield Leaf((*path, name), owner)
        for kind, member in family.items():
            yield from leaves(member, (*path, f"{name}:{kind}"))
        if not family and table is not None:
            yield from leaves(table, (*path, name))


def other_values(leaf: Leaf, current: object) -> tuple[list[Any], bool]:
    """Values to try in place of the current one, and whether each of them must act (or be refused), not only one."""
    return _other(leaf.field.annotation, leaf.field.metadata, current)


def _other(annotation: Any, rules: list[Any], current: object) -> tuple[list[Any], bool]:
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        more = [rule for part in more for rule in (part.metadata if isinstance(part, FieldInfo) else [part])]
        return _other(inner, [*rules, *more], current)
    if family := kinds(annotation):
        return [{"kind": kind} for kind in family if kind != getattr(current, "kind", None)], True
    if sub_config(annotation):
        return [{}], False
    if origin in (Union, types.UnionType):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        found = [value for part in parts for value in _other(part, rules, current)[0]]
        return found, len(parts) == 1 and get_origin(parts[0]) is Literal
    if origin is Literal:
        return [value for value in get_args(annotation) if value != current], True
    if annotation is bool:
        return [True, False] if current is None else [not current], current is not None
    if annotation in (int, float):
        current = None if isinstance(current, str) else current
        return _numbers(annotation, rules, current), False
    return [], False


def _numbers(annotation: type, rules: list[Any], current: Any) -> list[Any]:
    wanted: list[Any]
    if annotation is int:
        wanted = [1, 2, 3, 4] if current is None else [1, 2, 3, current + 1, 2 * current, 4]
    else:
        wanted = [0.5, 0.3, 2.0] if current is None else [0.5, 0.3, current / 2, 2 * current, current + 0.25]
    for rule in rules:
        wanted += [rule.ge] if isinstance(rule, at.Ge) else []
    return [value for value in dict.fromkeys(wanted) if value != current and _allowed(value, rules)]


def _allowed(value: float, rules: list[Any]) -> bool:
    for rule in rules:
        for name, fits in (("ge", value.__ge__), ("gt", value.__gt__), ("le", value.__le__), ("lt", value.__lt__)):
            bound = getattr(rule, name, None)
            if bound is not None and fits(bound) is False:
                return False
    return True
