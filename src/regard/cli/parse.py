"""Settings that stand on the command line as one word or one TOML table."""

from pathlib import Path

from regard.config import parse_override
from regard.data.settings import SPLITS
from regard.data.sources import SourceConfig, source_of_files
from regard.decode.search import AnySearch, search_with
from regard.errors import ConfigError
from regard.run import Run
from regard.tasks import TranslationConfig


def parse_data(text: str) -> SourceConfig | str:
    """A split's name, a table such as `{file="x.tsv",text=0,label=1}`, or two files `a.en,a.de`."""
    if text in SPLITS:
        return text
    _, value = parse_override(f"data={text}")
    return source_of_files(value) if isinstance(value, str) else SourceConfig.from_tree(value).from_here()


def parse_search(usual: AnySearch, text: str) -> AnySearch:
    """A kind or a table of settings, on top of a run's own search."""
    if not text:
        return usual
    _, value = parse_override(f"search={text}")
    options = {"kind": value} if isinstance(value, str) else value
    if not isinstance(options, dict):
        raise ConfigError("--search", f"expected a kind or a table, got {options!r}")
    return search_with(usual, options, {"kind": "--search"})


def with_unknown(run: Run, unknown: str, dictionary: Path | None) -> Run:
    """A run that does with unknown words what is asked for, or what its recipe says."""
    if not unknown and dictionary is None:
        return run
    task, option = run.recipe.task, "--unknown" if unknown else "--dictionary"
    if not isinstance(task, TranslationConfig):
        raise ConfigError(option, f"only translations have unknown words, got a run of {task.kind}")
    if unknown not in ("", "keep", "replace"):
        raise ConfigError("--unknown", f"expected keep or replace, got '{unknown}'")
    if unknown == "keep":
        if dictionary is not None:
            raise ConfigError("--dictionary", "it is used for --unknown replace only; leave one of them out")
        return run.but(unknown="keep", dictionary=None)
    words = task.dictionary if dictionary is None else str(dictionary.resolve())
    return run.but(unknown="replace", dictionary=words)
