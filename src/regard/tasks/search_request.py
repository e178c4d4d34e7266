"""The search of a request: a run's own with options on top, checked."""

from collections.abc import Mapping
from typing import Any

from regard.config import Config
from regard.config.search_options import AS_NAMED, Search, with_options
from regard.decode import BeamConfig, GreedyConfig, SampleConfig, SearchConfig

AnySearch = GreedyConfig | BeamConfig | SampleConfig
DEFAULTS: Mapping[str, Search] = {
    kind: config.tree()
    for kind, config in (("greedy", GreedyConfig()), ("beam", BeamConfig()), ("sample", SampleConfig()))
}
"""The settings of each kind of search where nobody says any."""


class _Holder(Config):
    search: SearchConfig


def as_search(tree: Search) -> AnySearch:
    """The search that a tree describes; ConfigError names the setting that is wrong."""
    return _Holder.from_tree({"search": dict(tree)}).search


def search_with(usual: AnySearch, options: Mapping[str, Any], called: Mapping[str, str] = AS_NAMED) -> AnySearch:
    """A search with options on top, such as `{"n_best": 3}`; `called` is what the person calls them."""
    return as_search(with_options(usual.tree(), options, DEFAULTS, called)) if options else usual
