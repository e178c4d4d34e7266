"""Texts in, texts out: how a trained model translates and generates, batch by batch, in input order."""

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch

from regard.data.examples import Picture, Tagged
from regard.decode import AnySearch, AnyStepper, Hypothesis, in_batches, score, search, stream
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
    source_segments,
)
from regard.text.outputs import Output as Output
from regard.text.outputs import join_segments
from regard.text.special_tokens import BOS, EOS, PAD, UNK
from regard.text.tokenizer import Tokenizer

AnyInput = str | bytes | Picture | Tagged
"""A text or the name of an image file, an encoded image, or an example of a data set."""
AnyInputs = Sequence[AnyInput]
Item = TypeVar("Item", bound=Sized)
Result = TypeVar("Result")


@dataclass(frozen=True)
class TextGenerator:
    """Generates text with a trained model and its vocabularies."""

    stepper: AnyStepper
    """One model, or an ensemble."""
    source: Tokenizer | None
    target: Tokenizer
    device: torch.device
    longest: int | None = None
    """Most source tokens the model was made for."""
    unknown: UnknownWords | None = None
    """Replaces the unknown words of a translation; without it, they stay."""
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
        """The size of a batch; a search may decode several rows for each input."""
        if self.device.type != "cuda":
            return {"tokens_per_batch": TOKENS_PER_BATCH}
        rows = getattr(config, "size", 1) * getattr(config, "samples", 1)
        return {"tokens_per_batch": GPU_TOKENS_PER_BATCH, "rows_per_batch": max(1, GPU_ROWS_PER_BATCH // rows)}

    def translate(
        self, texts: AnyInputs, config: AnySearch, prefixes: Sequence[str] | None = None, cut: bool = False
    ) -> list[list[Output]]:
        """The translations of each text, best first; a blank text stays blank, a long one is split at sentences.

        Sentences that are too long are `cut`, or OverlongError names all texts that have one.
        """
        assert self.source is not None
        starts = [self.target.encode("")] * len(texts) if prefixes is None else [*map(self.target.encode, prefixes)]
        split_texts = source_segments([str(text) for text in texts], self.source, self.longest, starts, cut)
        jobs = [passage for parts in split_texts for passage in parts]
        outputs = iter(
            self._in_groups(jobs, lambda job: len(job.prefix), lambda batch: self._translate(batch, config), config)
        )
        return [join_segments(parts, [next(outputs) for _ in parts]) for parts in split_texts]

    def _in_groups(
        self,
        jobs: Sequence[Item],
        length: Callable[[Item], int],
        work: Callable[[list[Item]], list[Result]],
        config: AnySearch,
    ) -> list[Result]:
        """The results of each job; where positions are limited, only prefixes of one length share batches.

        Rows of a batch advance in step, so a longer prefix would leave the others fewer positions.
        """
        groups: dict[int, list[int]] = {}
        for index, job in enumerate(jobs):
            groups.setdefault(0 if self.positions is None else length(job), []).append(index)
        results: dict[int, Result] = {}
        for group in groups.values():
            results.update(zip(group, in_batches([jobs[i] for i in group], work, **self.at_once(config)), strict=True))
        return [results[index] for index in range(len(jobs))]

    def _translate(self, batch: list[SourceSegment], config: AnySearch) -> list[list[Output]]:
        self.watch()
        source = Sequences.padded([job.source for job in batch], device=self.device)
        prompts = [job.prefix for job in batch]
        rows = search(self.stepper, source, prompts, config, eos=EOS, bos=BOS, pad=PAD, unk=UNK)
        translations = [(job, hypothesis) for job, row in zip(batch, rows, strict=True) for hypothesis in row]
        return self._outputs(rows, prompts, self._replacements(translations))

    def _replacements(self, translations: list[tuple[SourceSegment, Hypothesis]]) -> list[dict[int, str]]:
        """The words that replace unknown ones of each translation, where that is wanted."""
        if self.unknown is None:
            return [{}] * len(translations)
        ids = [[*job.prefix, *hypothesis.tokens] for job, hypothesis in translations]
        sources = [job.source for job, _ in translations]
        assert self.source is not None
        words = [[job.text[p.start : p.end] for p in self.source.pieces(job.text)] for job, _ in translations]
        return self.unknown.replacements(sources, words, ids)

    def generate(self, prompts: Sequence[str], config: AnySearch, documents: bool) -> list[list[Output]]:
        """Continuations of each prompt; `documents`: the model was trained on texts with begin and end tokens."""
        rows = self._prompts(prompts, documents)

        def work(batch: list[list[int]]) -> list[list[Output]]:
            end, device = EOS if documents else None, self.device
            hypotheses = search(self.stepper, None, batch, config, eos=end, bos=None, pad=PAD, unk=UNK, device=device)
            return self._outputs(hypotheses, [[] for _ in hypotheses])

        return self._in_groups(rows, len, work, config)

    def _prompts(self, prompts: Sequence[str], documents: bool) -> list[list[int]]:
        """The tokens of prompts; InputError for one that exceeds the positions of the model."""
        rows = encode_prompts(prompts, self.target, documents)
        for number, row in enumerate(rows, start=1):
            refuse_long_prompt(number, len(row), self.positions)
        return rows

    def stream(self, prompt: str, config: AnySearch, documents: bool) -> Iterator[str]:
        """The continuation of a prompt, piece by piece as it comes."""
        rows, shown = self._prompts([prompt], documents), ""
        ids: list[int] = []
        end, device = EOS if documents else None, self.device
        for token in stream(self.stepper, None, rows, config, eos=end, bos=None, pad=PAD, unk=UNK, device=device):
            if not token.ended:
                ids.append(token.token)
            text = self.target.decode(ids)
            if not text.endswith("\ufffd") or token.last:  # an incomplete character waits for its other bytes
                yield text[len(shown) :]
                shown = text

    def score(self, sources: AnyInputs, targets: Sequence[str]) -> list[list[float]]:
        """The log-probability of each token of given translations, the end token last."""
        pairs = [
            SourceSegment(self.source_ids(str(source)), self.target.encode(target))
            for source, target in zip(sources, targets, strict=True)
        ]

        def work(batch: list[SourceSegment]) -> list[list[float]]:
            source = Sequences.padded([pair.source for pair in batch], device=self.device)
            return score(self.stepper, source, [pair.prefix for pair in batch], eos=EOS, bos=BOS)

        return in_batches(pairs, work, **self.at_once())

    def source_ids(self, text: str) -> list[int]:
        """The tokens of a text as the model reads them."""
        assert self.source is not None
        return [*self.source.encode(text), EOS]

    def _outputs(
        self,
        rows: Sequence[Sequence[Hypothesis]],
        prefixes: Sequence[Sequence[int]],
        words: Sequence[dict[int, str]] | None = None,
    ) -> list[list[Output]]:
        """The hypotheses as texts, with unknown words replaced by `words`."""
        flat = [(hypothesis, prefix) for row, prefix in zip(rows, prefixes, strict=True) for hypothesis in row]
        ids = [[*prefix, *hypothesis.tokens] for hypothesis, prefix in flat]
        words = words or [dict[int, str]()] * len(ids)
        decoded = iter(zip(ids, self.target.decode_batch(ids), words, strict=True))

        def output(hypothesis: Hypothesis) -> Output:
            ids, text, replacements = next(decoded)
            tokens = self.target.tokens(ids)
            if replacements:
                tokens = [replacements.get(position, token) for position, token in enumerate(tokens)]
                text = self.target.join(tokens)
            return Output(text, hypothesis.score, tokens, hypothesis.token_logprobs, hypothesis.finished)

        return [[output(hypothesis) for hypothesis in row] for row in rows]
