"""The recipe: one tree that says everything about a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import Field

from regard.config import Config, Plugins, kinds, layered, parse_override, read_toml, resolve
from regard.config.plugins import load_plugins, require_plugins
from regard.config.shipped import data_folder, recipe_file
from regard.config.values import Tree, is_table, table_of
from regard.data.settings import DataConfig
from regard.decode import BeamConfig, GreedyConfig, SampleConfig, SearchConfig
from regard.errors import ConfigError
from regard.files.run_folder import RECIPE_FILE, is_run
from regard.models import EncoderDecoderConfig, ModelConfig, preset
from regard.run.initial_weights import StartConfig
from regard.tasks import TaskConfig, TranslationConfig
from regard.tasks.unknown_words import need_words
from regard.text.tokenizer import BpeConfig, TokenizerConfig
from regard.train.memory import refuse_depth
from regard.train.settings import TrainConfig


class Recipe(Config):
    """Everything about a run: saved with it, and enough to repeat it."""

    defaults: Literal["data", "fixed"] = "data"
    """What settings are that the recipe leaves out: decided from its data, budget and machine, or fixed, the same for
    all. The recipe in a run's folder is complete, and fixed."""
    plugins: Plugins = ()
    """Python files with kinds of your own, or names of installed plugins; they are run as code."""
    task: TaskConfig = TranslationConfig()
    """What is trained; a name alone will do, such as task = "translation"."""
    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = 1
    """Every random choice follows from it."""
    data: DataConfig = DataConfig()
    """Where the data lies, and how it becomes batches."""
    tokenizer: TokenizerConfig = BpeConfig()
    """How text is cut into tokens."""
    model: ModelConfig = EncoderDecoderConfig()
    """What is trained; `preset` starts from a known model's settings."""
    train: TrainConfig = TrainConfig()
    """How it is trained, and for how long."""
    start: StartConfig | None = None
    """Begin with the weights of a trained run; `model.from = "runs/…"` sets this, and model and tokenizer as there."""
    search: SearchConfig | None = None
    """How the trained model generates; when left out, a beam of five for translation, sampling for language models."""

    @property
    def usual_search(self) -> GreedyConfig | BeamConfig | SampleConfig:
        """How the trained model generates unless the request says otherwise."""
        return self.task.usual_search if self.search is None else self.search

    @property
    def longest_input(self) -> int | None:
        """Most tokens of an input that the model is made for; None where the task cuts longer ones itself."""
        if self.task.input_limit is not None:
            return None
        return min(limit for limit in (self.model.longest, self.data.max_length) if limit is not None)

    def check(self) -> None:
        refuse_depth(self.model)
        self.task.check(self.model, self.data)
        if self.search is not None:
            self._check_search(self.search)
        if isinstance(self.task, TranslationConfig):
            if self.task.unknown == "replace":
                need_words(self.tokenizer.kind)
            if self.task.reward is not None and self.start is None:
                raise ConfigError(
                    "task.reward", "an untrained model earns no reward: train one with likelihood first, then start "
                    "from it with model.from=runs/NAME",
                )  # fmt: skip

    def _check_search(self, search: GreedyConfig | BeamConfig | SampleConfig) -> None:
        """Refuses a search, or settings of one, that the task's models have no use for."""
        task, train = self.task, self.data.train
        if not task.generates:
            raise ConfigError("search", f"a model of {task.kind} generates no text; leave it out")
        if search.max_length_ratio is not None and task.content == "text":
            raise ConfigError(
                "search.max_length_ratio", "a language model has no source to be measured by; set search.max_length"
            )
        if search.min_length and task.content == "text" and train is not None and train.is_running_text:
            raise ConfigError(
                "search.min_length", "a model of running text never ends by itself; leave it out, or set max_length"
            )


def recipe_tree(file: Path, overrides: Sequence[str] = ()) -> tuple[Tree, Sequence[str]]:
    """What a recipe's file says, and the settings on top, once its plugins are loaded; ConfigError for a sweep."""
    tree = read_toml(file)
    if is_table(tree.get("variants")) and "task" not in tree:
        raise ConfigError("", f"{file}: is a sweep of several recipes; train it with: regard compare {file}")
    return load_plugins(tree, overrides, file.parent)


def read_run_tree(run: Path) -> Tree:
    """The recipe in a run folder; RunError where it was trained with plugins that the user has not allowed."""
    tree = read_toml(run / RECIPE_FILE)
    require_plugins(tree, run)
    return tree


