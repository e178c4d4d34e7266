"""The keys of a JSON file in a Hugging Face folder: each is honoured, irrelevant for a stated reason, or refused.

A key in none of these lists refuses the import by its name. A key that a file leaves out has the library's default,
which is written down here, since transformers need not be installed to import a folder. An architecture declares its
keys as `base_keys(…) | honoured(width=768) | irrelevant(TRAINING, dropout=0.1)`; the right-hand side wins.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.text.tokenizer_file import LARGEST_FILE

Json = dict[str, Any]
"""An object of JSON."""
NO_DEFAULT = object()
"""Default of a key that the library's class does not declare, such as one of an older version."""
SIZES = ("image_size", "patch_size")
"""Keys that hold a number or a height and a width."""


def read_table(file: Path) -> Json:
    """The object in a JSON file of unknown origin."""
    try:
        tree = json.loads(read_small(file))
    except (ValueError, RecursionError) as error:
        raise DataError(file, f"not JSON: {error}") from None
    if not isinstance(tree, dict):
        raise DataError(file, "expected a table")
    return tree


def read_small(file: Path) -> str:
    """The text of a file that is no larger than vocabularies are."""
    if file.stat().st_size > LARGEST_FILE:
        raise DataError(file, f"more than {LARGEST_FILE:,} bytes; is this the right file?")
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(file, f"byte {error.start} is not UTF-8") from None


@dataclass(frozen=True)
class Keys:
    """What an import does with each key of a file."""

    defaults: Mapping[str, object] = field(default_factory=dict)
    """The library's value of each key that its class declares."""
    honoured: frozenset[str] = frozenset()
    """Keys that our settings take over."""
    irrelevant: Mapping[str, str] = field(default_factory=dict)
    """Keys that do not change what the model computes → why."""
    refused: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    """Keys of which we compute only these values → the values."""
    noted: frozenset[str] = frozenset()
    """Keys that we have no setting for and go without: an import names those that a file sets."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of a key → the key."""

    def __or__(self, other: "Keys") -> "Keys":
        moved = {*other.honoured, *other.irrelevant, *other.refused, *other.noted}
        return Keys(
            {**self.defaults, **other.defaults},
            (self.honoured - moved) | other.honoured,
            {**{key: reason for key, reason in self.irrelevant.items() if key not in moved}, **other.irrelevant},
            {**{key: values for key, values in self.refused.items() if key not in moved}, **other.refused},
            (self.noted - moved) | other.noted,
            {**self.aliases, **other.aliases},
        )

    def resolve(self, file: Path, tree: Mapping[str, object]) -> Json:
        """The values of all keys, the library's where the file has none; DataError names the first that is refused."""
        names = {*self.honoured, *self.irrelevant, *self.refused, *self.noted, *self.aliases}
        if unknown := [key for key in tree if key not in names]:
            close = get_close_matches(unknown[0], names, n=1)
            advice = f"did you mean '{close[0]}'?" if close else "take it out if the model computes the same without it"
            also = f" (nor are {', '.join(unknown[1:6])})" if unknown[1:] else ""
            raise DataError(file, f"'{unknown[0]}' is no setting that an import knows{also}; {advice}")
        tree = self._without_aliases(file, tree)
        settings = {**self.defaults, **tree}
        for key, computed in self.refused.items():
            value = settings.get(key, NO_DEFAULT)
            if value is not NO_DEFAULT and not any(same(value, one) for one in computed):
                got = f"got {value!r}" if key in tree else f"got nothing, which means {value!r}"
                raise DataError(file, f"{key}: expected {' or '.join(map(repr, computed))}, {got}")
        for key in self.honoured & settings.keys():
            settings[key] = self._typed(file, key, settings[key])
        return settings

    def _without_aliases(self, file: Path, tree: Mapping[str, object]) -> Json:
        settings = {key: value for key, value in tree.items() if key not in self.aliases}
        for alias, key in self.aliases.items():
            if alias in tree and not same(settings.setdefault(key, tree[alias]), tree[alias]):
                raise DataError(
                    file, f"{alias}: another name of {key}, which is {settings[key]!r}; got {tree[alias]!r}"
                )
        return settings

    def _typed(self, file: Path, key: str, value: object) -> object:
        """A value of the type that the library's default has; of a list of one token id, that id."""
        if key.endswith("_token_id"):
            return token_id(file, key, value)
        default = self.defaults.get(key)
        if default is None or isinstance(default, dict | list) or key in SIZES:
            return value  # checked where it is used
        types = (float, int) if isinstance(default, float) else (type(default),)
        if not isinstance(value, types) or (isinstance(value, bool) and not isinstance(default, bool)):
            raise DataError(file, f"{key}: expected a value like {default!r}, got {value!r}")
        return value


def honoured(**defaults: object) -> Keys:
    """Keys that our settings take over, with the library's defaults."""
    return Keys(_declared(defaults), honoured=frozenset(defaults))


def irrelevant(reason: str, *names: str, **defaults: object) -> Keys:
    """Keys that do not change what the model computes; `names` are those that the library's class does not declare."""
    return Keys(_declared(defaults), irrelevant=dict.fromkeys([*names, *defaults], reason))


def refused(key: str, *computed: object, default: object = NO_DEFAULT) -> Keys:
    """A key of which we compute these values only."""
    return Keys(_declared({key: default}), refused={key: computed})


def noted(*names: str, **defaults: object) -> Keys:
    """Keys that we have no setting for: an import goes without and names those that a file sets."""
    return Keys(_declared(defaults), noted=frozenset([*names, *defaults]))


def aliases(**names: str) -> Keys:
    return Keys(aliases=names)


def _declared(defaults: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in defaults.items() if value is not NO_DEFAULT}


def token_id(file: Path, key: str, value: object) -> int | None:
    """The id of a special token: several of one kind are more than a vocabulary here has."""
    if isinstance(value, list) and value and all(one == value[0] for one in value):
        value = value[0]
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise DataError(file, f"{key}: expected one token's id, got {value!r}; keep the one that is meant")
    return value


def same(one: object, other: object) -> bool:
    """Whether two values of JSON are equal; 1 is not True."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
