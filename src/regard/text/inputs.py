"""Texts as the token rows that a model takes: split, truncated or refused where they are too long."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from regard.errors import OverlongError, located
from regard.text.sentences import sentence_spans
from regard.text.special_tokens import BOS, EOS, UNK
from regard.text.vocabulary import Vocabulary

TOKENS_PER_BATCH = 4096
GPU_TOKENS_PER_BATCH, GPU_ROWS_PER_BATCH = 16384, 512
"""A GPU takes as long for a step of many rows as of few; more rows than that fill its memory with keys and values."""
Overlong = Literal["cut", "skip", "error"]
"""What happens to an input that is too long: it is truncated, left out, or an error."""
Items = list[Any]
"""Inputs of a model, mostly texts, or its results for them."""
Work = Callable[[Items, bool], Items]
"""A model's results for inputs; the flag: inputs that are too long are truncated."""


@dataclass(frozen=True)
class SourceSegment:
    """The token ids of a text that fits into a model, or of one sentence of a text that does not."""

    source: list[int]
    """Token ids, `<eos>` last."""
    prefix: list[int]
    """Token ids that its translation must begin with."""
    text: str = ""
    gap: str = ""
    """White space between the segment before it and this one."""

    def __len__(self) -> int:
        return len(self.source)


def source_segments(
    texts: Sequence[str],
    source: Vocabulary,
    longest: int | None,
    prefixes: Sequence[Sequence[int]] | None = None,
    cut: bool = False,
) -> list[list[SourceSegment]]:
    """Each text as segments of at most `longest` tokens: whole, or sentence by sentence; none where it is blank.

    Sentences that do not fit are truncated with `cut`; otherwise OverlongError names all texts that have one.
    """
    rows = zip(texts, source.encode_batch(texts), [()] * len(texts) if prefixes is None else prefixes, strict=True)
    split = [_segments(text, ids, source, longest, prefix) for text, ids, prefix in rows]
    if longest is None:
        return split
    if not cut:
        refuse_overlong([max(map(len, segments), default=0) for segments in split], longest, "a sentence of ")
    return [[_truncate(segment, longest) for segment in segments] for segments in split]


def _segments(
    text: str, ids: list[int], source: Vocabulary, longest: int | None, prefix: Sequence[int]
) -> list[SourceSegment]:
    if not text.strip():
        return []
    whole = SourceSegment([*ids, EOS], list(prefix), text)
    if longest is None or len(whole) <= longest:
        return [whole]
    spans = sentence_spans(text)
    gaps = ["", *(text[end:start] for (_, end), (start, _) in pairwise(spans))]
    prefixes = [list(prefix), *([] for _ in spans[1:])]  # only the first sentence begins with it
    sentences = [text[start:end] for start, end in spans]
    return [
        SourceSegment([*source.encode(sentence), EOS], prefix, sentence, gap)
        for sentence, prefix, gap in zip(sentences, prefixes, gaps, strict=True)
    ]


def _truncate(segment: SourceSegment, longest: int) -> SourceSegment:
    if len(segment) <= longest:
        return segment
    return replace(segment, source=[*segment.source[: longest - 1], EOS])


def truncate_document(text: str, source: Vocabulary, longest: int) -> tuple[list[int], int]:
    """The first `longest - 1` token ids of a text to summarise, and how many are dropped."""
    ids = source.encode(text)
    return ids[: longest - 1], max(0, len(ids) - longest + 1)


def refuse_overlong(lengths: Sequence[int], longest: int | None, what: str = "") -> None:
    """OverlongError for inputs with more than `longest` tokens; `what` begins the sentence about each."""
    problems = {
        number: f"{what}{length} tokens, the model takes at most {longest}; shorten it, or train with a larger "
        "data.max_length"
        for number, length in enumerate(lengths, start=1)
        if longest is not None and length > longest
    }
    if problems:
        raise OverlongError(problems)


def run_handling_overlong(
    texts: Items,
    run: Work,
    origins: Sequence[tuple[object, int]],
    overlong: Overlong,
    warn: Callable[[str], None],
) -> tuple[Items, dict[int, str]]:
    """The results of `run(texts, cut)`, and the problem of each text that is too long, by its number from one.

    Texts that are too long are truncated (`cut`), have no result (`skip`), or the first of them is an error; `warn`
    gets a sentence with file and line about each.
    """
    with located(origins):
        try:
            return run(texts, False), {}
        except OverlongError as error:
            if overlong == "error":
                raise
            problems = error.inputs
        for number, problem in problems.items():
            file, line = origins[number - 1]
            consequence = "cut at the end" if overlong == "cut" else "left blank"
            warn(f"{file}:{line}: {problem.partition(';')[0]}; {consequence}")
        if overlong == "cut":
            return run(texts, True), problems
        blanked = ["" if number in problems else text for number, text in enumerate(texts, start=1)]
        results = run(blanked, False)
        for number in problems:  # no result, not the result of a blank text
            results[number - 1] = [] if isinstance(results[number - 1], list) else None
        return results, problems


def encode_prompts(prompts: Sequence[str], vocabulary: Vocabulary, documents: bool) -> list[list[int]]:
    """The token ids that a language model continues; `documents`: it was trained with `<bos>` before each text."""
    rows = vocabulary.encode_batch(prompts)
    if documents:
        return [[BOS, *ids] for ids in rows]
    return [ids or vocabulary.encode("\n") or [UNK] for ids in rows]


def refuse_long_prompt(number: int, tokens: int, positions: int | None) -> None:
    """OverlongError for a prompt with more tokens than the model has positions."""
    if positions is not None and tokens > positions:
        raise OverlongError(
            {number: f"a prompt of {tokens} tokens, and the model has {positions} positions; shorten it"}
        )


def length_limit_warning(max_length: int, positions: int | None) -> str | None:
    """A warning where a search may generate more tokens than the model has positions."""
    if positions is None or max_length <= positions:
        return None
    return f"search.max_length = {max_length}: limited to {positions} tokens, the positions that the model has"