def read_recipe(file: Path | None = None, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe (or the defaults) with `key=value` settings on top; its folder is where its data's names start.

    In place of a file, the name of a recipe that comes with the program will do.
    """
    file = file if file is None else recipe_file(file)
    recipe = resolve_recipe(*(recipe_tree(file, overrides) if file is not None else ({}, overrides)))
    return with_folder(recipe, file.parent if file else Path())


def with_folder(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe with the folder that names of files start at, unless it sets one."""
    data = data_folder(recipe.data.folder) if recipe.data.folder else folder
    return recipe.but(data=recipe.data.but(folder=str(data.resolve())))


def resolve_recipe(tree: Tree, overrides: Sequence[str] = (), below: Tree | None = None) -> Recipe:
    """A tree with overrides on top; `model.preset` and `model.from`, wherever they are given, go below both.

    What lies below all of them are settings decided from the data; without any, the model's kind is the task's usual.
    """
    tree, overrides, name = pop_model_key("preset", tree, overrides)
    tree, overrides, run = pop_model_key("from", tree, overrides)
    if name is not None:
        tree = layered(Recipe, {"model": preset(name).model}, tree)
    if run is not None:
        tree = _from_run(run, tree, overrides)
    if below:
        tree = layered(Recipe, below, tree)
    elif name is None and run is None:
        tree = _with_usual_model(tree, overrides)
    return resolve(Recipe, tree, overrides)


def _with_usual_model(tree: Tree, overrides: Sequence[str]) -> Tree:
    """The tree with the kind of model that its task usually has, where it names none."""
    model = tree.get("model", {})
    if not is_table(model) or "kind" in model:
        return tree
    task = tree.get("task")
    for path, value in map(parse_override, overrides):
        if path == ["task"] or path == ["task", "kind"]:
            task = value
    kind = task.get("kind") if is_table(task) else task
    member = kinds(TaskConfig).get(str(kind or TranslationConfig().kind))
    usual = cast(type[TaskConfig] | None, member)
    return tree if usual is None else {**tree, "model": {"kind": usual.usual_model, **model}}


def pop_model_key(key: str, tree: Tree, overrides: Sequence[str]) -> tuple[Tree, list[str], str | None]:
    """Tree and overrides without `model.key`, and its last value."""
    parsed = [(override, *parse_override(override)) for override in overrides]
    values = [value for _, path, value in parsed if path == ["model", key]]
    rest = [override for override, path, _ in parsed if path != ["model", key]]
    model = tree.get("model")
    if is_table(model) and key in model:
        values.insert(0, model[key])
        tree = {**tree, "model": {name: value for name, value in model.items() if name != key}}
    name = values[-1] if values else None
    if not isinstance(name, str | None):
        raise ConfigError(f"model.{key}", f"expected a name, got {name!r}")
    return tree, rest, name


def _from_run(run: str, tree: Tree, overrides: Sequence[str]) -> Tree:
    """A tree on top of a run's own model and tokenizer settings, to start with its weights."""
    if not is_run(Path(run)):
        raise ConfigError("model.from", f"{run} is no run folder, it has no {RECIPE_FILE}")
    before = read_run_tree(Path(run))
    model = _model_of(before, tree, overrides)
    below = {"model": model, "tokenizer": before.get("tokenizer", {}), "start": {"run": run}}
    merged = layered(Recipe, below, tree)
    if merged["tokenizer"] != layered(Recipe, below, {})["tokenizer"]:
        raise ConfigError("tokenizer", f"a model started from {run} keeps its vocabulary; leave tokenizer out")
    return merged


def _model_of(before: Tree, tree: Tree, overrides: Sequence[str]) -> Tree:
    """The settings of a run's model; its output layer only where the new task can use it."""
    task_overrides = [override for override in overrides if parse_override(override)[0][0] == "task"]
    task = resolve(Recipe, {key: value for key, value in tree.items() if key == "task"}, task_overrides).task
    model, old = table_of(layered(Recipe, {"model": before.get("model", {})}, {}), "model"), before.get("task")
    same = task.kind == (old.get("kind") if is_table(old) else old)
    fits = not task.has_classes and table_of(model, "head").get("kind") == "vocabulary"
    return model if same or fits else {name: value for name, value in model.items() if name != "head"}


# The demo: the embedded corpus needs no file beside the program

DEMO: Tree = {
    "defaults": "fixed",
    "task": {"kind": "translation", "smoothing": 0.0},
    "data": {"train": {"street": "train"}, "valid": {"street": "valid"}, "test": {"street": "test"}},
    "tokenizer": {"kind": "bpe", "size": 3000, "prefix_space": True},
    "model": {
        "kind": "encoder-decoder",
        "width": 128,
        "depth": 3,
        "decoder_depth": 2,
        "heads": 4,
        "position": "rotary",
        "dropout": 0.0,
    },
    "train": {
        "steps": 2500,
        "tokens_per_batch": 640,
        "save_every": 625,
        "optimiser": "muon",
        "schedule": {"kind": "linear", "lr": 2e-3, "warmup": 100},
    },
}


def demo_recipe(overrides: Sequence[str] = ()) -> Recipe:
    return resolve_recipe(DEMO, overrides)
