"""Searches that keep one sequence a row and choose its next token at each step: greedy search and sampling."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, count

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.batch import Job
from regard.decode.hypothesis import GeneratedToken, Hypothesis
from regard.decode.trace import Trace
from regard.errors import Failure
from regard.nn.device import Arriving

Choose = Callable[[Float[Tensor, "rows vocab"], Int[Tensor, "rows past"], Int[Tensor, " rows"], int], Tensor]
"""The next token of each row, from what may be written, what was written, which sequences these are, and the step."""


class Stepwise(ABC):
    """A search that chooses one token a row and step."""

    samples: int = 1
    """How many sequences to write for each row."""

    @abstractmethod
    def chooser(self, job: Job) -> Choose:
        """How this search chooses, for one job."""

    def steps(self, job: Job, trace: Trace | None = None) -> Iterator["Step"]:
        """What each step writes, as it is chosen.

        Running ahead, the device is given its next step before the tokens of this one are read, so that it never waits
        for the reader; the last step may then be one that nobody needed.
        """
        if not job.rows:
            return
        choose, batch = self.chooser(job), Batch(job, self.samples)
        for number in count():
            logits = batch.logits
            tokens, chosen = self.pick(choose, batch, number)
            news = batch.news(number, tokens, chosen)
            if job.ahead and number + 1 < max(job.limits):
                batch.advance(tokens)
            step = batch.read(news)
            if trace:
                heard = set(step.sequences)
                places = [place for place, sequence in enumerate(news.sequences) if sequence in heard]
                logprobs = logits[places].log_softmax(-1, dtype=torch.float32)
                trace.record_step(number, step.written(job, self.samples), logprobs)
            yield step
            if not any(batch.open):
                return
            if not job.ahead:
                batch.advance(tokens)

    def pick(self, choose: Choose, batch: "Batch", number: int) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        """The next token in each place, and the model's log-probability of it."""
        logprobs = batch.logits.log_softmax(-1, dtype=torch.float32)
        allowed = batch.job.rules.apply(logprobs, batch.history, number)
        tokens = choose(allowed, batch.history, batch.sequences, number)
        return tokens, logprobs.gather(1, tokens[:, None])[:, 0]

    def stream(self, job: Job, trace: Trace | None = None) -> Iterator[list[GeneratedToken]]:
        """The tokens of each step as they are chosen."""
        for step in self.steps(job, trace):
            yield step.written(job, self.samples)

    def run(self, job: Job, trace: Trace | None = None) -> list[list[Hypothesis]]:
        """The sequences of each row, in the order of its samples."""
        found: list[list[tuple[int, float]]] = [[] for _ in range(job.rows * self.samples)]
        for step in self.steps(job, trace):
            for sequence, token, logprob in zip(step.sequences, step.tokens, step.logprobs, strict=True):
                found[sequence].append((token, logprob))
        written = [_hypothesis(sequence, job.eos) for sequence in found]
        return [written[start : start + self.samples] for start in range(0, len(written), self.samples)]


@dataclass(frozen=True)
class Step:
    """The tokens that one step wrote in the sequences that were open, with their log-probabilities.

    Lists and no objects a token: with many sequences on a GPU, making these took as long as the model's own step.
    """

    sequences: list[int]
    tokens: list[int]
    logprobs: list[float]
    last: set[int]
    """The sequences that end with it."""

    def written(self, job: Job, samples: int) -> list[GeneratedToken]:
        """The same, token by token."""
        return [
            GeneratedToken(*divmod(sequence, samples), token, logprob, token == job.eos, sequence in self.last)
            for sequence, token, logprob in zip(self.sequences, self.tokens, self.logprobs, strict=True)
        ]


class News:
    """What one step chose, on its way from the device to whoever reads it."""

    def __init__(
        self, step: int, sequences: list[int], tokens: Int[Tensor, " rows"], chosen: Float[Tensor, " rows"]
    ) -> None:
        self.step, self.sequences = step, sequences
        self._arriving = Arriving(tokens, chosen)

    def read(self) -> tuple[list[int], list[float]]:
        """Token and log-probability in each place; waits until they are there."""
        tokens, logprobs = self._arriving.wait()
        return tokens.tolist(), logprobs.tolist()


class Batch:
    """The sequences being written: sequence number `row × samples + sample` stands in some place of the batch."""

    def __init__(self, job: Job, samples: int) -> None:
        self.job, self.samples = job, samples
        self.numbers = list(range(job.rows * samples))
        self.open = [True] * len(self.numbers)
        self._soonest = min(job.limits)
        self.sequences = torch.tensor(self.numbers, device=job.device)
        self.history = job.history(samples)
        self.logits, self._state = job.start(samples)

    def news(self, step: int, tokens: Int[Tensor, " rows"], chosen: Float[Tensor, " rows"]) -> News:
        """What this step chose in every place, and how likely that was."""
        return News(step, self.numbers, tokens, chosen)

    def read(self, news: News) -> Step:
        """What a step wrote in the sequences that were open, of which some end here."""
        sequences, (tokens, logprobs) = news.sequences, news.read()
        if not all(self.open):
            heard = [self.open[sequence] for sequence in sequences]
            sequences, tokens = list(compress(sequences, heard)), list(compress(tokens, heard))
            logprobs = list(compress(logprobs, heard))
        if math.isnan(sum(logprobs)):
            raise Failure(f"the model's logits are not numbers (NaN) at token {news.step + 1}; its weights are damaged")
        last = set(self._ending(news.step, sequences, tokens))
        for sequence in last:
            self.open[sequence] = False
        return Step(sequences, tokens, logprobs, last)

    def _ending(self, step: int, sequences: list[int], tokens: list[int]) -> Iterator[int]:
        """The sequences that end now: by the end token, or at their limit."""
        eos, limits = self.job.eos, self.job.limits
        if eos in tokens or step + 1 >= self._soonest:
            for sequence, token in zip(sequences, tokens, strict=True):
                if token == eos or step + 1 == limits[sequence // self.samples]:
                    yield sequence

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


def _hypothesis(sequence: Sequence[tuple[int, float]], eos: int | None) -> Hypothesis:
    tokens, logprobs = [token for token, _ in sequence], [logprob for _, logprob in sequence]
    finished = tokens[-1] == eos
    return Hypothesis(tokens[:-1] if finished else tokens, math.fsum(logprobs), logprobs, finished)
