"""Summaries of texts that may be longer than what the model reads: what is cut off is told with each summary."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from regard.decode import Ensemble, in_batches, score
from regard.decode.search import AnySearch
from regard.decode.steppers import max_positions
from regard.models.stepper import PrefixDecoder
from regard.nn.layout import Sequences
from regard.tasks.generation import TextGenerator
from regard.text.inputs import SourceSegment, truncate_document
from regard.text.outputs import Output, Summary, join_segments
from regard.text.special_tokens import BOS, EOS


@dataclass(frozen=True)
class Summariser(TextGenerator):
    """A trained model that reads the beginning of each text."""

    input_tokens: int = 500
    """Most tokens of a text, its end token counted."""

    def translate(
        self, texts: Sequence[str], config: AnySearch, prefixes: Sequence[str] | None = None, cut: bool = True
    ) -> list[list[Output]]:
        """The summaries of each text, best first; a blank text stays blank."""
        if self.positions is not None and config.max_length > self.positions:
            config = config.but(max_length=self.positions, min_length=min(config.min_length, self.positions - 1))
        starts = [self.target.encode(prefix) for prefix in prefixes or [""] * len(texts)]
        read = [self._passage(text, start) for text, start in zip(texts, starts, strict=True)]
        jobs = [passage for text, (passage, _) in zip(texts, read, strict=True) if text.strip()]
        found = iter(in_batches(jobs, lambda batch: self._translate(batch, config), **self.at_once(config)))
        return [
            _summaries(next(found), unread) if text.strip() else join_segments([], [])
            for text, (_, unread) in zip(texts, read, strict=True)
        ]

    @cached_property
    def positions(self) -> int | None:
        """Most tokens of a summary; of a model of one stack, what the longest input leaves of its positions."""
        steppers = self.stepper.members if isinstance(self.stepper, Ensemble) else [self.stepper]
        limits = [
            positions - self.input_tokens + 1 if isinstance(stepper, PrefixDecoder) else positions
            for stepper in steppers
            if (positions := max_positions(stepper)) is not None
        ]
        return min(limits, default=None)

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[list[float]]:
        """The log-probability of each token of given summaries, the end token last."""
        pairs = [self._passage(one, self.target.encode(other))[0] for one, other in zip(sources, targets, strict=True)]

        def work(batch: list[SourceSegment]) -> list[list[float]]:
            grid = Sequences.padded([pair.source for pair in batch], device=self.device)
            return score(self.stepper, grid, [pair.prefix for pair in batch], eos=EOS, bos=BOS)

        return in_batches(pairs, work, **self.at_once())

    def _passage(self, text: str, prefix: list[int]) -> tuple[SourceSegment, int]:
        """The tokens of a text that are read, and how many are not."""
        assert self.source is not None
        kept, unread = truncate_document(text, self.source, self.input_tokens)
        return SourceSegment([*kept, EOS], prefix, text), unread


def _summaries(outputs: Sequence[Output], unread: int) -> list[Output]:
    return [Summary(**vars(output), unread=unread) for output in outputs]
