"""Texts in, texts out: how a trained model translates, writes on and classifies, batch by batch, in input order."""

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import nn

from regard.decode import Hypothesis, in_batches, score, search, stream
from regard.decode.search import AnySearch as AnySearch
from regard.decode.steppers import max_positions
from regard.nn.layout import Sequences
from regard.tasks.unknown_words import UnknownWords
from regard.text.inputs import (
    GPU_ROWS_PER_BATCH,
    GPU_TOKENS_PER_BATCH,
    TOKENS_PER_BATCH,
    SourceSegment,
    encode_prompts,
    length_limit_warning,
    refuse_long_prompt,
    refuse_overlong,
    source_segments,
)
from regard.text.outputs import Output as Output
from regard.text.outputs import join_segments
from regard.text.special_tokens import BOS, EOS, PAD, UNK
from regard.text.tokenizer import Tokenizer

Item = TypeVar("Item", bound=Sized)


@dataclass(frozen=True)
class TextGenerator:
    """A trained model with its vocabularies."""

    stepper: Any
    """A Stepper: one model, or an ensemble."""
    source: Tokenizer | None
    target: Tokenizer
    device: torch.device
    longest: int | None = None
    """Most source tokens the model was made for."""
    unknown: UnknownWords | None = None
    """What replaces the unknown words of a translation; when left out, they stay."""
    watch: Callable[[], None] = lambda: None
    """Called before each batch; what it raises ends the work."""

    @cached_property
    def positions(self) -> int | None:
        """Most tokens that can be generated for one input, where the model's positions have an end."""
        return max_positions(self.stepper)

    def limit(self, config: AnySearch) -> str | None:
        """A sentence where the model has fewer positions than the search may generate tokens."""
        return length_limit_warning(config.max_length, self.positions)

    def at_once(self, config: AnySearch | None = None) -> dict[str, int]:
        """How much is read and written at a time; a search may write several rows for each."""
        if self.device.type != "cuda":
            return {"tokens_per_batch": TOKENS_PER_BATCH}
        rows = getattr(config, "size", 1) * getattr(config, "samples", 1)
        return {"tokens_per_batch": GPU_TOKENS_PER_BATCH, "rows_per_batch": max(1, GPU_ROWS_PER_BATCH // rows)}

    def translate(
        self, texts: Sequence[str], config: AnySearch, prefixes: Sequence[str] | None = None, cut: bool = False
    ) -> list[list[Output]]:
        """The translations of each text, best first; a blank text stays blank, a long one is split at sentences.

        Sentences that are too long are `cut`, or OverlongError names all texts that have one.
        """
        assert self.source is not None
        starts = [self.target.encode("")] * len(texts) if prefixes is None else map(self.target.encode, prefixes)
        pieces = source_segments(texts, self.source, self.longest, list(starts), cut)
        jobs = [job for own in pieces for job in own]
        found = iter(
            self._alike(jobs, lambda job: len(job.prefix), lambda batch: self._translate(batch, config), config)
        )
        return [join_segments(own, [next(found) for _ in own]) for own in pieces]

    def _alike(
        self,
        jobs: Sequence[Item],
        length: Callable[[Item], int],
        work: Callable[[list[Item]], list[Any]],
        config: Any,  # noqa: ANN401
    ) -> list[Any]:
        """The results of each job; where positions have an end, those that begin with as many tokens share batches.

        Rows of a batch advance in step, so a longer beginning would leave the others fewer positions.
        """
        groups: dict[int, list[int]] = {}
        for index, job in enumerate(jobs):
            groups.setdefault(0 if self.positions is None else length(job), []).append(index)
        results: dict[int, Any] = {}
        for own in groups.values():
            results.update(zip(own, in_batches([jobs[i] for i in own], work, **self.at_once(config)), strict=True))
        return [results[index] for index in range(len(jobs))]

    def _translate(self, batch: list[SourceSegment], config: AnySearch) -> list[list[Output]]:
        self.watch()
        grid = Sequences.padded([job.source for job in batch], device=self.device)
        prompts = [job.prefix for job in batch]
        rows = search(self.stepper, grid, prompts, config, eos=EOS, bos=BOS, pad=PAD, unk=UNK)
        written = [(job, hypothesis) for job, row in zip(batch, rows, strict=True) for hypothesis in row]
        return self._outputs(rows, prompts, self._known_words(written))

    def _known_words(self, written: list[tuple[SourceSegment, Hypothesis]]) -> list[dict[int, str]]:
        """What to write in place of unknown words, where that is wanted."""
        if self.unknown is None:
            return [{}] * len(written)
        ids = [[*job.prefix, *hypothesis.tokens] for job, hypothesis in written]
        sources, words = [job.source for job, _ in written], [self._source_words(job.text) for job, _ in written]
        return self.unknown.replacements(sources, words, ids)

    def _source_words(self, text: str) -> list[str]:
        assert self.source is not None
        return [text[piece.start : piece.end] for piece in self.source.pieces(text)]

    def generate(self, prompts: Sequence[str], config: AnySearch, documents: bool) -> list[list[Output]]:
        """What the model writes after each prompt; `documents`: it knows where texts begin and end."""
        rows = self._prompts(prompts, documents)

        def work(batch: list[list[int]]) -> list[list[Output]]:
            ends = EOS if documents else None
            found = search(self.stepper, None, batch, config, eos=ends, bos=None, pad=PAD, unk=UNK, device=self.device)
            return self._outputs(found, [[] for _ in found])

        return self._alike(rows, len, work, config)

    def _prompts(self, prompts: Sequence[str], documents: bool) -> list[list[int]]:
        """What a language model continues; InputError for a prompt that its positions cannot hold."""
        rows = encode_prompts(prompts, self.target, documents)
        for number, row in enumerate(rows, start=1):
            refuse_long_prompt(number, len(row), self.positions)
        return rows

    def stream(self, prompt: str, config: AnySearch, documents: bool) -> Iterator[str]:
        """What the model writes after a prompt, piece by piece as it comes."""
        rows, ids, shown = self._prompts([prompt], documents), [], ""
        ends = EOS if documents else None
        found = stream(self.stepper, None, rows, config, eos=ends, bos=None, pad=PAD, unk=UNK, device=self.device)
        for written in found:
            if not written.ended:
                ids.append(written.token)
            text = self.target.decode(ids)
            if not text.endswith("\ufffd") or written.last:  # half a character waits for its other half
                yield text[len(shown) :]
                shown = text

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[list[float]]:
        """The log-probability of each token of given translations, the end token last."""
        assert self.source is not None
        encode = self.source.encode
        pairs = [
            SourceSegment([*encode(one), EOS], self.target.encode(other))
            for one, other in zip(sources, targets, strict=True)
        ]

        def work(batch: list[SourceSegment]) -> list[list[float]]:
            grid = Sequences.padded([pair.source for pair in batch], device=self.device)
            return score(self.stepper, grid, [pair.prefix for pair in batch], eos=EOS, bos=BOS)

        return in_batches(pairs, work, **self.at_once())

    def _outputs(
        self,
        rows: Sequence[Sequence[Hypothesis]],
        prefixes: Sequence[Sequence[int]],
        words: Sequence[dict[int, str]] | None = None,
    ) -> list[list[Output]]:
        """What was found as text, with what stands in place of unknown words, if anything does."""
        found = [(hypothesis, prefix) for row, prefix in zip(rows, prefixes, strict=True) for hypothesis in row]
        ids = [[*prefix, *hypothesis.tokens] for hypothesis, prefix in found]
        read = iter(zip(ids, self.target.decode_batch(ids), words or [{}] * len(ids), strict=True))

        def output(hypothesis: Hypothesis) -> Output:
            ids, text, known = next(read)
            tokens = self.target.tokens(ids)
            if known:
                tokens = [known.get(place, token) for place, token in enumerate(tokens)]
                text = self.target.join(tokens)
            return Output(text, hypothesis.score, tokens, hypothesis.token_logprobs, hypothesis.finished)

        return [[output(hypothesis) for hypothesis in row] for row in rows]


@torch.no_grad()
def classify(
    model: nn.Module,
    tokenizer: Tokenizer,
    labels: Sequence[str],
    texts: Sequence[str],
    device: torch.device,
    longest: int | None = None,
    cut: bool = False,
) -> list[dict[str, float] | None]:
    """The probability of each label for each text, None for a blank one; texts that are too long are cut or refused."""
    rows = [[*tokenizer.encode(text), EOS] if text.strip() else [] for text in texts]
    if cut and longest is not None:
        rows = [row if len(row) <= longest else [*row[: longest - 1], EOS] for row in rows]
    refuse_overlong([len(row) for row in rows], longest)

    def work(batch: list[list[int]]) -> list[dict[str, float]]:
        probabilities = model(Sequences.padded(batch, device=device)).float().softmax(-1).tolist()
        return [dict(zip(labels, row, strict=True)) for row in probabilities]

    found = iter(in_batches([row for row in rows if row], work, tokens_per_batch=TOKENS_PER_BATCH))
    return [next(found) if row else None for row in rows]
