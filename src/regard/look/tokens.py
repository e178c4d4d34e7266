"""Tokens as people read them: their texts, and the word that each belongs to."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from regard.look.payload import SentenceTokens
from regard.text.special_tokens import SPECIAL_TOKENS, UNK
from regard.text.tokenizer import Tokenizer

SPACE = "▁"
UNSPACED = ("CJK UNIFIED", "HIRAGANA", "KATAKANA")
"""Unicode names of characters of scripts without spaces between words begin so."""


@dataclass(frozen=True)
class Sentence:
    """Token ids with their texts; `words[i]` is the number of the word that token i belongs to."""

    ids: list[int]
    tokens: list[str]
    words: list[int]
    texts: list[str]
    """The text of each word."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> "Sentence":
        tokens = tokenizer.tokens(ids)
        words = gather_words(tokens, [i < len(SPECIAL_TOKENS) for i in ids], _spaced(tokenizer))
        texts = []
        for group in positions_of_words(words):
            text = "".join(tokens[position] for position in group)
            if "<0x" in text:  # bytes of one character
                text = tokenizer.decode([ids[position] for position in group]).strip()
            texts.append(text.strip(SPACE) or SPACE)
        return cls(list(ids), tokens, words, texts)

    @property
    def groups(self) -> list[list[int]]:
        """The positions of each word's tokens."""
        return positions_of_words(self.words)

    def payload(self) -> SentenceTokens:
        return SentenceTokens(tokens=self.tokens, words=self.words, texts=self.texts)


def spaced_words(tokenizer: Tokenizer, sentence: Sentence) -> list[tuple[int, str]]:
    """The first position and the text of each space-separated word; of each token where tokens have no spaces."""
    spaced = _spaced(tokenizer)
    positions = [at for at, token in enumerate(sentence.ids) if token >= len(SPECIAL_TOKENS) or token == UNK]
    starts = [at for at in positions if not spaced or not at or sentence.tokens[at].startswith(SPACE)]
    ends = [*starts[1:], positions[-1] + 1] if positions else []
    spans = zip(starts, ends, strict=True)
    return [(start, "".join(sentence.tokens[start:end]).strip(SPACE)) for start, end in spans]


def positions_of_words(words: Sequence[int]) -> list[list[int]]:
    positions: list[list[int]] = [[] for _ in range(words[-1] + 1 if words else 0)]
    for position, word in enumerate(words):
        positions[word].append(position)
    return positions


def gather_words(tokens: Sequence[str], special: Sequence[bool], spaced: bool) -> list[int]:
    """The word of each token: one starts at a space, a line end, a special token, and where punctuation starts or ends.

    Each token is its own word where the vocabulary has no spaces (word tokenizers), and in scripts without spaces.
    """
    words: list[int] = []
    for at, token in enumerate(tokens):
        before = tokens[at - 1] if at else ""
        starts = not spaced or special[at] or special[at - 1] or token[:1] in (SPACE, "↵", "⇥") or before == "↵"
        if not starts and before != SPACE:
            starts = _is_punctuation(token) != _is_punctuation(before) or _is_unspaced(token) or _is_unspaced(before)
        words.append((words[-1] + starts) if words else 0)
    return words


def _is_punctuation(token: str) -> bool:
    return all(unicodedata.category(character)[0] == "P" for character in token.strip(SPACE)) and token != SPACE


def _is_unspaced(token: str) -> bool:
    return unicodedata.name(token.strip(SPACE)[:1] or " ", "").startswith(UNSPACED)


@lru_cache(maxsize=16)
def _spaced(tokenizer: Tokenizer) -> bool:
    """Whether tokens include spaces."""
    return any(SPACE in token for token in tokenizer.tokens(range(tokenizer.vocab_size)))
