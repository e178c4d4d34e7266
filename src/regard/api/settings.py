"""Python's keywords as settings of a recipe: `train__steps=100` and `train={"steps": 100}` are `train.steps=100`."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from regard.config import Config
from regard.errors import ConfigError, RegardError

OPTIONS = {
    "--resume": "resume=True", "--data-changed": "data_changed=True", "--out": "out=…", "--task": "task=…",
    "--text COLUMN": "text=…", "--label COLUMN": "label=…", "--source COLUMN": "source=…",
    "--target COLUMN": "target=…", "--text": "text=…", "--label": "label=…", "--source": "source=…",
    "--target": "target=…", "--data": "data=…",
}  # fmt: skip
"""What options of the command line are called from Python."""


def as_overrides(settings: Mapping[str, object]) -> list[str]:
    """`key=value` settings as the command line has them; files of plugins are named from the current folder."""
    if isinstance(plugins := settings.get("plugins"), list | tuple):
        names = [str(name) for name in cast(Sequence[object], plugins)]
        absolute = [str(Path(name).absolute()) if name.endswith(".py") else name for name in names]
        settings = {**settings, "plugins": absolute}
    return [f"{name.replace('__', '.')}={_toml(value, name)}" for name, value in settings.items()]


def _toml(value: object, name: str) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case None:
            return "none"
        case str() | Path():
            return json.dumps(str(value), ensure_ascii=False)
        case Config():
            return _toml(value.tree(), name)
        case Mapping():
            items = cast(Mapping[object, object], value).items()
            pairs = [f"{json.dumps(str(key))} = {_toml(item, name)}" for key, item in items if item is not None]
            return f"{{{', '.join(pairs)}}}"
        case list() | tuple():
            return f"[{', '.join(_toml(item, name) for item in cast(Sequence[object], value))}]"
        case _ if hasattr(value, "item"):  # a number of numpy or torch
            return _toml(cast(object, value.item()), name)  # type: ignore[attr-defined]
        case _:
            got = f"a value of type {type(value).__name__}"
            raise ConfigError(name, f"expected a number, a text, a list or a dict of them, got {got}")


@contextmanager
def in_python() -> Iterator[None]:
    """Errors name Python's keywords in place of the command line's options."""
    try:
        yield
    except RegardError as error:
        pattern = "|".join(map(re.escape, OPTIONS))
        error.args = (re.sub(rf"(?:{pattern})(?![\w-])", lambda match: OPTIONS[match[0]], str(error)),)
        raise
