"""The kinds of vocabulary: the settings of each, and how it is trained with the `tokenizers` library.

Texts are read once, one at a time; only the counts of their words are kept. The same texts always give the same
vocabulary, to the byte.
"""

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable
from typing import Literal

from pydantic import Field
from tokenizers import Tokenizer as Core
from tokenizers import models, trainers

from regard.config import Family
from regard.text.pretokenizer import (
    BYTE_CHARACTERS,
    BYTE_TOKENS,
    Normalisation,
    WordBoundary,
    byte_level,
    characters,
    words,
)
from regard.text.special_tokens import SPECIAL_TOKENS, UNK
from regard.text.subword_sampling import BpeDropout, Sampler, UnigramSampling

SMALLEST = len(SPECIAL_TOKENS) + 256  # with these, every text can be encoded byte by byte
LARGEST = 2**21  # eight times the largest in use; the library allocates all of them before it counts a word


class TokenizerConfig(Family):
    """Settings that every kind of vocabulary has."""

    joint: bool = True
    """One vocabulary for source and target; otherwise each side has its own."""
    lowercase: bool = False
    """Turn all text into lower case; decoded text is lower case, too."""
    normalise: Normalisation = "none"
    """Unicode normal form that text is brought to first; decoding gives the normalised text."""

    sample: float = Field(1.0, gt=0, le=1)
    """Share of the training examples that the vocabulary is trained on, evenly spread."""

    @abstractmethod
    def train(self, texts: Iterable[str]) -> Core:
        """The tokenizer trained on the texts; a small corpus may give fewer than `size` tokens."""

    def sampler(self, core: Core) -> Sampler | None:
        """Subword regularisation, where the settings ask for it."""
        return None


