"""Searches that keep one sequence a row and choose its next token at each step: greedy search and sampling."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import count

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.hypothesis import Hypothesis, Written
from regard.decode.job import Job
from regard.decode.trace import Trace
from regard.errors import Failure

Choose = Callable[[Float[Tensor, "rows vocab"], Int[Tensor, "rows past"], Int[Tensor, " rows"], int], Tensor]
"""The next token of each row, from what may be written, what was written, which sequences these are, and the step."""


class Stepwise(ABC):
    """A search that chooses one token a row and step."""

    samples: int = 1
    """How many sequences to write for each row."""

    @abstractmethod
    def chooser(self, job: Job) -> Choose:
        """How this search chooses, for one job."""

    def stream(self, job: Job, trace: Trace | None = None) -> Iterator[list[Written]]:
        """The tokens of each step as they are chosen.

        Running ahead, the device is given its next step before the tokens of this one are read, so that it never waits
        for the reader; the last step may then be one that nobody needed.
        """
        if not job.rows:
            return
        choose, batch = self.chooser(job), Batch(job, self.samples)
        for step in count():
            logprobs = batch.logits.float().log_softmax(-1)
            allowed = job.rules.apply(logprobs, batch.history, step)
            tokens = choose(allowed, batch.history, batch.sequences, step)
            news = batch.news(step, tokens, logprobs)
            if job.ahead and step + 1 < max(job.limits):
                batch.advance(tokens)
            written = batch.written(news, trace)
            yield written
            if all(token.last for token in written):
                return
            if not job.ahead:
                batch.advance(tokens)

    def run(self, job: Job, trace: Trace | None = None) -> list[list[Hypothesis]]:
        """The sequences of each row, in the order of its samples."""
        rows: list[list[list[Written]]] = [[[] for _ in range(self.samples)] for _ in range(job.rows)]
        for step in self.stream(job, trace):
            for token in step:
                rows[token.row][token.sample].append(token)
        return [[_hypothesis(sequence) for sequence in row] for row in rows]


class News:
    """What one step chose, on its way from the device to whoever reads it."""

    def __init__(
        self, step: int, numbers: list[int], tokens: Int[Tensor, " rows"], logprobs: Float[Tensor, "rows vocab"]
    ) -> None:
        self.step, self.numbers, self.logprobs = step, numbers, logprobs
        chosen = logprobs.gather(1, tokens[:, None])[:, 0]
        self._tokens, self._chosen = (part.to("cpu", non_blocking=True) for part in (tokens, chosen))
        self._there = torch.cuda.Event() if tokens.device.type == "cuda" else None
        if self._there is not None:
            self._there.record()

    def read(self) -> list[tuple[int, float]]:
        """Token and log-probability in each place; waits until they are there."""
        if self._there is not None:
            self._there.synchronize()
        return list(zip(self._tokens.tolist(), self._chosen.tolist(), strict=True))


class Batch:
    """The sequences being written: sequence number `row × samples + sample` stands in some place of the batch."""

    def __init__(self, job: Job, samples: int) -> None:
        self.job, self.samples = job, samples
        self.numbers = list(range(job.rows * samples))
        self.open = [True] * len(self.numbers)
        self.sequences = torch.tensor(self.numbers, device=job.device)
        self.history = job.history(samples)
        self.logits, self._state = job.start(samples)

    def news(self, step: int, tokens: Int[Tensor, " rows"], logprobs: Float[Tensor, "rows vocab"]) -> News:
        """What this step chose in every place."""
        return News(step, self.numbers, tokens, logprobs)

    def written(self, news: News, trace: Trace | None) -> list[Written]:
        """What a step wrote in the sequences that were open, of which some end here."""
        pairs = news.read()
        places = [place for place, number in enumerate(news.numbers) if self.open[number]]
        written = [self._token(news.numbers[place], news.step, *pairs[place]) for place in places]
        if trace:
            trace.record_step(news.step, written, news.logprobs[places])
        return written

    def _token(self, number: int, step: int, token: int, logprob: float) -> Written:
        if math.isnan(logprob):
            raise Failure(f"the model's logits are not numbers (NaN) at token {step + 1}; its weights are damaged")
        row, sample = divmod(number, self.samples)
        ended = token == self.job.eos
        last = ended or step + 1 == self.job.limits[row]
        self.open[number] = not last
        return Written(row, sample, token, logprob, ended, last)

    def advance(self, tokens: Int[Tensor, " rows"]) -> None:
        """Feeds the chosen tokens; sequences that are done leave the batch, or go on unheard."""
        self.history = torch.cat([self.history, tokens[:, None]], 1)
        if self.job.regroup and self._worth_regrouping():
            tokens = self._regroup(tokens)
        logits, self._state = self.job.stepper.step(tokens[:, None], self._state)
        self.logits = logits[:, -1]

    def _worth_regrouping(self) -> bool:
        """Whether some are done; running ahead, most: a GPU takes as long for half the rows, and moving them costs."""
        going = sum(self.open[number] for number in self.numbers)
        return 0 < going <= len(self.numbers) // 2 if self.job.ahead else going < len(self.numbers)

    def _regroup(self, tokens: Int[Tensor, " rows"]) -> Int[Tensor, " fewer"]:
        kept = [place for place, number in enumerate(self.numbers) if self.open[number]]
        places = torch.tensor(kept, device=self.job.device)
        self.numbers = [self.numbers[place] for place in kept]
        self.sequences, self.history = self.sequences[places], self.history[places]
        self._state = self.job.stepper.reorder(self._state, places)
        return tokens[places]


def _hypothesis(sequence: Sequence[Written]) -> Hypothesis:
    logprobs = [token.logprob for token in sequence]
    tokens = [token.token for token in sequence if not token.ended]
    return Hypothesis(tokens, math.fsum(logprobs), logprobs, finished=sequence[-1].ended)
