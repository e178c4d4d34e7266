"""The recipe: one tree that says everything about a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import NonNegativeInt

from regard.config import Config, layered, parse_override, read_toml, resolve
from regard.data.settings import DataConfig
from regard.data.tokenizer import BpeConfig, TokenizerConfig
from regard.decode import BeamConfig, GreedyConfig, SampleConfig, SearchConfig
from regard.errors import ConfigError
from regard.models import EncoderDecoderConfig, ModelConfig, preset
from regard.tasks import TaskConfig, TranslationConfig
from regard.train.loop import TrainConfig


class Recipe(Config):
    """Everything about a run: saved with it, and enough to repeat it."""

    task: TaskConfig = TranslationConfig()
    """What is learnt; a name alone will do, such as task = "translation"."""
    seed: NonNegativeInt = 1
    """Every random choice follows from it."""
    data: DataConfig = DataConfig()
    """Where the data lies, and how it becomes batches."""
    tokenizer: TokenizerConfig = BpeConfig()
    """How text is cut into tokens."""
    model: ModelConfig = EncoderDecoderConfig()
    """What is trained; `preset` starts from a known model's settings."""
    train: TrainConfig = TrainConfig()
    """How it is trained, and for how long."""
    search: SearchConfig | None = None
    """How the trained model writes; when left out, a beam of five for translation, sampling for language models."""

    @property
    def usual_search(self) -> GreedyConfig | BeamConfig | SampleConfig:
        """How the trained model writes unless asked otherwise."""
        if self.search is not None:
            return self.search
        return BeamConfig() if self.task.kind == "translation" else SampleConfig(temperature=0.8, top_k=200)

    def check(self) -> None:
        """Refuses parts that do not go together."""
        self.task.check(self.model, self.data)


def read_recipe(file: Path | None = None, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe file (or the defaults) with `key=value` settings on top; its folder is where its data's names start."""
    recipe = resolve_recipe(read_toml(file) if file is not None else {}, overrides)
    folder = Path(recipe.data.folder) if recipe.data.folder else file.parent if file else Path()
    return recipe.but(data=recipe.data.but(folder=str(folder.resolve())))


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
