"""What every engine does alike with a text before and after its model, so that all of them write the same."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.special import BOS, EOS, UNK
from regard.data.vocabulary import Vocabulary
from regard.errors import InputError

TOKENS_AT_ONCE = 4096
TOKENS_ON_GPU, ROWS_ON_GPU = 16384, 512
"""A GPU takes as long for a step of many rows as of few; more rows than that fill its memory with keys and values."""
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
class Summary(Output):
    """A summary, and how much of its text the model did not read."""

    unread: int = 0
    """Tokens of the text beyond `task.input_tokens`."""


@dataclass(frozen=True)
class Passage:
    """A text that fits into a model, or a sentence of one that does not."""

    source: list[int]
    """Its tokens, the end token last."""
    prefix: list[int]
    """What its translation must begin with."""
    text: str = ""

    def __len__(self) -> int:
        return len(self.source)


def passages(
    texts: Sequence[str], source: Vocabulary, longest: int | None, prefixes: Sequence[Sequence[int]] | None = None
) -> list[list[Passage]]:
    """Each text as token rows that fit: whole, or sentence by sentence; none where it is blank."""
    given = zip(texts, source.encode_batch(texts), [()] * len(texts) if prefixes is None else prefixes, strict=True)
    return [
        _fitting(text, ids, source, longest, place, prefix) for place, (text, ids, prefix) in enumerate(given, start=1)
    ]


def _fitting(
    text: str, ids: list[int], source: Vocabulary, longest: int | None, place: int, prefix: Sequence[int]
) -> list[Passage]:
    """One text, of which the tokens are known; `place` is for errors."""
    if not text.strip():
        return []
    whole = Passage([*ids, EOS], list(prefix), text)
    if longest is None or len(whole) <= longest:
        return [whole]
    sentences = [part for part in SENTENCE_END.split(text) if part.strip()]  # none behind a last full stop
    starts = [list(prefix), *([] for _ in sentences[1:])]  # the whole begins with it, not each sentence
    parts = [Passage([*source.encode(part), EOS], start, part) for part, start in zip(sentences, starts, strict=True)]
    for part in parts:
        if len(part) > longest:
            raise InputError(
                place,
                f"a sentence of {len(part)} tokens, the model takes at most {longest}; shorten it, or train with a "
                "larger data.max_length",
            )
    return parts


def beginning(text: str, source: Vocabulary, most: int) -> tuple[list[int], int]:
    """The tokens of a text that a summariser reads, one fewer than `most`, and how many it does not read."""
    ids = source.encode(text)
    return ids[: most - 1], max(0, len(ids) - most + 1)


def joined(parts: Sequence[Sequence[Output]]) -> list[Output]:
    """The translations of a text from those of its pieces: the best of each piece, and so on down the list."""
    if not parts:
        return [Output("", 0.0, [], [], True)]
    if len(parts) == 1:
        return list(parts[0])
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


def limit_sentence(most: int, positions: int | None) -> str | None:
    """What a search that may generate more tokens than the model has positions is limited to."""
    if positions is None or most <= positions:
        return None
    return f"search.max_length = {most}: limited to {positions} tokens, the positions that the model has"


def refuse_long_prompt(number: int, tokens: int, positions: int | None) -> None:
    """InputError for a prompt that the positions of a model cannot hold."""
    if positions is not None and tokens > positions:
        raise InputError(number, f"a prompt of {tokens} tokens, and the model has {positions} positions; shorten it")


def prompt_tokens(prompts: Sequence[str], vocabulary: Vocabulary, documents: bool) -> list[list[int]]:
    """What a language model writes on from; `documents`: it knows where texts begin."""
    rows = vocabulary.encode_batch(prompts)
    if documents:
        return [[BOS, *ids] for ids in rows]
    return [ids or vocabulary.encode("\n") or [UNK] for ids in rows]
