"""Greedy search, and what it shares with sampling: one sequence a row, one token chosen at each step."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, count
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.constraints import SearchBase
from regard.decode.job import GeneratedToken, Hypothesis, Job
from regard.decode.trace import Trace
from regard.errors import Failure
from regard.nn.device import HAS_TRITON, HostCopy, to_list

Choose = Callable[[Float[Tensor, "rows vocab"], Int[Tensor, "rows past"], Int[Tensor, " rows"], int], Tensor]
"""The next token of each row, from allowed log-probabilities, history, sequence numbers and the step."""


class Stepwise(ABC):
    """A search that chooses one token a row and step."""

    samples: int = 1
    """Sequences to generate for each row."""

    @abstractmethod
    def chooser(self, job: Job) -> Choose:
        """How this search chooses, for one job."""

    def steps(self, job: Job, trace: Trace | None = None) -> Iterator["Step"]:
        """The tokens of each step as they are chosen; whoever reads them may close sequences early (`Step.close`).

        Running ahead, the device is given its next step before the tokens of this one are read, so that it never waits
        for the reader; the last step may then be one that nobody needed.
        """
        if not job.rows:
            return
        choose, batch = self.chooser(job), RunningBatch(job, self.samples)
        for number in count():
            logits = batch.logits
            tokens, logprobs = self.pick(choose, batch, number)
            rows, arriving = batch.numbers, HostCopy(tokens, logprobs)
            if job.ahead and number + 1 < max(job.limits):
                batch.advance(tokens)
            step = batch.read(number, rows, arriving)
            if trace:
                recorded = set(step.sequences)
                traced = [row for row, sequence in enumerate(rows) if sequence in recorded]
                distribution = logits[traced].log_softmax(-1, dtype=torch.float32)
                trace.record_step(number, step.generated(job, self.samples), distribution)
            yield step
            if not any(batch.open):
                return
            if not job.ahead:
                batch.advance(tokens)

    def pick(
        self, choose: Choose, batch: "RunningBatch", number: int
    ) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        """The next token of each row, and the model's log-probability of it."""
        logprobs = batch.logits.log_softmax(-1, dtype=torch.float32)
        allowed = batch.job.constraints.apply(logprobs, batch.history, number)
        tokens = choose(allowed, batch.history, batch.sequences, number)
        return tokens, logprobs.gather(1, tokens[:, None])[:, 0]

    def stream(self, job: Job, trace: Trace | None = None) -> Iterator[GeneratedToken]:
        for step in self.steps(job, trace):
            yield from step.generated(job, self.samples)

    def run(self, job: Job, trace: Trace | None = None) -> list[list[Hypothesis]]:
        """The sequences of each row, in the order of its samples."""
        sequences: list[list[tuple[int, float]]] = [[] for _ in range(job.rows * self.samples)]
        for step in self.steps(job, trace):
            for sequence, token, logprob in zip(step.sequences, step.tokens, step.logprobs, strict=True):
                sequences[sequence].append((token, logprob))
        hypotheses = [_hypothesis(sequence, job.eos) for sequence in sequences]
        return [hypotheses[start : start + self.samples] for start in range(0, len(hypotheses), self.samples)]


class GreedyConfig(SearchBase):
    """Always the likeliest next token; the lower id where several are equally likely."""

    kind: Literal["greedy"] = "greedy"

    def build(self) -> "Greedy":
        return Greedy()


class Greedy(Stepwise):
    def chooser(self, job: Job) -> Choose:
        return lambda allowed, history, sequences, step: allowed.argmax(-1)

    def pick(
        self, choose: Choose, batch: "RunningBatch", number: int
    ) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        """The likeliest token of each row, by fewer operations where no constraint depends on the history."""
        if batch.job.constraints.no_repeat_ngram:
            return super().pick(choose, batch, number)
        return greedy_tokens(batch.logits, batch.job.constraints.forbidden(number))


def greedy_tokens(
    logits: Float[Tensor, "rows vocab"], forbidden: Int[Tensor, " some"]
) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
    """The likeliest allowed token of each row, the lowest id of equals, and its log-probability.

    On a GPU by one kernel; on a CPU by numpy's argmax, which takes a tenth of the time of torch's.
    """
    if logits.device.type == "cuda" and HAS_TRITON:
        from regard.nn.fast.logits_triton import argmax_logprob

        return argmax_logprob(logits, forbidden)
    logprobs = logits.log_softmax(-1, dtype=torch.float32).index_fill_(-1, forbidden, -torch.inf)
    tokens = torch.as_tensor(logprobs.numpy(force=True).argmax(-1), device=logits.device)
    return tokens, logprobs.gather(1, tokens[:, None])[:, 0]


