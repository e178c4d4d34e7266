"""Settings that would change nothing, told where a person has set them: by path and reason."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from regard.config.tree import Config


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


def _value(config: Any, keys: Sequence[str]) -> Any:  # noqa: ANN401
    for key in keys:
        config = getattr(config, key, None)
    return config


def _usual(owner: Config, keys: Sequence[str]) -> Iterator[Any]:
    """The defaults of a setting: as its own class has it, and as the tables around it have it."""
    key, *rest = keys
    field = type(owner).model_fields[key]
    default = None if field.is_required() else field.get_default(call_default_factory=True, validated_data={})
    if not rest:
        yield default
        return
    below = getattr(owner, key)
    if type(default) is type(below):
        yield _value(default, rest)
    if isinstance(below, Config):
        yield from _usual(below, rest)
