"""A converted model, run by CTranslate2: texts in, texts out, no torch.

engine = FastEngine(Converted.read(folder), Workers(1, 2))
engine.translate(["Anna threw away the old chair."], engine.converted.usual)[0][0].text
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import ctranslate2
from regard.config.search_options import is_sampling
from regard.ctranslate2.model_folder import Converted
from regard.ctranslate2.search import Search, ranking, words
from regard.errors import InputError
from regard.text.inputs import SourceSegment, encode_prompts, refuse_long_prompt, source_segments, truncate_document
from regard.text.outputs import Output, Summary, join_segments
from regard.text.special_tokens import EOS, SEP, SPECIAL_TOKENS
from regard.text.vocabulary import Vocabulary

END = SPECIAL_TOKENS[EOS]
TOKENS_IN_A_BATCH = 1024
"""Enough to keep one worker busy."""


class Workers(NamedTuple):
    """How a machine's cores share the work."""

    batches: int
    """Batches that are computed side by side."""
    threads: int
    """Threads that compute each of them."""


class Found(NamedTuple):
    """What CTranslate2 wrote, without the end token."""

    tokens: list[str]
    score: float
    ended: bool


class FastEngine:
    """A converted model with its vocabularies."""

    def __init__(self, converted: Converted, workers: Workers) -> None:
        self.converted, self.workers = converted, workers
        self.source, self.target = converted.vocabularies()
        kind = ctranslate2.Generator if converted.continues else ctranslate2.Translator
        self.model: Any = kind(
            str(converted.folder),
            device="cpu",
            compute_type=converted.precision,
            inter_threads=workers.batches,
            intra_threads=workers.threads,
        )

    def translate(
        self, texts: Sequence[str], search: Search, scored: bool = False, cut: bool = False
    ) -> list[list[Output]]:
        """The translations of each text, best first; a blank text stays blank, a long one is split at sentences.

        Sentences that are too long are `cut`, or OverlongError names all texts that have one.

        Of a long text, a summariser reads the beginning. `scored` adds the log-probability of each token, which costs
        another reading.
        """
        search = self.converted.limited(search)
        if self.converted.input_tokens is not None:
            return self._summaries(texts, search, scored, self.converted.input_tokens)
        pieces = source_segments(texts, self.source, self.converted.longest, cut=cut)
        flat = [piece for own in pieces for piece in own]
        found = iter(self._translate(flat, search, scored))
        return [join_segments(own, [next(found) for _ in own]) for own in pieces]

    def _summaries(self, texts: Sequence[str], search: Search, scored: bool, most: int) -> list[list[Output]]:
        read = {place: truncate_document(text, self.source, most) for place, text in enumerate(texts) if text.strip()}
        if self.converted.prompted:
            prompts = [_spelt(self.source, [*ids, SEP]) for ids, _ in read.values()]
            written = self._write_on(prompts, search, scored, words(search, self.converted.task, prompted=True))
        else:
            written = self._translate([SourceSegment([*ids, EOS], []) for ids, _ in read.values()], search, scored)
        found = dict(zip(read, written, strict=True))
        return [
            [Summary(**vars(one), unread=read[place][1]) for one in found[place]]
            if place in found
            else join_segments([], [])
            for place in range(len(texts))
        ]

    def _translate(self, batch: list[SourceSegment], search: Search, scored: bool) -> list[list[Output]]:
        if not batch:
            return []
        sources = [_spelt(self.source, piece.source[:-1]) for piece in batch]
        asked = words(search, self.converted.task)
        found = self.model.translate_batch(sources, max_input_length=0, **self._batches(sources), **asked)
        rows = [_ranked(zip(one.hypotheses, one.scores, strict=True), search) for one in found]
        return self._outputs(rows, search, self._translation_logprobs(sources, rows) if scored else None)

    def _translation_logprobs(self, sources: list[list[str]], rows: list[list[Found]]) -> list[list[float]]:
        """The model's own log-probability of each written token, and of the end where there is one."""
        pairs = [(source, found) for source, row in zip(sources, rows, strict=True) for found in row]
        read = self.model.score_batch(
            [source for source, _ in pairs],
            [found.tokens for _, found in pairs],
            max_input_length=0,
            **self._batches([source for source, _ in pairs]),
        )
        counts = [len(found.tokens) + found.ended for _, found in pairs]
        return [one.log_probs[:count] for one, count in zip(read, counts, strict=True)]

    def generate(self, prompts: Sequence[str], search: Search, scored: bool = False) -> list[list[Output]]:
        """What the model writes after each prompt, no more than its positions hold."""
        rows = encode_prompts(prompts, self.target, self.converted.documents)
        groups: dict[int, list[int]] = {}
        for index, row in enumerate(rows):
            refuse_long_prompt(index + 1, len(row), self.converted.most)
            most = self.converted.limited(search, len(row))["max_length"]
            if len(row) + most - 1 > self.converted.room:  # a table that the run's own model does not have
                raise InputError(
                    index + 1,
                    f"{len(row)} tokens and {most} to write, the converted model has room for {self.converted.room}; "
                    "write less with --length, or use --engine torch",
                )
            groups.setdefault(most, []).append(index)
        results: dict[int, list[Output]] = {}
        for most, own in groups.items():
            limited = {**search, "max_length": most, "min_length": min(search["min_length"], most - 1)}
            written = self._continue([rows[index] for index in own], limited, scored)
            results.update(zip(own, written, strict=True))
        return [results[index] for index in range(len(rows))]

    def _continue(self, rows: list[list[int]], search: Search, scored: bool) -> list[list[Output]]:
        ends = {} if self.converted.documents else {"end_token": []}
        asked = {**words(search, self.converted.task), **ends}
        return self._write_on([_spelt(self.target, row) for row in rows], search, scored, asked)

    def _write_on(
        self, prompts: list[list[str]], search: Search, scored: bool, asked: dict[str, Any]
    ) -> list[list[Output]]:
        """What a model of one stack writes after each prompt."""
        if not prompts:
            return []
        if is_sampling(search):
            ctranslate2.set_random_seed(search["seed"] % 2**32)
        found = self._continued(prompts, asked)
        ranked = [_ranked(zip(one.sequences, one.scores, strict=True), search)[0] for one in found]
        logprobs = self._continuation_logprobs(prompts, ranked) if scored else None
        return self._outputs([[one] for one in ranked], search, logprobs)

    def _continued(self, prompts: list[list[str]], asked: dict[str, Any]) -> list[Any]:
        """Prompts of one length share a batch: of longer ones, the library would write the rest as if it were new."""
        places: dict[int, list[int]] = {}
        for place, prompt in enumerate(prompts):
            places.setdefault(len(prompt), []).append(place)
        started = {}
        for own in places.values():
            found = self.model.generate_batch(
                (batch := [prompts[place] for place in own]),
                include_prompt_in_result=False,
                asynchronous=True,
                **self._batches(batch),
                **asked,
            )
            started.update(zip(own, found, strict=True))
        return [started[place].result() for place in range(len(prompts))]

    def _continuation_logprobs(self, prompts: list[list[str]], found: list[Found]) -> list[list[float]]:
        whole = [prompt + one.tokens + [END] * one.ended for prompt, one in zip(prompts, found, strict=True)]
        read = self.model.score_batch(whole, **self._batches(whole))
        return [one.log_probs[len(prompt) - 1 :] for one, prompt in zip(read, prompts, strict=True)]

    def _batches(self, rows: Sequence[Sequence[str]]) -> dict[str, Any]:
        """How the library divides rows into batches: into full ones, but never so few that a worker has none."""
        if sum(map(len, rows)) > TOKENS_IN_A_BATCH * self.workers.batches:
            return {"max_batch_size": TOKENS_IN_A_BATCH, "batch_type": "tokens"}
        return {"max_batch_size": -(-len(rows) // self.workers.batches), "batch_type": "examples"}

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.target.names)}

    def _outputs(
        self, rows: list[list[Found]], search: Search, logprobs: list[list[float]] | None
    ) -> list[list[Output]]:
        """What was found as text; where log-probabilities are wanted, scores are made of them, as torch's are."""
        ids = [[self._number[token] for token in found.tokens] for row in rows for found in row]
        read = iter(zip(ids, self.target.decode_batch(ids), logprobs or [[]] * len(ids), strict=True))

        def output(found: Found) -> Output:
            ids, text, logs = next(read)
            if logprobs is None:
                return Output(text, found.score, [], [], found.ended)
            return Output(text, ranking(sum(logs), len(logs), search), self.target.tokens(ids), logs, found.ended)

        return [[output(found) for found in row] for row in rows]


def _ranked(found: Any, search: Search) -> list[Found]:  # noqa: ANN401
    """Our order: what ended before what was cut, then by score."""
    ends = [(tokens, score, bool(tokens) and tokens[-1] == END) for tokens, score in found]
    all_found = [Found(tokens[: len(tokens) - ended], score, ended) for tokens, score, ended in ends]
    ordered = sorted(all_found, key=lambda one: (not one.ended, -one.score))
    return ordered[: search.get("n_best", 1)]


def _spelt(vocabulary: Vocabulary, ids: Sequence[int]) -> list[str]:
    return [vocabulary.names[i] for i in ids]
