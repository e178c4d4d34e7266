"""One entry to every search: give a stepper and its inputs, get hypotheses, or tokens as they come."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import torch

from regard.config import BARE_KIND, BY_KIND
from regard.decode.batch import Tokens, make_job
from regard.decode.beam import BeamConfig
from regard.decode.greedy import GreedyConfig
from regard.decode.hypothesis import GeneratedToken, Hypothesis
from regard.decode.sampling import SampleConfig
from regard.decode.trace import Trace
from regard.errors import ConfigError
from regard.models.stepper import Stepper
from regard.nn.layout import Sequences

SearchConfig = Annotated[GreedyConfig | BeamConfig | SampleConfig, BY_KIND, BARE_KIND]


@torch.no_grad()
def search(
    stepper: Stepper[Any],
    source: Sequences | None,
    prompts: Sequence[Tokens] | None,
    config: GreedyConfig | BeamConfig | SampleConfig,
    *,
    eos: int | None,
    bos: int | None,
    pad: int | None = None,
    unk: int | None = None,
    device: torch.device | str | None = None,
    regroup: bool = True,
    trace: Trace | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each row: one with greedy search, the n best of a beam, or the samples.

    `prompts` is what each row must begin with, of any lengths: a language model's prompt, or the forced start of a
    translation; scores and lengths count only what is written after it. Begin and padding tokens are never written, nor
    the unknown token where the settings say so. `device` is where the stepper works, by default where the source is.
    `regroup` drops rows from the batch as they finish: the results are the same without it, the shapes then constant.
    """
    job = make_job(stepper, source, prompts, config, eos=eos, bos=bos, pad=pad, unk=unk, device=device, regroup=regroup)
    return config.build().run(job, trace)


def stream(
    stepper: Stepper[Any],
    source: Sequences | None,
    prompts: Sequence[Tokens] | None,
    config: GreedyConfig | BeamConfig | SampleConfig,
    *,
    eos: int | None,
    bos: int | None,
    pad: int | None = None,
    unk: int | None = None,
    device: torch.device | str | None = None,
    regroup: bool = True,
    trace: Trace | None = None,
) -> Iterator[GeneratedToken]:
    """The same tokens as `search` finds, each as soon as it is chosen; the rows of a step follow one another."""
    if isinstance(config, BeamConfig):
        raise ConfigError("kind", "beam search knows its words only at the end; stream with 'greedy' or 'sample'")
    job = make_job(stepper, source, prompts, config, eos=eos, bos=bos, pad=pad, unk=unk, device=device, regroup=regroup)
    return _tokens(config.build().stream(job, trace))


@torch.no_grad()
def _tokens(steps: Iterator[list[GeneratedToken]]) -> Iterator[GeneratedToken]:
    for step in steps:
        yield from step
