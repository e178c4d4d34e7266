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
    forced = ForcedRows(source, targets, prompts, eos=eos, bos=bos)
    if not forced.rows:
        return []
    work_on = device_of(source, device)
    state = stepper.start(source, rows=len(forced.rows), capacity=max(map(len, forced.rows)) - 1)
    tokens, lengths = pad_rows([row[:-1] for row in forced.rows], work_on)
    logits, _ = stepper.step(tokens, state, lengths)
    following = Sequences.padded([row[1:] for row in forced.rows], device=work_on).tokens
    rows: list[list[float]] = to_list(token_logprobs(logits, following))
    logprobs = [row[span] for row, span in zip(rows, forced.spans, strict=True)]
    if trace:
        _record(trace, forced, logits, logprobs)
    return logprobs


class ForcedRows:
    """Whole rows, prompt and target, and the span of each target among the following tokens."""

    def __init__(
        self,
        source: Sequences | None,
        targets: Sequence[Tokens],
        prompts: Sequence[Tokens] | None,
        *,
        eos: int | None,
        bos: int | None,
    ) -> None:
        if source is None and prompts is None:
            prompts = [[] for _ in targets]
        prefixes = [([] if bos is None else [bos]) + prompt for prompt in checked_prompts(source, prompts, bos)]
        if len(targets) != len(prefixes):
            raise ConfigError("targets", f"expected {len(prefixes)} targets, one for each input, got {len(targets)}")
        self.eos = eos
        self.targets = [[*target, *([] if eos is None else [eos])] for target in targets]
        self.rows = [prefix + target for prefix, target in zip(prefixes, self.targets, strict=True)]
        self.spans = [slice(len(prefix) - 1, len(row) - 1) for prefix, row in zip(prefixes, self.rows, strict=True)]


def token_logprobs(
    logits: Float[Tensor, "batch time vocab"], tokens: Int[Tensor, "batch time"]
) -> Float[Tensor, "batch time"]:
    return -F.cross_entropy(logits.float().flatten(0, 1), tokens.flatten(), reduction="none").view(tokens.shape)


def _record(
    trace: Trace, forced: ForcedRows, logits: Float[Tensor, "batch time vocab"], scores: Sequence[Sequence[float]]
) -> None:
    for row, (span, target, logprobs) in enumerate(zip(forced.spans, forced.targets, scores, strict=True)):
        distributions = logits[row, span].float().log_softmax(-1)
        for step, (token, logprob) in enumerate(zip(target, logprobs, strict=True)):
            last = step + 1 == len(target)
            scored = GeneratedToken(row, 0, token, logprob, ended=last and forced.eos is not None, last=last)
            trace.record_step(step, [scored], distributions[step : step + 1])
