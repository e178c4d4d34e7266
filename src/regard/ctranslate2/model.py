"""A converted model, run by CTranslate2: texts in, texts out, no torch.

engine = CTranslate2Engine(ConvertedModel.read(folder), Workers(1, 2))
engine.translate(["Anna threw away the old chair."], engine.converted.default_search)[0][0].text
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import ctranslate2
from regard.config.search_options import Search, is_sampling, length_divisor
from regard.ctranslate2.model_folder import ConvertedModel
from regard.errors import InputError
from regard.text.inputs import SourceSegment, encode_prompts, refuse_long_prompt, source_segments, truncate_document
from regard.text.outputs import Output, Summary, join_segments
from regard.text.special_tokens import EOS, SEP, SPECIAL_TOKENS
from regard.text.vocabulary import Vocabulary

LibraryOptions = dict[str, Any]
"""Arguments of `translate_batch` or `generate_batch`, for which the library has no types."""
END = SPECIAL_TOKENS[EOS]
TOKENS_PER_BATCH = 1024
"""Enough to keep one worker busy."""


class Workers(NamedTuple):
    """How a machine's cores share the work."""

    batches: int
    """Batches that are computed side by side."""
    threads: int
    """Threads that compute each of them."""


class Hypothesis(NamedTuple):
    """What CTranslate2 generated, without the end token."""

    tokens: list[str]
    score: float
    ended: bool


class CTranslate2Engine:
    """A converted model with its vocabularies."""

    def __init__(self, converted: ConvertedModel, workers: Workers) -> None:
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

        Sentences that are too long are `cut`, or OverlongError names all texts that have one. Of a long text, a
        summariser reads the beginning. `scored` adds the log-probability of each token, by another forward pass.
        """
        search = self.converted.limited(search)
        if self.converted.input_tokens is not None:
            return self._summarise(texts, search, scored, self.converted.input_tokens)
        segments = source_segments(texts, self.source, self.converted.longest, cut=cut)
        outputs = iter(self._translate([segment for text in segments for segment in text], search, scored))
        return [join_segments(text, [next(outputs) for _ in text]) for text in segments]

    def _summarise(self, texts: Sequence[str], search: Search, scored: bool, most: int) -> list[list[Output]]:
        inputs = {index: truncate_document(text, self.source, most) for index, text in enumerate(texts) if text.strip()}
        if self.converted.prompted:
            prompts = [_names(self.source, [*ids, SEP]) for ids, _ in inputs.values()]
            options = library_options(search, self.converted.task, prompted=True)
            outputs = self._continue(prompts, search, scored, options)
        else:
            outputs = self._translate([SourceSegment([*ids, EOS], []) for ids, _ in inputs.values()], search, scored)
        summaries = dict(zip(inputs, outputs, strict=True))
        return [
            [Summary(**vars(one), unread=inputs[index][1]) for one in summaries[index]]
            if index in summaries
            else join_segments([], [])
            for index in range(len(texts))
        ]

    def _translate(self, batch: list[SourceSegment], search: Search, scored: bool) -> list[list[Output]]:
        if not batch:
            return []
        sources = [_names(self.source, segment.source[:-1]) for segment in batch]
        options = library_options(search, self.converted.task)
        results = self.model.translate_batch(sources, max_input_length=0, **self._batching(sources), **options)
        rows = [_ranked(result.hypotheses, result.scores, search) for result in results]
        return self._outputs(rows, search, self._translation_logprobs(sources, rows) if scored else None)

    def _translation_logprobs(self, sources: list[list[str]], rows: list[list[Hypothesis]]) -> list[list[float]]:
        """The model's log-probability of each generated token, and of the end where there is one."""
        pairs = [(source, hypothesis) for source, row in zip(sources, rows, strict=True) for hypothesis in row]
        repeated = [source for source, _ in pairs]
        results = self.model.score_batch(
            repeated, [hypothesis.tokens for _, hypothesis in pairs], max_input_length=0, **self._batching(repeated)
        )
        counts = [len(hypothesis.tokens) + hypothesis.ended for _, hypothesis in pairs]
        return [result.log_probs[:count] for result, count in zip(results, counts, strict=True)]

    def generate(self, prompts: Sequence[str], search: Search, scored: bool = False) -> list[list[Output]]:
        """The continuation of each prompt, no longer than the model's positions."""
        rows = encode_prompts(prompts, self.target, self.converted.documents)
        by_limit: dict[int, list[int]] = {}
        for index, row in enumerate(rows):
            refuse_long_prompt(index + 1, len(row), self.converted.max_new_tokens)
            limit, positions = self.converted.limited(search, len(row))["max_length"], self.converted.max_positions
            if len(row) + limit - 1 > positions:  # a table that the run's own model does not have
                raise InputError(
                    index + 1,
                    f"{len(row)} tokens and {limit} to generate, the converted model has {positions} positions; "
                    "generate less with --length, or use --engine torch",
                )
            by_limit.setdefault(limit, []).append(index)
        outputs: dict[int, list[Output]] = {}
        for limit, indices in by_limit.items():
            limited = {**search, "max_length": limit, "min_length": min(search["min_length"], limit - 1)}
            options = library_options(limited, self.converted.task)
            if not self.converted.documents:
                options["end_token"] = []
            texts = [_names(self.target, rows[index]) for index in indices]
            outputs.update(zip(indices, self._continue(texts, limited, scored, options), strict=True))
        return [outputs[index] for index in range(len(rows))]

    def _continue(
        self, prompts: list[list[str]], search: Search, scored: bool, options: LibraryOptions
    ) -> list[list[Output]]:
        """The continuations of a decoder."""
        if not prompts:
            return []
        if is_sampling(search):
            ctranslate2.set_random_seed(search["seed"] % 2**32)
        results = self._generate_batches(prompts, options)
        best = [_ranked(result.sequences, result.scores, search)[0] for result in results]
        logprobs = self._continuation_logprobs(prompts, best) if scored else None
        return self._outputs([[one] for one in best], search, logprobs)

    def _generate_batches(self, prompts: list[list[str]], options: LibraryOptions) -> list[Any]:
        """Prompts of one length share a batch: of longer ones, the library would return the rest as if generated."""
        by_length: dict[int, list[int]] = {}
        for index, prompt in enumerate(prompts):
            by_length.setdefault(len(prompt), []).append(index)
        pending = {}
        for indices in by_length.values():
            batch = [prompts[index] for index in indices]
            results = self.model.generate_batch(
                batch, include_prompt_in_result=False, asynchronous=True, **self._batching(batch), **options
            )
            pending.update(zip(indices, results, strict=True))
        return [pending[index].result() for index in range(len(prompts))]

    def _continuation_logprobs(self, prompts: list[list[str]], hypotheses: list[Hypothesis]) -> list[list[float]]:
        pairs = zip(prompts, hypotheses, strict=True)
        rows = [prompt + hypothesis.tokens + [END] * hypothesis.ended for prompt, hypothesis in pairs]
        results = self.model.score_batch(rows, **self._batching(rows))
        return [result.log_probs[len(prompt) - 1 :] for result, prompt in zip(results, prompts, strict=True)]

    def _batching(self, rows: Sequence[Sequence[str]]) -> LibraryOptions:
        """How the library divides rows into batches: into full ones, but never so few that a worker has none."""
        if sum(map(len, rows)) > TOKENS_PER_BATCH * self.workers.batches:
            return {"max_batch_size": TOKENS_PER_BATCH, "batch_type": "tokens"}
        return {"max_batch_size": -(-len(rows) // self.workers.batches), "batch_type": "examples"}

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.target.names)}

    def _outputs(
        self, rows: list[list[Hypothesis]], search: Search, logprobs: list[list[float]] | None
    ) -> list[list[Output]]:
        """Hypotheses as text; with log-probabilities, their scores are computed from these, as torch's are."""
        ids = [[self._ids[token] for token in hypothesis.tokens] for row in rows for hypothesis in row]
        decoded = iter(zip(ids, self.target.decode_batch(ids), logprobs or [[]] * len(ids), strict=True))

        def output(hypothesis: Hypothesis) -> Output:
            ids, text, logs = next(decoded)
            if logprobs is None:
                return Output(text, hypothesis.score, [], [], hypothesis.ended)
            score = ranking_score(sum(logs), len(logs), search)
            return Output(text, score, self.target.tokens(ids), logs, hypothesis.ended)

        return [[output(hypothesis) for hypothesis in row] for row in rows]


