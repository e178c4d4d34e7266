"""The engine behind `translate`, `generate` and `serve`: chosen, said in one line, and opened."""

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.output import detail, say
from regard.errors import ConfigError, counted

if TYPE_CHECKING:
    from regard.ctranslate2.choice import Choice
    from regard.text.inputs import Overlong

OverlongOption = Annotated[
    str, typer.Option("--overlong", help="Inputs that are too long: cut, skip or error; as in training if left out.")
]
Engine = Annotated[str, typer.Option(help="auto, torch or ctranslate2.", envvar="REGARD_ENGINE")]
Int8 = Annotated[bool, typer.Option("--int8", help="Whole numbers of eight bits (ctranslate2): text may differ.")]


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
"""What the settings of a search are called on the command line."""


def chosen(
    run: Path,
    engine: str,
    task: str,
    options: Mapping[str, Any],
    *,
    int8: bool,
    device: str,
    only_torch: Mapping[str, object],
) -> "Choice":
    """The engine for a run, which standard error is told; `options` are those of the search, on top of the run's."""
    from regard.config.search_options import with_options
    from regard.ctranslate2.choice import choose
    from regard.ctranslate2.search import RANDOM
    from regard.text.inputs import length_limit_warning

    obstacles = [f"{option} needs torch" for option, given in only_torch.items() if given]
    if task == "language_model" and engine == "auto" and not int8 and _draws(run, options):
        obstacles.append(RANDOM)
    ask = lambda converted: with_options(converted.default_search, options, converted.searches, OPTIONS)  # noqa: E731
    choice = choose(run, engine, task, ask, int8=int8, device=device, obstacles=obstacles, say=say)
    if choice.why:
        detail(str(choice))
    if choice.converted is not None:
        say_limit(length_limit_warning(ask(choice.converted)["max_length"], choice.converted.max_new_tokens))
    return choice


def _draws(run: Path, options: Mapping[str, Any]) -> bool:
    """Whether a language model will draw at random: then nothing need be converted."""
    from regard.config.search_options import requested_kind

    usual = recipe_of(run).get("search", "sample")
    usual = usual if isinstance(usual, dict) else {"kind": usual}
    kind = requested_kind(str(usual.get("kind")), {name: value for name, value in options.items() if value is not None})
    return kind == "sample" and options.get("temperature", usual.get("temperature", 1.0)) != 0


def recipe_of(run: Path) -> dict[str, Any]:
    """The tree of a run's recipe; empty where it cannot be read, which opening the run explains."""
    from regard.files.run_folder import RECIPE_FILE

    try:
        return tomllib.loads((run / RECIPE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def task_of(run: Path) -> str:
    """The kind of a run's task."""
    task = recipe_of(run).get("task", "translation")
    return str(task.get("kind", "translation") if isinstance(task, dict) else task)


IMAGES: Mapping[str, str] = dict.fromkeys(
    ("image_classification", "image_description"), "images are resized to what the model reads"
)
NEVER_OVERLONG = {**IMAGES, "summarisation": "a summariser reads the beginning of every text (task.input_tokens)"}
"""Tasks whose models take inputs of any length or size, and why."""


def overlong_for(run: Path, given: str, never: Mapping[str, str] = NEVER_OVERLONG) -> "Overlong":
    """What becomes of inputs that are too long: what is given, or else what became of them in training."""
    if given:
        if given not in ("cut", "skip", "error"):
            raise ConfigError("--overlong", f"expected cut, skip or error, got '{given}'")
        if (task := task_of(run)) in never:
            raise ConfigError("--overlong", f"{never[task]}; leave it out for a run of {task}")
        return given
    return recipe_of(run).get("data", {}).get("overlong", "skip")


def fast_writer(choice: "Choice", scored: bool) -> Callable[[list[str], bool], list[list[Any]]]:
    """What writes with CTranslate2: with the workers that suit one line, or many lines."""
    from regard.ctranslate2.threads import load_engine

    converted, search = choice.converted, choice.search
    assert converted is not None
    assert search is not None
    opened = cache(lambda many: load_engine(converted, many))

    def write(lines: list[str], cut: bool) -> list[list[Any]]:
        engine = opened(len(lines) > 1)
        if converted.verb == "generate":
            return engine.generate(lines, search, scored)
        found = engine.translate(lines, search, scored, cut)
        say_cut(found)
        return found

    return write


def say_limit(sentence: str | None) -> None:
    """Says that the model has fewer positions than the search may generate tokens, where it has."""
    if sentence is not None:
        say(sentence)


def say_cut(found: list[list[Any]]) -> None:
    """Says how many texts a summariser has not read to their end."""
    if cut := sum(getattr(outputs[0], "unread", 0) > 0 for outputs in found):
        say(f"{cut:,} of {len(found):,} texts cut at task.input_tokens; --json tells what was not read of each")


LINES_NAMED, WORDS_NAMED = 10, 10
"""So many lines with unseen words are named one by one, and so many words of each."""


class Unseen:
    """Names words that the training data of a run never had: the first lines one by one, the others counted."""

    def __init__(self, run: Path) -> None:
        from regard.text.training_words import TrainingWords

        self._words = TrainingWords.load(run)
        self._lines, self._more = 0, 0

    def named(self, text: object, origin: tuple[object, int]) -> dict[str, list[str]]:
        """What JSON says of a text's unseen words, which standard error is told; nothing where a run has no list."""
        text = getattr(text, "text", text)  # of a sentence of a treebank
        if self._words is None or not isinstance(text, str):
            return {}
        found = self._words.unseen(text)
        if found and self._lines < LINES_NAMED:
            say(f"{origin[0]}:{origin[1]}: {unseen_sentence(found)}")
        self._lines += bool(found)
        self._more += len(found) if self._lines > LINES_NAMED else 0
        return {"unseen": found}

    def close(self) -> None:
        """Says how many more there were."""
        if self._more:
            lines = self._lines - LINES_NAMED
            say(
                f"{counted(lines, 'more line')} with {counted(self._more, 'word')} that "
                f"{'was' if self._more == 1 else 'were'} not in the training data; --json names all"
            )


def unseen_sentence(words: list[str]) -> str:
    """Such as "'zebra' was not in the training data"."""
    names = ", ".join(f"'{word}'" for word in words[:WORDS_NAMED])
    if len(words) > WORDS_NAMED:
        names += f" and {counted(len(words) - WORDS_NAMED, 'more word')}"
    return f"{names} {'was' if len(words) == 1 else 'were'} not in the training data"
