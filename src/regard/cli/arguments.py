"""Arguments: settings that stand there as one word or one TOML table, and what the shell completes.

Nothing here loads torch before it is needed, as a key press waits for a completion.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.data.sources import SourceConfig
    from regard.decode.search import AnySearch
    from regard.run import Run


def parse_data(text: str) -> "SourceConfig | str":
    """A split's name, a table such as `{file="x.tsv",text=0,label=1}`, or two files `a.en,a.de`."""
    from regard.config import parse_override
    from regard.data.settings import SPLITS
    from regard.data.sources import SourceConfig, source_of_files

    if text in SPLITS:
        return text
    _, value = parse_override(f"data={text}")
    return source_of_files(value) if isinstance(value, str) else SourceConfig.from_tree(value).from_here()


def parse_search(usual: "AnySearch", text: str) -> "AnySearch":
    """A kind or a table of settings, on top of a run's own search."""
    from regard.config import parse_override
    from regard.decode.search import search_with

    if not text:
        return usual
    _, value = parse_override(f"search={text}")
    options = {"kind": value} if isinstance(value, str) else value
    if not isinstance(options, dict):
        raise ConfigError("--search", f"expected a kind or a table, got {options!r}")
    return search_with(usual, options, {"kind": "--search"})


def with_unknown(run: "Run", unknown: str, dictionary: Path | None) -> "Run":
    """A run that does with unknown words what is asked for, or what its recipe says."""
    from regard.tasks import TranslationConfig

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


def complete_recipe(incomplete: str) -> list[str]:
    """The recipes that come with regard, recipes that lie here, and folders on the way to others."""
    return [*_here(incomplete, ".toml"), *complete_shipped(incomplete)]


def _here(incomplete: str, suffix: str) -> list[str]:
    """Files whose names end so, and folders."""
    folder, slash, begun = incomplete.rpartition("/")
    try:
        entries = sorted(Path(folder + slash or ".").iterdir())
    except OSError:
        return []
    shown = [entry for entry in entries if begun.startswith(".") or not entry.name.startswith(".")]
    fits = [
        entry for entry in shown if entry.name.startswith(begun) and (entry.is_dir() or entry.name.endswith(suffix))
    ]
    return [f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}" for entry in fits]


def complete_shipped(incomplete: str) -> list[str]:
    """The recipes that come with regard."""
    from regard.config.shipped import shipped

    return [name for name in shipped() if name.startswith(incomplete)]


def complete_data(incomplete: str) -> list[str]:
    """Files, recipes among them, and the recipes that come with regard."""
    return [*_here(incomplete, ""), *complete_shipped(incomplete)]


def complete_setting(incomplete: str) -> list[str]:
    """The settings that people change most: those that other programs have too."""
    from regard.config.synonyms import PATHS

    return [f"{path}=" for path in PATHS if path.startswith(incomplete)]


def complete_path(incomplete: str) -> list[str]:
    """The same without the sign."""
    return [setting.removesuffix("=") for setting in complete_setting(incomplete)]


def complete_recipe_or_setting(incomplete: str) -> list[str]:
    """Both, where both may stand."""
    return [*complete_recipe(incomplete), *complete_setting(incomplete)]