class BpeConfig(TokenizerConfig):
    """Byte-level byte-pair encoding: merges the most frequent pairs; nothing is unknown, decoding is exact."""

    kind: Literal["bpe"] = "bpe"
    size: int = Field(8000, ge=SMALLEST, le=LARGEST)
    """Tokens in the vocabulary at most, with the 7 special ones and the 256 bytes."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """BPE-dropout: probability that a merge is dropped while training, so that words are segmented in many ways; 0.1
    is usual."""
    prefix_space: bool = False
    """Put a space before each text and take it away again, so that a word is the same token at the start as inside."""

    def train(self, texts: Iterable[str]) -> Core:
        core = byte_level(
            models.BPE(unk_token=SPECIAL_TOKENS[UNK]),
            prefix_space=self.prefix_space,
            normalise=self.normalise,
            lowercase=self.lowercase,
        )
        trainer = trainers.BpeTrainer(
            vocab_size=self.size,
            special_tokens=[*SPECIAL_TOKENS],
            initial_alphabet=[*BYTE_CHARACTERS],
            show_progress=False,
        )
        core.train_from_iterator(texts, trainer)
        return core

    def sampler(self, core: Core) -> Sampler | None:
        return BpeDropout(core, dropout=self.dropout) if self.dropout else None


class UnigramConfig(TokenizerConfig):
    """Byte-level unigram language model: the likeliest segmentation; nothing is unknown, decoding is exact."""

    kind: Literal["unigram"] = "unigram"
    size: int = Field(8000, ge=SMALLEST, le=LARGEST)
    """Tokens in the vocabulary at most, with the 7 special ones and the 256 bytes."""
    alpha: float | None = Field(None, gt=0)
    """Subword regularisation: training samples segmentations with probability^alpha; 0.2 is usual. None: always the
    likeliest."""
    prefix_space: bool = False
    """Put a space before each text and take it away again, so that a word is the same token at the start as inside."""

    def train(self, texts: Iterable[str]) -> Core:
        trained = self._core(models.Unigram())
        trainer = trainers.UnigramTrainer(
            vocab_size=self.size,
            special_tokens=[*SPECIAL_TOKENS],
            initial_alphabet=[*BYTE_CHARACTERS],
            unk_token=SPECIAL_TOKENS[UNK],
            show_progress=False,
        )
        trained.train_from_iterator(texts, trainer)
        pieces = json.loads(trained.to_str())["model"]["vocab"]
        return self._core(models.Unigram(_deterministic(pieces, self.size), unk_id=UNK))

    def _core(self, model: models.Model) -> Core:
        return byte_level(model, prefix_space=self.prefix_space, normalise=self.normalise, lowercase=self.lowercase)

    def sampler(self, core: Core) -> Sampler | None:
        return None if self.alpha is None else UnigramSampling(core, alpha=self.alpha)


def _deterministic(pieces: list[tuple[str, float]], size: int) -> list[tuple[str, float]]:
    """The same pieces in an order and with scores that do not depend on the library's hash seeds.

    The library sums in the order of a randomly seeded table, so scores differ in their last digits from run to run:
    four decimals remain. To characters that it never saw, or dropped, it gives the lowest score plus a ten-thousandth
    more for each, in the table's order: here all of them have the lowest score. Where there are hardly more tokens
    than bytes, the library keeps too many pieces: here the likeliest fill the size.
    """
    specials, trained = pieces[: len(SPECIAL_TOKENS)], pieces[len(SPECIAL_TOKENS) :]
    lowest = min(score for _, score in trained)
    band = lowest + 1e-4 * (len(BYTE_CHARACTERS) + 1)
    scores = {piece: lowest if len(piece) == 1 and score < band else score for piece, score in trained}
    ranked = sorted(((piece, round(score, 4)) for piece, score in scores.items()), key=lambda item: (-item[1], item[0]))
    best = {piece for piece, _ in [item for item in ranked if len(item[0]) > 1][: size - SMALLEST]}
    return [(token, 0.0) for token, _ in specials] + [item for item in ranked if len(item[0]) == 1 or item[0] in best]


class WordConfig(TokenizerConfig):
    """Whole words; decoding is exact up to the amount of whitespace and words outside the vocabulary (`<unk>`)."""

    kind: Literal["word"] = "word"
    size: int | None = Field(None, gt=len(SPECIAL_TOKENS))
    """Tokens in the vocabulary at most, with the 7 special ones: the most frequent words. None: no limit."""
    min_count: int = Field(1, ge=1)
    """Words that occur less often than this in the training text are unknown."""
    split: WordBoundary = "spaces"
    """Where words end: at spaces only (for text that is tokenised already), or also around punctuation marks."""

    def train(self, texts: Iterable[str]) -> Core:
        counting = self._core(models.WordLevel(unk_token=SPECIAL_TOKENS[UNK]))
        trainer = trainers.WordLevelTrainer(vocab_size=2**31, min_frequency=self.min_count, show_progress=False)
        counting.train_from_iterator(texts, trainer)
        ranks = counting.get_vocab()
        frequent = sorted(ranks, key=ranks.__getitem__)
        return self._core(models.WordLevel(_token_ids(frequent, self.size), unk_token=SPECIAL_TOKENS[UNK]))

    def _core(self, model: models.Model) -> Core:
        return words(model, boundary=self.split, normalise=self.normalise, lowercase=self.lowercase)


class CharConfig(TokenizerConfig):
    """Single characters; one outside the vocabulary becomes its bytes, so decoding is exact."""

    kind: Literal["char"] = "char"
    size: int | None = Field(None, ge=SMALLEST, le=LARGEST)
    """Tokens in the vocabulary at most, with the 7 special ones and the 256 bytes: the most frequent characters."""
    min_count: int = Field(1, ge=1)
    """Characters that occur less often than this in the training text become bytes."""

    def train(self, texts: Iterable[str]) -> Core:
        normaliser = self._core(models.BPE()).normalizer
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(normaliser.normalize_str(text) if normaliser else text)
        frequent = sorted((c for c, n in counts.items() if n >= self.min_count), key=lambda c: (-counts[c], c))
        vocabulary = _token_ids([*BYTE_TOKENS, *frequent], self.size)
        return self._core(models.BPE(vocab=vocabulary, merges=[], unk_token=SPECIAL_TOKENS[UNK], byte_fallback=True))

    def _core(self, model: models.Model) -> Core:
        return characters(model, normalise=self.normalise, lowercase=self.lowercase)


class ByteConfig(TokenizerConfig):
    """The 256 bytes of UTF-8, nothing to train: byte b is token 7 + b."""

    kind: Literal["byte"] = "byte"

    def train(self, texts: Iterable[str]) -> Core:
        model = models.BPE(vocab=_token_ids([*BYTE_CHARACTERS]), merges=[], unk_token=SPECIAL_TOKENS[UNK])
        return byte_level(model, words=False, normalise=self.normalise, lowercase=self.lowercase)


def _token_ids(tokens: list[str], size: int | None = None) -> dict[str, int]:
    """Ids in order, the special tokens first; a special token among the others is not counted twice."""
    return {token: i for i, token in enumerate(list(dict.fromkeys([*SPECIAL_TOKENS, *tokens]))[:size])}