@dataclass(frozen=True)
class Step:
    """The tokens of one step in the sequences that were open, with their log-probabilities.

    Lists, not one object a token: with many sequences on a GPU, making these took as long as the model's own step.
    """

    sequences: list[int]
    tokens: list[int]
    logprobs: list[float]
    last: set[int]
    """The sequences that end with it."""
    open: list[bool]
    """Which sequences of the batch go on."""

    def generated(self, job: Job, samples: int = 1) -> list[GeneratedToken]:
        return [
            GeneratedToken(*divmod(sequence, samples), token, logprob, token == job.eos, sequence in self.last)
            for sequence, token, logprob in zip(self.sequences, self.tokens, self.logprobs, strict=True)
        ]

    def close(self, sequence: int) -> None:
        """Ends a sequence that its reader needs no further."""
        self.open[sequence] = False


class RunningBatch:
    """The sequences being generated; sequence number `row × samples + sample` is some row of the batch."""

    def __init__(self, job: Job, samples: int) -> None:
        self.job, self.samples = job, samples
        self.numbers = list(range(job.rows * samples))
        self.open = [True] * len(self.numbers)
        self._shortest_limit = min(job.limits)
        self.sequences = torch.tensor(self.numbers, device=job.device)
        self.history = job.history(samples)
        self.logits, self._state = job.start(samples)

    def read(self, step: int, sequences: list[int], arriving: HostCopy) -> Step:
        """The tokens of the open sequences, once they have arrived from the device; those that end are closed."""
        tokens, logprobs = map(to_list, arriving.wait())
        if not all(self.open):
            is_open = [self.open[sequence] for sequence in sequences]
            sequences, tokens = list(compress(sequences, is_open)), list(compress(tokens, is_open))
            logprobs = list(compress(logprobs, is_open))
        if math.isnan(sum(logprobs)):
            raise Failure(f"the model's logits are NaN at token {step + 1}; its weights are damaged")
        last = set(self._ending(step, sequences, tokens))
        for sequence in last:
            self.open[sequence] = False
        return Step(sequences, tokens, logprobs, last, self.open)

    def _ending(self, step: int, sequences: list[int], tokens: list[int]) -> Iterator[int]:
        """The sequences that end now: by the end token, or at their limit."""
        eos, limits = self.job.eos, self.job.limits
        if eos in tokens or step + 1 >= self._shortest_limit:
            for sequence, token in zip(sequences, tokens, strict=True):
                if token == eos or step + 1 == limits[sequence // self.samples]:
                    yield sequence

    def advance(self, tokens: Int[Tensor, " rows"]) -> None:
        """Feeds the chosen tokens; closed sequences leave the batch, or go on unread."""
        self.history = torch.cat([self.history, tokens[:, None]], 1)
        if self.job.regroup and self._should_regroup():
            tokens = self._regroup(tokens)
        logits, self._state = self.job.stepper.step(tokens[:, None], self._state)
        self.logits = logits[:, -1]

    def _should_regroup(self) -> bool:
        """Whether some are closed; running ahead, most: a GPU takes as long for half the rows, and copying costs."""
        remaining = sum(self.open[number] for number in self.numbers)
        return 0 < remaining <= len(self.numbers) // 2 if self.job.ahead else remaining < len(self.numbers)

    def _regroup(self, tokens: Int[Tensor, " rows"]) -> Int[Tensor, " fewer"]:
        remaining = [row for row, number in enumerate(self.numbers) if self.open[number]]
        rows = torch.tensor(remaining, device=self.job.device)
        self.numbers = [self.numbers[row] for row in remaining]
        self.sequences, self.history = self.sequences[rows], self.history[rows]
        self._state = self.job.stepper.reorder(self._state, rows)
        return tokens[rows]


def _hypothesis(sequence: Sequence[tuple[int, float]], eos: int | None) -> Hypothesis:
    tokens, logprobs = [token for token, _ in sequence], [logprob for _, logprob in sequence]
    finished = tokens[-1] == eos
    return Hypothesis(tokens[:-1] if finished else tokens, math.fsum(logprobs), logprobs, finished)
