"""Log-probabilities of given sequences."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.job import GeneratedToken, Tokens, checked_prompts, device_of, pad_rows
from regard.decode.steppers import AnyStepper
from regard.decode.trace import Trace
from regard.errors import ConfigError
from regard.nn.device import to_list
from regard.nn.layout import Sequences


@torch.no_grad()
def score(
    stepper: AnyStepper,
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

    With `eos=None` no end token is scored. A trace gets the likeliest tokens at each position.
    """
    if source is None and prompts is None:
        prompts = [[] for _ in targets]
    prefixes = [([] if bos is None else [bos]) + prompt for prompt in checked_prompts(source, prompts, bos)]
    if len(targets) != len(prefixes):
        raise ConfigError("targets", f"expected {len(prefixes)} targets, one for each input, got {len(targets)}")
    if not prefixes:
        return []
    forced = [[*target, *([] if eos is None else [eos])] for target in targets]
    rows = [prefix + target for prefix, target in zip(prefixes, forced, strict=True)]
    work_on = device_of(source, device)
    state = stepper.start(source, rows=len(rows), capacity=max(map(len, rows)) - 1)
    tokens, lengths = pad_rows([row[:-1] for row in rows], work_on)
    logits, _ = stepper.step(tokens, state, lengths)
    following = Sequences.padded([row[1:] for row in rows], device=work_on).tokens
    scored: list[list[float]] = to_list(token_logprobs(logits, following))
    spans = [slice(len(prefix) - 1, len(row) - 1) for prefix, row in zip(prefixes, rows, strict=True)]
    logprobs = [row[span] for row, span in zip(scored, spans, strict=True)]
    if trace:
        for row, span in enumerate(spans):
            _record(trace, row, forced[row], logprobs[row], logits[row, span], eos is not None)
    return logprobs


def token_logprobs(
    logits: Float[Tensor, "batch time vocab"], tokens: Int[Tensor, "batch time"]
) -> Float[Tensor, "batch time"]:
    return -F.cross_entropy(logits.float().flatten(0, 1), tokens.flatten(), reduction="none").view(tokens.shape)


def _record(
    trace: Trace, row: int, target: Tokens, logprobs: Sequence[float], logits: Float[Tensor, "time vocab"], ends: bool
) -> None:
    distributions = logits.float().log_softmax(-1)
    for step, (token, logprob) in enumerate(zip(target, logprobs, strict=True)):
        last = step + 1 == len(target)
        scored = GeneratedToken(row, 0, token, logprob, ended=last and ends, last=last)
        trace.record_step(step, [scored], distributions[step : step + 1])