def _ranked(sequences: Sequence[list[str]], scores: Sequence[float], search: Search) -> list[Hypothesis]:
    """Our order: finished hypotheses before those that were cut, then by score."""
    hypotheses = []
    for tokens, score in zip(sequences, scores, strict=True):
        ended = bool(tokens) and tokens[-1] == END
        hypotheses.append(Hypothesis(tokens[: len(tokens) - ended], score, ended))
    return sorted(hypotheses, key=lambda one: (not one.ended, -one.score))[: search.get("n_best", 1)]


def _names(vocabulary: Vocabulary, ids: Sequence[int]) -> list[str]:
    return [vocabulary.names[token] for token in ids]


def library_options(search: Search, task: str, prompted: bool = False) -> LibraryOptions:
    """A search as arguments of `translate_batch` or, of a decoder, of `generate_batch`."""
    language_model = task == "language_model"
    limits = "max_decoding_length", "min_decoding_length"
    if language_model or prompted:
        limits = "max_length", "min_length"
    suppressed = ["<pad>"] if language_model else ["<pad>", "<bos>"]
    suppressed += ["<unk>"] if search["forbid_unknown"] else []
    options: LibraryOptions = {
        limits[0]: search["max_length"],
        limits[1]: search["min_length"],
        "suppress_sequences": [[token] for token in suppressed],
        "beam_size": 1,
        "return_scores": True,
        "return_end_token": True,
    }
    if search["kind"] == "beam":
        # all hypotheses: ours ranks finished ones before those that were cut
        options |= {"beam_size": search["size"], "num_hypotheses": search["size"]}
        options["length_penalty"] = search["length_penalty"]
    elif is_sampling(search):
        options |= {"sampling_temperature": search["temperature"], "sampling_topp": search["top_p"]}
        options["sampling_topk"] = search.get("top_k") or 0
    return options


def ranking_score(total: float, length: int, search: Search) -> float:
    """What a search ranks by: the sum of log-probabilities, of beams divided by the length with its end token."""
    if search["kind"] != "beam":
        return total
    return total / length_divisor(float(max(1, length)), search["length_penalty"])
