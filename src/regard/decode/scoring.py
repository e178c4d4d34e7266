"""How likely the model finds sequences that are given."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.batch import Tokens, checked_prompts, home, laid
from regard.decode.hypothesis import GeneratedToken
from regard.decode.trace import Trace
from regard.errors import ConfigError
from regard.models.stepper import Stepper
from regard.nn.layout import Sequences


@torch.no_grad()
def score(
    stepper: Stepper[Any],
    source: Sequences | None,
    targets: Sequence[Tokens],
    *,
    eos: int | None,
    bos: int | None,
    prompts: Sequence[Tokens] | None = None,
    device: torch.device | str | None = None,
    trace: Trace | None = None,
) -> list[list[float]]:
    """The log-probability of each token of each target after its prompt, and of the end token last.

    With `eos=None` no end is scored: the targets may go on. A trace gets the likeliest tokens at each place.
    """
    given = Given(source, targets, prompts, eos=eos, bos=bos)
    if not given.rows:
        return []
    where = torch.device(device) if device is not None else home(source)
    state = stepper.start(source, rows=len(given.rows), capacity=max(map(len, given.rows)) - 1)
    tokens, lengths = laid([row[:-1] for row in given.rows], where)
    logits, _ = stepper.step(tokens, state, lengths)
    following = Sequences.padded([row[1:] for row in given.rows], device=where).tokens
    found = [row[span] for row, span in zip(token_logprobs(logits, following).tolist(), given.spans, strict=True)]
    if trace:
        _record(trace, given, logits, found)
    return found


class Given:
    """Whole rows, begin to end, and where in the row of following tokens each target stands."""

    def __init__(
        self,
        source: Sequences | None,
        targets: Sequence[Tokens],
        prompts: Sequence[Tokens] | None,
        *,
        eos: int | None,
        bos: int | None,
    ) -> None:
        none_given = [[] for _ in targets] if source is None and prompts is None else prompts
        heads = [([] if bos is None else [bos]) + start for start in checked_prompts(source, none_given, bos)]
        if len(targets) != len(heads):
            raise ConfigError("targets", f"expected {len(heads)} targets, one for each input, got {len(targets)}")
        self.eos = eos
        self.tails = [[*target, *([] if eos is None else [eos])] for target in targets]
        self.rows = [head + tail for head, tail in zip(heads, self.tails, strict=True)]
        self.spans = [slice(len(head) - 1, len(row) - 1) for head, row in zip(heads, self.rows, strict=True)]


def token_logprobs(
    logits: Float[Tensor, "batch time vocab"], tokens: Int[Tensor, "batch time"]
) -> Float[Tensor, "batch time"]:
    """The log-probability of the token at each place."""
    return -F.cross_entropy(logits.float().flatten(0, 1), tokens.flatten(), reduction="none").view(tokens.shape)


def _record(
    trace: Trace, given: Given, logits: Float[Tensor, "batch time vocab"], found: Sequence[Sequence[float]]
) -> None:
    for row, (span, tail, logprobs) in enumerate(zip(given.spans, given.tails, found, strict=True)):
        likely = logits[row, span].float().log_softmax(-1)
        for step, (token, logprob) in enumerate(zip(tail, logprobs, strict=True)):
            last = step + 1 == len(tail)
            written = GeneratedToken(row, 0, token, logprob, ended=last and given.eos is not None, last=last)
            trace.record_step(step, [written], likely[step : step + 1])
