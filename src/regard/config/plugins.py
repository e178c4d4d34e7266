"""Plugins: Python files of a user, or installed packages, whose kinds register themselves when they are imported.

A recipe names them (`plugins = ["mine.py"]`); the recipe of a run has their SHA-256. They are code: a run executes
only those that the user has named, on the command line (`regard --plugin mine.py …`), in the environment
(`REGARD_PLUGINS`), or in the recipe that is being trained.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from regard.config.merge import parse_override
from regard.config.tree import Config, FileName
from regard.config.values import Tree
from regard.errors import ConfigError, RunError

ENTRY_POINTS = "regard.plugins"
"""Group of entry points under which a package offers a module with kinds."""
VARIABLE = "REGARD_PLUGINS"
"""Environment variable with the files that the user allows, separated as in PATH."""
SETTING = "plugins"
PLUGINS_FOLDER = "plugins"
"""Folder of a run with copies of its plugins."""


class PluginConfig(Config):
    """A Python file whose kinds a recipe uses."""

    file: FileName
    """A .py file beside the recipe, or the name of an installed package's plugin."""
    sha256: str | None = None
    """SHA-256 of the file; the recipe of a run has it."""


Plugins = tuple[
    Annotated[PluginConfig, BeforeValidator(lambda value: {"file": value} if isinstance(value, str) else value)], ...
]

_loaded: set[str] = set()
"""SHA-256 of each file that was executed in this process."""


def load_plugins(tree: Mapping[str, object], overrides: Sequence[str], folder: Path) -> tuple[Tree, Sequence[str]]:
    """Executes the plugins that a recipe in this folder names; gives tree and overrides with their SHA-256."""
    named = [value for path, value in map(parse_override, overrides) if path == [SETTING]] or [tree.get(SETTING, [])]
    pinned: list[dict[str, str]] = []
    for plugin in _Listed.from_tree({SETTING: named[-1]}).plugins:
        file = _find(plugin.file, folder)
        digest = _sha256(file)
        if plugin.sha256 not in (None, digest):
            raise ConfigError(
                SETTING, f"{file}: another file than the recipe's, by its SHA-256; leave sha256 out to use it"
            )
        _execute(file, digest)
        pinned.append({"file": str(file.resolve()), "sha256": digest})
    rest = [override for override in overrides if parse_override(override)[0] != [SETTING]]
    return ({**tree, SETTING: pinned} if pinned else dict(tree)), rest


def allow_plugins(files: Iterable[str]) -> None:
    """Executes the files that the user names on the command line, here and in the processes started from here."""
    paths = [_find(file, Path()).resolve() for file in files]
    for path in paths:
        _execute(path, _sha256(path))
    if paths:
        os.environ[VARIABLE] = os.pathsep.join([*map(str, paths), *filter(None, [os.environ.get(VARIABLE)])])


def require_plugins(tree: Mapping[str, object], run: Path) -> None:
    """RunError unless the user has named the plugins of a run's recipe, and they are unchanged."""
    plugins = _Listed.from_tree({SETTING: tree.get(SETTING, [])}).plugins
    for file in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep) if plugins else ()):
        _execute(_find(file, Path()), _sha256(_find(file, Path())))
    for plugin in plugins:
        if plugin.sha256 not in _loaded:
            copy = run / PLUGINS_FOLDER / Path(plugin.file).name
            raise RunError(
                f"{run}: trained with the plugin {plugin.file}, which is code and is not run unasked; read it, then "
                f"allow it: regard --plugin {copy if copy.exists() else plugin.file} VERB …, or set {VARIABLE}"
            )


class _Listed(Config):
    plugins: Plugins = ()


def _find(name: str, folder: Path) -> Path:
    if name.endswith(".py"):
        copy = folder / PLUGINS_FOLDER / Path(name).name
        file = copy if copy.is_file() and not (folder / name).is_file() else folder / name
        if not file.is_file():
            raise ConfigError(SETTING, f"{file}: no such file")
        return file
    entry = next(iter(entry_points(group=ENTRY_POINTS, name=name)), None)
    spec = find_spec(entry.module) if entry else None
    if spec is None or spec.origin is None:
        raise ConfigError(
            SETTING, f"'{name}' is neither a .py file nor an installed plugin (entry point {ENTRY_POINTS})"
        )
    return Path(spec.origin)


def _sha256(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


def _execute(file: Path, digest: str) -> None:
    """Runs a file once; its module is kept, as help texts are read from its source."""
    if digest in _loaded:
        return
    name = f"regard_plugin_{digest[:16]}"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigError(SETTING, f"{file}: cannot be imported")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(SETTING, f"{file}: {type(error).__name__}: {error}") from error
    _loaded.add(digest)
