"""What settings there are: path, type, default and help.

And those that would change nothing, told where a person has set them.
"""

import inspect
import json
import re
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from regard.config.synonyms import SETTINGS, VALUES, plain
from regard.config.tree import Config, default_of, help_texts, kinds, members, sub_config, walk
from regard.config.values import is_list
from regard.errors import ConfigError, nearest


@dataclass(frozen=True)
class Setting:
    path: str
    type: str
    default: str
    help: str


def explain(root: type[Config], path: str = "") -> list[Setting]:
    """The settings at and below a path; below a family, those of each kind."""
    owners: list[tuple[str, type[Config]]] = [("", root)]
    head: list[Setting] = []
    keys = [key for key in path.split(".") if key]
    for depth, name in enumerate(keys, start=1):
        key = next((owner.renamed[name] for _, owner in owners if name in owner.renamed), name)
        holders = [(prefix, owner) for prefix, owner in owners if key in owner.model_fields]
        if not holders:
            names = {name for _, owner in owners for name in owner.model_fields}
            raise ConfigError(path, f"unknown setting; {nearest(key, names)}")
        head = [_setting(_joined(".".join(keys[: depth - 1]), key), holders[0][1], key)]
        entered = holders if depth < len(keys) else holders[:1]  # on the way, whichever kind has what is asked for
        below = [one for prefix, owner in entered for one in _below(_joined(prefix, key), owner.model_fields[key])]
        owners = list(dict.fromkeys(below))
    return head + [setting for prefix, owner in owners for setting in _settings(prefix, owner)]


def search(root: type[Config], word: str) -> list[Setting]:
    """The settings that a word may mean: by their names, by what others call them, and by their help; best first."""
    first: dict[tuple[str, str], Setting] = {}
    for one in _every(root):
        first.setdefault((one.path, one.default if one.path.endswith(".kind") else ""), one)
    values = [(path, f'"{value}"' if path.endswith(".kind") else None) for path, value in VALUES.get(plain(word), [])]
    meant = {(SETTINGS.get(plain(word)), None), *values}
    sought = word.casefold()
    ways: list[Callable[[Setting], bool]] = [
        lambda one: bool({(one.path, None), (one.path, one.default)} & meant),
        lambda one: one.path.rpartition(".")[2] == plain(word) or one.default == f'"{word}"',
        lambda one: plain(word) in one.path.rpartition(".")[2],
        lambda one: re.search(rf"\b{re.escape(sought)}", one.help.casefold()) is not None,
    ]
    matches: list[Setting] = []
    for fits in ways:
        matches += [one for one in first.values() if fits(one) and one not in matches]
    if not matches:
        raise ConfigError(word, "no setting has this word in its path, its help or its synonyms; all: regard config")
    return matches


def _every(root: type[Config]) -> Iterator[Setting]:
    """All settings, of all kinds; those of validation and test data are those of training data once more."""
    for path, owner, name in walk(root):
        if path.startswith(("data.valid.", "data.test.")):
            continue
        if name == "kind":
            yield Setting(path, "", f'"{owner.model_fields["kind"].default}"', _summary(owner))
        else:
            yield _setting(path, owner, name)


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _below(path: str, field: FieldInfo) -> list[tuple[str, type[Config]]]:
    """The configs that a setting takes, that of its default first."""
    default = type(default_of(field))
    return [(path, member) for member in sorted(members(field.annotation), key=lambda member: member is not default)]


def _settings(prefix: str, owner: type[Config]) -> Iterator[Setting]:
    if "kind" in owner.model_fields:
        kind = owner.model_fields["kind"].default
        yield Setting(f"{prefix}.kind", "", f'"{kind}"', _summary(owner))
    for name, field in owner.model_fields.items():
        if name != "kind":
            yield _setting(_joined(prefix, name), owner, name)
            plain = sub_config(field.annotation)
            if plain and not kinds(field.annotation):
                yield from _settings(_joined(prefix, name), plain)


def _setting(path: str, owner: type[Config], name: str) -> Setting:
    field = owner.model_fields[name]
    return Setting(path, type_name(field.annotation), _default(field), help_texts(owner).get(name, ""))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = default_of(field)
    if isinstance(default, Config):
        return getattr(default, "kind", "…")
    if is_list(default):
        configs = [part for part in default if isinstance(part, Config)]
        return ", ".join(getattr(part, "kind", "…") for part in configs) if configs else json.dumps(default)
    return "none" if default is None else str(default).lower() if isinstance(default, bool) else str(default)


def type_name(annotation: object) -> str:
    """A type as a person would say it: `one of before, after`, `number`, `text`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return type_name(get_args(annotation)[0])
    if family := kinds(annotation):
        return f"one of {', '.join(family)}"
    if origin is Literal:
        return f"one of {', '.join(str(choice) for choice in get_args(annotation))}"
    if origin in (types.UnionType, Union):
        return " or ".join(type_name(part) for part in get_args(annotation) if part is not type(None))
    names = {int: "whole number", float: "number", str: "text", bool: "true or false"}
    if isinstance(annotation, type) and annotation in names:
        return names[annotation]
    if origin in (list, tuple, dict):
        return f"{origin.__name__} of {type_name(get_args(annotation)[0])}"
    return "table" if sub_config(annotation) else getattr(annotation, "__name__", str(annotation))


def _summary(owner: type[Config]) -> str:
    return (inspect.getdoc(owner) or "").split("\n\n")[0].replace("\n", " ")


class Unused(NamedTuple):
    """A setting that nothing reads in some combination."""

    path: str
    why: str
    """Goes on after "has no effect", such as: on images, which have no tokens."""


def unused_sentences(
    config: Config, unused: Iterable[Unused], inherited: Config | None = None
) -> Iterator[tuple[str, str]]:
    """Path and sentence of each unused setting that is neither at its default nor as in `inherited`."""
    for path, why in unused:
        keys = path.split(".")
        value = _value(config, keys)
        if value is None or value in _usual(config, keys):
            continue
        if inherited is None or value != _value(inherited, keys):
            yield path, f"has no effect {why}; leave it out"


def _value(config: object, keys: Sequence[str]) -> object:
    for key in keys:
        config = getattr(config, key, None)
    return config


def _usual(owner: Config, keys: Sequence[str]) -> Iterator[object]:
    """The defaults of a setting: as its own class has it, and as the tables around it have it."""
    key, *rest = keys
    field = type(owner).model_fields[key]
    default = None if field.is_required() else default_of(field)
    if not rest:
        yield default
        return
    below = getattr(owner, key)
    if type(default) is type(below):
        yield _value(default, rest)
    if isinstance(below, Config):
        yield from _usual(below, rest)
