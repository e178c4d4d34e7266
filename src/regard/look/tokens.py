"""Tokens as people read them: the pieces of a text, and the word that each piece belongs to."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from regard.text.special_tokens import SPECIAL_TOKENS, UNK
from regard.text.tokenizer import Tokenizer

SPACE = "▁"
UNSPACED = ("CJK UNIFIED", "HIRAGANA", "KATAKANA")
"""How the names of characters begin whose scripts put no spaces between words."""


@dataclass(frozen=True)
class Sentence:
    """Token ids with their texts; `words[i]` is the number of the word that token i belongs to."""

    ids: list[int]
    tokens: list[str]
    words: list[int]
    texts: list[str]
    """Each word's text."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> "Sentence":
        """The tokens of a vocabulary, gathered into words."""
        tokens = tokenizer.tokens(ids)
        words = gather_words(tokens, [i < len(SPECIAL_TOKENS) for i in ids], _spaced(tokenizer))
        texts = []
        for group in places_of(words):
            text = "".join(tokens[place] for place in group)
            if "<0x" in text:  # bytes of one character, which can be read only together
                text = tokenizer.decode([ids[place] for place in group]).strip()
            texts.append(text.strip(SPACE) or SPACE)
        return cls(list(ids), tokens, words, texts)

    @property
    def groups(self) -> list[list[int]]:
        """The places of each word's tokens."""
        return places_of(self.words)

    def tree(self) -> dict[str, Any]:
        """For JSON."""
        return {"tokens": self.tokens, "words": self.words, "texts": self.texts}


def spaced_words(tokenizer: Tokenizer, sentence: Sentence) -> list[tuple[int, str]]:
    """The words that stand one space apart: where each begins, and its text. Without spaces each token is one."""
    spaced = _spaced(tokenizer)
    kept = [place for place, token in enumerate(sentence.ids) if token >= len(SPECIAL_TOKENS) or token == UNK]
    starts = [place for place in kept if not spaced or not place or sentence.tokens[place].startswith(SPACE)]
    ends = [*starts[1:], kept[-1] + 1] if kept else []
    spans = zip(starts, ends, strict=True)
    return [(start, "".join(sentence.tokens[start:end]).strip(SPACE)) for start, end in spans]


def places_of(words: Sequence[int]) -> list[list[int]]:
    """The places of each word's tokens."""
    found: list[list[int]] = [[] for _ in range(words[-1] + 1 if words else 0)]
    for place, word in enumerate(words):
        found[word].append(place)
    return found


def gather_words(tokens: Sequence[str], special: Sequence[bool], spaced: bool) -> list[int]:
    """The word of each token: one starts at a space, a line end, a special token, and where punctuation starts or ends.

    Each token is a word of its own where the vocabulary has no spaces (whole words), and in scripts written without.
    """
    words: list[int] = []
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else ""
        starts = not spaced or special[place] or special[place - 1] or token[:1] in (SPACE, "↵", "⇥") or before == "↵"
        if not starts and before != SPACE:
            starts = _is_mark(token) != _is_mark(before) or _is_unspaced(token) or _is_unspaced(before)
        words.append((words[-1] + starts) if words else 0)
    return words


def _is_mark(token: str) -> bool:
    return all(unicodedata.category(character)[0] == "P" for character in token.strip(SPACE)) and token != SPACE


def _is_unspaced(token: str) -> bool:
    """Whether a token is Chinese or Japanese, where no space tells where a word ends."""
    return unicodedata.name(token.strip(SPACE)[:1] or " ", "").startswith(UNSPACED)


@lru_cache(maxsize=16)
def _spaced(tokenizer: Tokenizer) -> bool:
    """Whether spaces are part of the vocabulary's tokens."""
    return any(SPACE in token for token in tokenizer.tokens(range(tokenizer.vocab_size)))
