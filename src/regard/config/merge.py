"""`defaults → recipe.toml → key=value`: settings laid over one another before anything is validated.

Two rules make `key=value` do what people mean: a setting lands on the kind that is there (also when that kind is only
the default), and changing a kind keeps what the family shares and drops what only the old kind had.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TypeVar, cast

from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from regard.config.synonyms import meant_setting
from regard.config.tree import Config, all_paths, allows_none, default_of, kinds, sub_config, with_present_names
from regard.config.values import Tree, is_table
from regard.errors import ConfigError, nearest
from regard.progress import tell

NONE = "none"
"""How `regard config` shows a setting that is not set, and how one is taken back."""
SomeConfig = TypeVar("SomeConfig", bound=Config)


def resolve(root: type[SomeConfig], tree: Mapping[str, object], overrides: Iterable[str] = ()) -> SomeConfig:
    """The validated config: the recipe's tree with `key=value` overrides on top."""
    tree = _name_kinds(root, tree)
    for override in overrides:
        path, value = parse_override(override)
        _lay(root, tree, path, value)
    return root.from_tree(tree)


def layered(root: type[Config], base: Mapping[str, object], tree: Mapping[str, object]) -> Tree:
    """One tree laid over another, table by table; a change of kind follows the rule above."""
    result = _name_kinds(root, base)
    for path, value in _leaves(tree):
        if value != {} or not _has(result, path):
            _lay(root, result, path, value)
    return result


def _leaves(tree: Mapping[str, object]) -> Iterable[tuple[list[str], object]]:
    """Paths and values of a tree, each table's kind before its other settings; an empty table is a value."""
    for key, value in sorted(tree.items(), key=lambda item: item[0] != "kind"):
        if is_table(value) and value:
            yield from (([key, *path], leaf) for path, leaf in _leaves(value))
        else:
            yield [key], value


def _has(tree: object, path: list[str]) -> bool:
    for key in path:
        tree = tree.get(key) if is_table(tree) else None
    return tree is not None


def parse_override(override: str) -> tuple[list[str], object]:
    """`model.width=512` as its path and value; the value is read as TOML, and a bare word as text."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError("", f"expected key=value such as model.width=512, got '{override}'")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text.strip()
    return [part.strip() for part in key.split(".")], value


def _name_kinds(owner: type[Config], tree: Mapping[str, object], above: str = "") -> Tree:
    """The same tree with every family's kind written out, the default kind where none is given."""
    named: Tree = {}
    for key in tree.keys() & owner.renamed.keys():
        tell_renamed(f"{above}{key}", f"{above}{owner.renamed[key]}")
    for key, value in with_present_names(owner.renamed, tree).items():
        field = owner.model_fields.get(key)
        named[key] = _name_kind(field, value, f"{above}{key}.") if field else value
    return named


def _name_kind(field: FieldInfo, value: object, above: str = "") -> object:
    if value == NONE and allows_none(field.annotation):
        return None
    family = kinds(field.annotation)
    if family and isinstance(value, str):
        value = {"kind": value}
    if not family and sub_config(field.annotation):  # a number may be short for a table
        for short in (rule for rule in field.metadata if isinstance(rule, BeforeValidator)):
            value = cast(Callable[[object], object], short.func)(value)
    if not is_table(value):
        return value
    if family and "kind" not in value and (default := getattr(default_of(field), "kind", None)):
        value = {"kind": default, **value}
    below = family.get(str(value.get("kind"))) if family else sub_config(field.annotation)
    return _name_kinds(below, value, above) if below else value


def _lay(root: type[Config], tree: Tree, path: list[str], value: object) -> None:
    """Puts a value at a path, making the tables on the way."""
    owner, field, top = root, None, tree
    for depth in range(len(path)):
        here, key = ".".join(path[: depth + 1]), _present_name(owner, path, depth)
        if key not in owner.model_fields:
            raise ConfigError(here, _unknown_setting(key, owner, field, root))
        last, before = depth == len(path) - 1, field
        field = owner.model_fields[key]
        if last and key == "kind" and before is not None:
            _change_kind(tree, owner, kinds(before.annotation), value)
        elif last and value == NONE and allows_none(field.annotation):
            tree[key] = None
        elif last and key in tree and isinstance(value, str) and kinds(field.annotation):
            _lay(root, top, [*path, "kind"], value)  # a bare kind
            return
        elif last:
            tree[key] = _name_kind(field, value)
        else:
            table = _name_kind(field, tree.get(key, {}))
            below = kinds(field.annotation).get(str(table.get("kind"))) if is_table(table) else None
            below = below or sub_config(field.annotation)
            if below is None and (family := kinds(field.annotation)):
                if path[depth + 1 :] != ["kind"]:
                    raise _without_kind(here, path[depth + 1], family, root)
                tree[key] = _name_kind(field, {"kind": value})
                return
            if below is None or not is_table(table):
                raise ConfigError(here, f"'{'.'.join(path[depth + 1 :])}' cannot stand below it; expected one value")
            tree[key], tree, owner = table, table, below


def _present_name(owner: type[Config], path: list[str], depth: int) -> str:
    name = path[depth]
    if name not in owner.renamed:
        return name
    tell_renamed(".".join(path[: depth + 1]), ".".join([*path[:depth], owner.renamed[name]]))
    return owner.renamed[name]


@cache
def tell_renamed(old: str, new: str) -> None:
    """Once in a process."""
    tell(f"regard: {old} is now called {new}; the old name still works")


def _without_kind(here: str, key: str, family: dict[str, type[Config]], root: type[Config]) -> ConfigError:
    """A setting of a family of which no kind is chosen yet."""
    fitting = [kind for kind, member in family.items() if key in member.model_fields]
    hint = "" if fitting else meant_setting(key, all_paths(root))
    if hint:
        return ConfigError(f"{here}.{key}", f"unknown setting; {hint}")
    return ConfigError(here, f"expected its kind first, such as {here}.kind={(fitting or [*family])[0]}")


def _change_kind(table: Tree, old: type[Config], family: dict[str, type[Config]], kind: object) -> None:
    new = family.get(str(kind))
    if new is not old:
        shared = {name for base in old.__mro__ if new and issubclass(new, base) for name in _own_fields(base)}
        for name in [name for name in table if name not in shared]:
            del table[name]
    table["kind"] = kind


def _own_fields(base: type) -> Iterable[str]:
    return base.model_fields if issubclass(base, Config) else ()


def _unknown_setting(key: str, owner: type[Config], field: FieldInfo | None, root: type[Config]) -> str:
    """Says which other kind has the setting, where one has it."""
    others = [kind for kind, member in kinds(field.annotation).items() if key in member.model_fields] if field else []
    own_kind = owner.model_fields["kind"].default if "kind" in owner.model_fields else None
    if others:
        return f"kind '{own_kind}' has no such setting; these kinds have it: {', '.join(sorted(others))}"
    return f"unknown setting; {meant_setting(key, all_paths(root)) or nearest(key, owner.model_fields)}"
