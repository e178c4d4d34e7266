"""The engine of `translate`, `generate` and `serve`: torch or CTranslate2, and what the recipe says about inputs."""

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.output import detail, say
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.config.search_options import Search
    from regard.ctranslate2.choice import Choice
    from regard.ctranslate2.model_folder import ConvertedModel
    from regard.text.inputs import Overlong
    from regard.text.outputs import Output

OverlongOption = Annotated[
    str, typer.Option("--overlong", help="Inputs that are too long: cut, skip or error; default: as in training.")
]
Engine = Annotated[str, typer.Option(help="auto, torch or ctranslate2.", envvar="REGARD_ENGINE")]
Int8 = Annotated[bool, typer.Option("--int8", help="int8 weights (ctranslate2): outputs may differ.")]


OPTIONS = {
    "size": "--beam",
    "n_best": "--nbest",
    "max_length": "--length",
    "temperature": "--temperature",
    "top_k": "--top-k",
    "top_p": "--top-p",
    "min_p": "--min-p",
    "seed": "--seed",
}
"""Options of the command line for the settings of a search."""


def choose_engine(
    run: Path,
    engine: str,
    task: str,
    options: Mapping[str, object],
    *,
    int8: bool,
    device: str,
    only_torch: Mapping[str, object],
) -> "Choice":
    """The engine for a run; `options` are settings of the search on top of the run's."""
    from regard.config.search_options import with_options
    from regard.ctranslate2.choice import RANDOM, choose
    from regard.text.inputs import length_limit_warning

    obstacles = [f"{option} needs torch" for option, value in only_torch.items() if value]
    if task == "language_model" and engine == "auto" and not int8 and _samples(run, options):
        obstacles.append(RANDOM)

    def search_of(converted: "ConvertedModel") -> "Search":
        return with_options(converted.default_search, options, converted.searches, OPTIONS)

    choice = choose(run, engine, task, search_of, int8=int8, device=device, obstacles=obstacles, say=say)
    if choice.why:
        detail(str(choice))
    if choice.converted is not None:
        say_limit(length_limit_warning(search_of(choice.converted)["max_length"], choice.converted.max_new_tokens))
    return choice


def _samples(run: Path, options: Mapping[str, object]) -> bool:
    """Whether a language model will sample: then nothing need be converted."""
    from regard.config.search_options import requested_kind

    usual = recipe_of(run).get("search", "sample")
    usual = usual if isinstance(usual, dict) else {"kind": usual}
    kind = requested_kind(str(usual.get("kind")), {name: value for name, value in options.items() if value is not None})
    return kind == "sample" and options.get("temperature", usual.get("temperature", 1.0)) != 0


def recipe_of(run: Path) -> dict[str, Any]:
    """A run's recipe as a tree; empty where it cannot be read, which opening the run reports."""
    from regard.files.run_folder import RECIPE_FILE

    try:
        return tomllib.loads((run / RECIPE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def task_of(run: Path) -> str:
    task = recipe_of(run).get("task", "translation")
    return str(task.get("kind", "translation") if isinstance(task, dict) else task)


IMAGES: Mapping[str, str] = dict.fromkeys(
    ("image_classification", "image_description"), "images are resized to what the model reads"
)
NEVER_OVERLONG = {**IMAGES, "summarisation": "a summariser reads the beginning of every text (task.input_tokens)"}
"""Tasks whose models take inputs of any length or size, and why."""


def overlong_for(run: Path, option: str, never: Mapping[str, str] = NEVER_OVERLONG) -> "Overlong":
    """The treatment of inputs that are too long: the option, or else that of training."""
    if option:
        if option not in ("cut", "skip", "error"):
            raise ConfigError("--overlong", f"expected cut, skip or error, got '{option}'")
        if (task := task_of(run)) in never:
            raise ConfigError("--overlong", f"{never[task]}; leave it out for a run of {task}")
        return option
    return recipe_of(run).get("data", {}).get("overlong", "skip")


def ctranslate2_generator(choice: "Choice", scored: bool) -> "Callable[[list[str], bool], list[list[Output]]]":
    """Generates with CTranslate2, with the threads that suit one line or many."""
    from regard.ctranslate2.threads import load_engine

    converted, search = choice.converted, choice.search
    assert converted is not None
    assert search is not None
    opened = cache(lambda many: load_engine(converted, many))

    def generate(lines: list[str], cut: bool) -> "list[list[Output]]":
        engine = opened(len(lines) > 1)
        if converted.verb == "generate":
            return engine.generate(lines, search, scored)
        outputs = engine.translate(lines, search, scored, cut)
        say_cut(outputs)
        return outputs

    return generate


def say_limit(sentence: str | None) -> None:
    """Says that the model has fewer positions than the search may generate tokens, where it has."""
    if sentence is not None:
        say(sentence)


def say_cut(rows: "list[list[Output]]") -> None:
    """Says how many inputs of a summariser were cut."""
    if cut := sum(getattr(outputs[0], "unread", 0) > 0 for outputs in rows):
        say(f"{cut:,} of {len(rows):,} texts cut at task.input_tokens; --json tells what was not read of each")
