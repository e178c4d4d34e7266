"""Texts in, texts out: how a trained model translates, writes on and classifies, batch by batch, in input order."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.data.special import BOS, EOS, PAD, UNK
from regard.data.tokenizer import Tokenizer
from regard.decode import BeamConfig, GreedyConfig, Hypothesis, SampleConfig, in_batches, score, search, stream
from regard.errors import RegardError
from regard.nn.layout import Sequences

AnySearch = GreedyConfig | BeamConfig | SampleConfig
TOKENS_AT_ONCE = 4096
SENTENCE_END = re.compile(r"(?<=[.!?…])\s+")


@dataclass(frozen=True)
class Output:
    """One text that a model wrote."""

    text: str
    score: float
    tokens: list[str]
    token_logprobs: list[float]
    finished: bool
    """Whether the model ended the text itself; otherwise the length limit did."""


@dataclass(frozen=True)
class Writer:
    """A trained model with its vocabularies."""

    stepper: Any
    """A Stepper: one model, or an ensemble."""
    source: Tokenizer | None
    target: Tokenizer
    device: torch.device
    longest: int | None = None
    """Most source tokens the model was made for."""

    def translate(
        self, texts: Sequence[str], config: AnySearch, prefixes: Sequence[str] | None = None
    ) -> list[list[Output]]:
        """The translations of each text, best first; a blank text stays blank, a long one is split at sentences."""
        assert self.source is not None
        pieces = [self._pieces(text, place) for place, text in enumerate(texts, 1)]
        starts = [self.target.encode(prefix) for prefix in prefixes or []]
        jobs = [(place, piece) for place, own in enumerate(pieces) for piece in own]
        forced = [starts[place] if starts else [] for place, _ in jobs]
        found = iter(self._translate([piece for _, piece in jobs], forced, config))
        return [_joined([next(found) for _ in own]) for own in pieces]

    def _translate(self, sources: list[list[int]], prefixes: list[list[int]], config: AnySearch) -> list[list[Output]]:
        def work(batch: list["_Job"]) -> list[list[Output]]:
            grid = Sequences.padded([job.source for job in batch], device=self.device)
            prompts = [job.prefix for job in batch]
            rows = search(self.stepper, grid, prompts, config, eos=EOS, bos=BOS, pad=PAD, unk=UNK)
            return [
                [self._output(hypothesis, job.prefix) for hypothesis in row]
                for job, row in zip(batch, rows, strict=True)
            ]

        jobs = [_Job(source, prefix) for source, prefix in zip(sources, prefixes, strict=True)]
        return in_batches(jobs, work, tokens_per_batch=TOKENS_AT_ONCE)

    def _pieces(self, text: str, place: int) -> list[list[int]]:
        """A text as token rows that fit: whole, or sentence by sentence; none where it is blank."""
        assert self.source is not None
        if not text.strip():
            return []
        row = [*self.source.encode(text), EOS]
        if self.longest is None or len(row) <= self.longest:
            return [row]
        rows: list[list[int]] = []
        for sentence in SENTENCE_END.split(text):
            ids = self.source.encode(sentence)
            if len(ids) + 1 > self.longest:
                raise RegardError(
                    f"input {place}: a sentence of {len(ids) + 1} tokens, the model takes at most {self.longest}; "
                    "shorten it, or train with a larger data.max_length"
                )
            rows.append([*ids, EOS])
        return rows

    def generate(self, prompts: Sequence[str], config: AnySearch, documents: bool) -> list[list[Output]]:
        """What the model writes after each prompt; `documents`: it knows where texts begin and end."""
        rows = [self._prompt(prompt, documents) for prompt in prompts]

        def work(batch: list[list[int]]) -> list[list[Output]]:
            ends = EOS if documents else None
            found = search(self.stepper, None, batch, config, eos=ends, bos=None, pad=PAD, device=self.device)
            return [[self._output(hypothesis, []) for hypothesis in row] for row in found]

        return in_batches(rows, work, tokens_per_batch=TOKENS_AT_ONCE)

    def stream(self, prompt: str, config: AnySearch, documents: bool) -> Iterator[str]:
        """What the model writes after a prompt, piece by piece as it comes."""
        row, ids, shown = self._prompt(prompt, documents), [], ""
        ends = EOS if documents else None
        for written in stream(self.stepper, None, [row], config, eos=ends, bos=None, pad=PAD, device=self.device):
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
            _Job([*encode(one), EOS], self.target.encode(other)) for one, other in zip(sources, targets, strict=True)
        ]

        def work(batch: list["_Job"]) -> list[list[float]]:
            grid = Sequences.padded([pair.source for pair in batch], device=self.device)
            return score(self.stepper, grid, [pair.prefix for pair in batch], eos=EOS, bos=BOS)

        return in_batches(pairs, work, tokens_per_batch=TOKENS_AT_ONCE)

    def _prompt(self, prompt: str, documents: bool) -> list[int]:
        ids = self.target.encode(prompt)
        if documents:
            return [BOS, *ids]
        return ids or self.target.encode("\n") or [UNK]

    def _output(self, hypothesis: Hypothesis, prefix: list[int]) -> Output:
        ids = [*prefix, *hypothesis.tokens]
        return Output(
            self.target.decode(ids),
            hypothesis.score,
            self.target.tokens(ids),
            hypothesis.token_logprobs,
            hypothesis.finished,
        )


@dataclass(frozen=True)
class _Job:
    source: list[int]
    prefix: list[int]

    def __len__(self) -> int:
        return len(self.source)


def _joined(parts: list[list[Output]]) -> list[Output]:
    """The translations of a text from those of its pieces: the best of each piece, and so on down the list."""
    if not parts:
        return [Output("", 0.0, [], [], True)]
    if len(parts) == 1:
        return parts[0]
    return [
        Output(
            " ".join(piece.text for piece in ranked),
            sum(piece.score for piece in ranked),
            [token for piece in ranked for token in piece.tokens],
            [logprob for piece in ranked for logprob in piece.token_logprobs],
            all(piece.finished for piece in ranked),
        )
        for ranked in zip(*parts, strict=False)
    ]


@torch.no_grad()
def classify(
    model: nn.Module,
    tokenizer: Tokenizer,
    labels: Sequence[str],
    texts: Sequence[str],
    device: torch.device,
    longest: int | None = None,
) -> list[dict[str, float] | None]:
    """The probability of each label for each text; None for a blank one."""
    rows = [[*tokenizer.encode(text), EOS] for text in texts if text.strip()]
    for place, row in enumerate(rows, 1):
        if longest is not None and len(row) > longest:
            raise RegardError(
                f"input {place}: {len(row)} tokens, the model takes at most {longest}; "
                "shorten it, or train with a larger data.max_length"
            )

    def work(batch: list[list[int]]) -> list[dict[str, float]]:
        probabilities = model(Sequences.padded(batch, device=device)).float().softmax(-1).tolist()
        return [dict(zip(labels, row, strict=True)) for row in probabilities]

    found = iter(in_batches(rows, work, tokens_per_batch=TOKENS_AT_ONCE))
    return [next(found) if text.strip() else None for text in texts]
