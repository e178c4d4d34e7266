"""The settings in a file of a Hugging Face folder: each key is honoured, irrelevant for a stated reason, or refused.

A key in none of the three lists refuses the import by its name. A key that a file leaves out has the library's default,
which is written down here, since transformers need not be installed to import a folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from regard.errors import DataError

ABSENT = object()
SIZES = ("image_size", "patch_size")
"""Keys that hold a number or a height and a width."""


@dataclass(frozen=True)
class Keys:
    """What becomes of each key of a file."""

    defaults: Mapping[str, Any]
    """The library's value of each key that its class declares."""
    honoured: frozenset[str]
    """Keys that our settings take over."""
    irrelevant: Mapping[str, str]
    """Keys that do not change what the model computes → why."""
    refused: Mapping[str, tuple[Any, ...]]
    """Keys of which we compute only these values → the values."""
    noted: frozenset[str] = frozenset()
    """Keys that we have no setting for and go without: an import names those that a file sets."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of a key → the key."""

    def settled(self, file: Path, tree: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all keys, the library's where the file has none; DataError names the first that is refused."""
        known = {*self.honoured, *self.irrelevant, *self.refused, *self.noted, *self.aliases}
        if unknown := [key for key in tree if key not in known]:
            close = get_close_matches(unknown[0], known, n=1)
            advice = f"did you mean '{close[0]}'?" if close else "take it out if the model computes the same without it"
            also = f" (nor are {', '.join(unknown[1:6])})" if unknown[1:] else ""
            raise DataError(file, f"'{unknown[0]}' is no setting that an import knows{also}; {advice}")
        tree = self._named(file, tree)
        settings = {**self.defaults, **tree}
        for key, computed in self.refused.items():
            value = settings.get(key, ABSENT)
            if value is not ABSENT and not any(same(value, one) for one in computed):
                raise DataError(file, f"{key}: expected {' or '.join(map(repr, computed))}, {got(key, value, tree)}")
        for key in self.honoured & settings.keys():
            settings[key] = self._typed(file, key, settings[key])
        return settings

    def _named(self, file: Path, tree: Mapping[str, Any]) -> dict[str, Any]:
        named = {key: value for key, value in tree.items() if key not in self.aliases}
        for alias, key in self.aliases.items():
            if alias in tree and not same(named.setdefault(key, tree[alias]), tree[alias]):
                raise DataError(file, f"{alias}: another name of {key}, which is {named[key]!r}; got {tree[alias]!r}")
        return named

    def _typed(self, file: Path, key: str, value: Any) -> Any:  # noqa: ANN401
        """A value of the type that the library's default has; of a token's id, the one id of a list of one."""
        if key.endswith("_token_id"):
            return token_id(file, key, value)
        default = self.defaults.get(key)
        if default is None or isinstance(default, dict | list) or key in SIZES:
            return value  # whoever reads it knows its types
        wanted = (float, int) if isinstance(default, float) else (type(default),)
        if not isinstance(value, wanted) or (isinstance(value, bool) and not isinstance(default, bool)):
            raise DataError(file, f"{key}: expected a value like {default!r}, got {value!r}")
        return value


def token_id(file: Path, key: str, value: Any) -> int | None:  # noqa: ANN401
    """The id of a special token: several of one kind are more than a vocabulary here has."""
    if isinstance(value, list) and value and all(one == value[0] for one in value):
        value = value[0]
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise DataError(file, f"{key}: expected one token's id, got {value!r}; keep the one that is meant")
    return value


def same(one: Any, other: Any) -> bool:  # noqa: ANN401
    """Whether two values of JSON are equal; 1 is not True."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def got(key: str, value: Any, tree: Mapping[str, Any]) -> str:  # noqa: ANN401
    """The end of a sentence about a value that a file has, or that it leaves to the library's default."""
    return f"got {value!r}" if key in tree else f"got nothing, which means {value!r}"
