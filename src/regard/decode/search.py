"""One entry to every search: a stepper and its inputs in, hypotheses or a stream of tokens out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Unpack

import torch

from regard.config import BARE_KIND, BY_KIND, Config
from regard.config.search_options import AS_NAMED, Search, with_options
from regard.decode.beam import BeamConfig
from regard.decode.job import GeneratedToken, Hypothesis, JobOptions, Tokens, make_job
from regard.decode.sampling import SampleConfig
from regard.decode.steppers import AnyStepper
from regard.decode.stepwise import GreedyConfig
from regard.decode.trace import Trace
from regard.errors import ConfigError
from regard.nn.layout import Sequences

AnySearch = GreedyConfig | BeamConfig | SampleConfig
SearchConfig = Annotated[AnySearch, BY_KIND, BARE_KIND]
DEFAULTS: Mapping[str, Search] = {
    config.kind: config.tree() for config in (GreedyConfig(), BeamConfig(), SampleConfig())
}
"""The default settings of each kind of search."""


@torch.no_grad()
def search(
    stepper: AnyStepper,
    source: Sequences | None,
    prompts: Sequence[Tokens] | None,
    config: AnySearch,
    *,
    trace: Trace | None = None,
    **options: Unpack[JobOptions],
) -> list[list[Hypothesis]]:
    """The hypotheses of each row: one with greedy search, the n best of a beam, or the samples.

    `prompts` is what each row must begin with, of any lengths: a language model's prompt, or the forced prefix of a
    translation; scores and lengths count only what follows it.
    """
    return config.build().run(make_job(stepper, source, prompts, config, **options), trace)


def stream(
    stepper: AnyStepper,
    source: Sequences | None,
    prompts: Sequence[Tokens] | None,
    config: AnySearch,
    *,
    trace: Trace | None = None,
    **options: Unpack[JobOptions],
) -> Iterator[GeneratedToken]:
    """The tokens that `search` finds, each as soon as it is chosen; the rows of a step follow one another."""
    if isinstance(config, BeamConfig):
        raise ConfigError("kind", "beam search knows its tokens only at the end; stream with 'greedy' or 'sample'")
    job = make_job(stepper, source, prompts, config, **options)
    return _without_gradients(config.build().stream(job, trace))


@torch.no_grad()
def _without_gradients(tokens: Iterator[GeneratedToken]) -> Iterator[GeneratedToken]:
    yield from tokens


class _Holder(Config):
    search: SearchConfig


def as_search(tree: Search) -> AnySearch:
    """The search that a tree describes; ConfigError names the setting that is wrong."""
    return _Holder.from_tree({"search": dict(tree)}).search


def search_with(usual: AnySearch, options: Search, called: Mapping[str, str] = AS_NAMED) -> AnySearch:
    """A search with options on top, such as `{"n_best": 3}`; `called`: the names under which the user gave them."""
    return as_search(with_options(usual.tree(), options, DEFAULTS, called)) if options else usual
