"""Settings that stand on the command line as one word or one TOML table."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.config import Config, parse_override
from regard.data.settings import SPLITS
from regard.data.sources import SourceConfig, source_of_files
from regard.decode import BeamConfig, GreedyConfig, SampleConfig, SearchConfig
from regard.errors import ConfigError
from regard.run import Run


class _Search(Config):
    search: SearchConfig


def parse_data(text: str) -> SourceConfig | str:
    """A split's name, a table such as `{file="x.tsv",text=0,label=1}`, or two files `a.en,a.de`."""
    if text in SPLITS:
        return text
    _, value = parse_override(f"data={text}")
    return source_of_files(value) if isinstance(value, str) else SourceConfig.from_tree(value).from_here()


def parse_search(text: str, **settings: Any) -> GreedyConfig | BeamConfig | SampleConfig | None:  # noqa: ANN401
    """A kind, a table, or None where nothing is asked for; settings on top."""
    given = {name: value for name, value in settings.items() if value is not None}
    if not text and not given:
        return None
    _, value = parse_override(f"search={text}") if text else ([], {"kind": _kind_for(given)})
    tree = {"kind": value} if isinstance(value, str) else value
    return _Search.from_tree({"search": {**tree, **given} if isinstance(tree, dict) else tree}).search


def parse_beam(run: Run, asked: Mapping[str, Any]) -> BeamConfig | None:
    """The run's usual beam with what is asked for on top; None, for the usual search, where nothing is."""
    return BeamConfig.like(run.recipe.usual_search).but(**asked) if asked else None


def _kind_for(settings: dict[str, Any]) -> str:
    """The kind whose settings these are."""
    if "size" in settings or "n_best" in settings:
        return "beam"
    return "sample" if settings.keys() & {"temperature", "top_k", "top_p", "min_p", "seed"} else "greedy"


def with_unknown(run: Run, unknown: str, dictionary: Path | None) -> Run:
    """A run that does with unknown words what is asked for, or what its recipe says."""
    if not unknown and dictionary is None:
        return run
    if run.recipe.task.kind != "translation":
        raise ConfigError("--unknown", f"only translations have unknown words, got a run of {run.recipe.task.kind}")
    return run.but(unknown=unknown or "replace", dictionary=str(dictionary.resolve()) if dictionary else None)
