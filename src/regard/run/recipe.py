"""The recipe: one tree that says everything about a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import NonNegativeInt

from regard.config import Config, layered, parse_override, read_toml, resolve
from regard.errors import ConfigError
from regard.models import EncoderDecoderConfig, ModelConfig, preset


class Recipe(Config):
    """Everything about a run: saved with it, and enough to repeat it."""

    seed: NonNegativeInt = 1
    """Every random choice follows from it."""
    model: ModelConfig = EncoderDecoderConfig()
    """What is trained; `preset` starts from a known model's settings."""


def read_recipe(file: Path | None = None, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe file (or the defaults) with `key=value` settings on top."""
    return resolve_recipe(read_toml(file) if file is not None else {}, overrides)


def resolve_recipe(tree: dict[str, Any], overrides: Sequence[str] = ()) -> Recipe:
    """A tree with overrides on top; `model.preset`, wherever it is given, goes below both."""
    parsed = [(override, *parse_override(override)) for override in overrides]
    names = [value for _, path, value in parsed if path == ["model", "preset"]]
    rest = [override for override, path, _ in parsed if path != ["model", "preset"]]
    model = tree.get("model")
    if isinstance(model, dict) and "preset" in model:
        names.insert(0, model["preset"])
        tree = {**tree, "model": {key: value for key, value in model.items() if key != "preset"}}
    if names:
        if not isinstance(names[-1], str):
            raise ConfigError("model.preset", f"expected a name, got {names[-1]!r}")
        tree = layered(Recipe, {"model": preset(names[-1]).model}, tree)
    return resolve(Recipe, tree, rest)
