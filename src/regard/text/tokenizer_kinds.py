"""The kinds of vocabulary: the settings of each, and how it is learnt from text with the `tokenizers` library.

Texts are read once, one at a time; what is kept of them are the counts of their words. The same texts always give the
same vocabulary, to the byte.
"""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Literal

from pydantic import Field
from tokenizers import Tokenizer as Core
from tokenizers import models, trainers

from regard.config import Family
from regard.text import pretokenizer as pipeline
from regard.text.pretokenizer import BYTE_CHARACTERS, BYTE_TOKENS, Normalisation, WordBoundary
from regard.text.special_tokens import SPECIAL_TOKENS, UNK
from regard.text.subword_sampling import BpeDropout, Sampler, UnigramSampling

SMALLEST = len(SPECIAL_TOKENS) + 256  # with these, every text can be written byte by byte
LARGEST = 2**21  # eight times the largest in use; the library takes memory for all of them before it counts a word


class TokenizerConfig(Family):
    """Settings that every kind of vocabulary has."""

    joint: bool = True
    """One vocabulary for source and target; otherwise each side learns its own."""
    lowercase: bool = False
    """Turn all text into lower case; what is decoded is lower case, too."""
    normalise: Normalisation = "none"
    """Unicode normal form that text is brought to first; decoding gives the normalised text."""

    sample: float = Field(1.0, gt=0, le=1)
    """Share of the training examples that the vocabulary is trained on, evenly spread."""

    def train(self, texts: Iterable[str]) -> Core:
        """The tokenizer trained on texts."""
        raise TypeError(f"{type(self).__name__} must train its tokenizer")

    def sampler(self, core: Core) -> Sampler | None:
        """What cuts text differently in each epoch, where the settings ask for it."""
        return None


class BpeConfig(TokenizerConfig):
    """Byte-pair encoding on bytes: the most frequent pairs grow together; nothing is unknown, decoding is exact."""

    kind: Literal["bpe"] = "bpe"
    size: int = Field(8000, ge=SMALLEST, le=LARGEST)
    """Tokens in the vocabulary at most, with the 7 special ones and the 256 bytes."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """BPE-dropout: chance that a merge is left out while training, so that words are cut in many ways; 0.1 is usual."""
    prefix_space: bool = False
    """Put a space before each text and take it away again, so that a word is the same token at the start as inside."""

    def train(self, texts: Iterable[str]) -> Core:
        """The tokenizer learnt from the texts."""
        return train_bpe(
            texts,
            size=self.size,
            prefix_space=self.prefix_space,
            normalise=self.normalise,
            lowercase=self.lowercase,
        )

    def sampler(self, core: Core) -> Sampler | None:
        """BPE-dropout, where it is set."""
        return BpeDropout(core, dropout=self.dropout) if self.dropout else None


def train_bpe(
    texts: Iterable[str],
    *,
    size: int = 8000,
    prefix_space: bool = False,
    normalise: Normalisation = "none",
    lowercase: bool = False,
) -> Core:
    """Learns byte-level BPE; a small corpus may give fewer than `size` tokens."""
    core = pipeline.byte_level(
        models.BPE(unk_token=SPECIAL_TOKENS[UNK]), prefix_space=prefix_space, normalise=normalise, lowercase=lowercase
    )
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[*SPECIAL_TOKENS], initial_alphabet=[*BYTE_CHARACTERS], show_progress=False
    )
    core.train_from_iterator(texts, trainer)
    return core


class UnigramConfig(TokenizerConfig):
    """Unigram language model on bytes: the cut with the likeliest pieces; nothing is unknown, decoding is exact."""

    kind: Literal["unigram"] = "unigram"
    size: int = Field(8000, ge=SMALLEST, le=LARGEST)
    """Tokens in the vocabulary at most, with the 7 special ones and the 256 bytes."""
    alpha: float | None = Field(None, gt=0)
    """Subword regularisation: training draws cuts with probability^alpha; 0.2 is usual. None: always the best cut."""
    prefix_space: bool = False
    """Put a space before each text and take it away again, so that a word is the same token at the start as inside."""

    def train(self, texts: Iterable[str]) -> Core:
        """The tokenizer learnt from the texts."""
        return train_unigram(
            texts,
            size=self.size,
            prefix_space=self.prefix_space,
            normalise=self.normalise,
            lowercase=self.lowercase,
        )

    def sampler(self, core: Core) -> Sampler | None:
        """Subword regularisation, where it is set."""
        return None if self.alpha is None else UnigramSampling(core, alpha=self.alpha)


def train_unigram(
    texts: Iterable[str],
    *,
    size: int = 8000,
    prefix_space: bool = False,
    normalise: Normalisation = "none",
    lowercase: bool = False,
) -> Core:
    """Learns a unigram vocabulary; a small corpus may give fewer than `size` tokens."""

    def pipe(model: models.Model) -> Core:
        return pipeline.byte_level(model, prefix_space=prefix_space, normalise=normalise, lowercase=lowercase)

    learnt = pipe(models.Unigram())
    trainer = trainers.UnigramTrainer(
        vocab_size=size,
        special_tokens=[*SPECIAL_TOKENS],
        initial_alphabet=[*BYTE_CHARACTERS],
        unk_token=SPECIAL_TOKENS[UNK],
        show_progress=False,
    )
    learnt.train_from_iterator(texts, trainer)
    pieces = json.loads(learnt.to_str())["model"]["vocab"]
    return pipe(models.Unigram(_settled(pieces, size), unk_id=UNK))


def _settled(pieces: list[tuple[str, float]], size: int) -> list[tuple[str, float]]:
    """The same pieces in an order, and with scores, that do not depend on how the library's hash tables lay.

    The library sums in the order of a randomly seeded table, so scores differ in their last digits from run to run:
    four decimals are kept. To characters that it never saw, or dropped, it gives the lowest score plus a ten-thousandth
    more for each, in the table's order: here all of them have the lowest score. Where there are hardly more tokens
    than bytes, the library keeps too many pieces: here the likeliest fill the size.
    """
    specials, learnt = pieces[: len(SPECIAL_TOKENS)], pieces[len(SPECIAL_TOKENS) :]
    lowest = min(score for _, score in learnt)
    band = lowest + 1e-4 * (len(BYTE_CHARACTERS) + 1)
    scores = {piece: lowest if len(piece) == 1 and score < band else score for piece, score in learnt}
    ranked = sorted(((piece, round(score, 4)) for piece, score in scores.items()), key=lambda item: (-item[1], item[0]))
    best = {piece for piece, _ in [item for item in ranked if len(item[0]) > 1][: size - SMALLEST]}
    kept = [item for item in ranked if len(item[0]) == 1 or item[0] in best]
    return [(token, 0.0) for token, _ in specials] + kept


class WordConfig(TokenizerConfig):
    """Whole words; decoding is exact up to the amount of whitespace and words outside the vocabulary (`<unk>`)."""

    kind: Literal["word"] = "word"
    size: int | None = Field(None, gt=len(SPECIAL_TOKENS))
    """Tokens in the vocabulary at most, with the 7 special ones; the most frequent words are kept. None: no limit."""
    min_count: int = Field(1, ge=1)
    """Words that occur less often than this in the training text are unknown."""
    split: WordBoundary = "spaces"
    """Where words end: at spaces only (for text that is cut into words already), or also around punctuation marks."""

    def train(self, texts: Iterable[str]) -> Core:
        """The tokenizer learnt from the texts."""
        return train_words(
            texts,
            size=self.size,
            min_count=self.min_count,
            split=self.split,
            normalise=self.normalise,
            lowercase=self.lowercase,
        )


def train_words(
    texts: Iterable[str],
    *,
    size: int | None = None,
    min_count: int = 1,
    split: WordBoundary = "spaces",
    normalise: Normalisation = "none",
    lowercase: bool = False,
) -> Core:
    """Takes the most frequent words; `<unk>` in the text is the unknown word."""

    def pipe(model: models.Model) -> Core:
        return pipeline.words(model, boundary=split, normalise=normalise, lowercase=lowercase)

    counting = pipe(models.WordLevel(unk_token=SPECIAL_TOKENS[UNK]))
    trainer = trainers.WordLevelTrainer(vocab_size=2**31, min_frequency=min_count, show_progress=False)
    counting.train_from_iterator(texts, trainer)
    counted = counting.get_vocab()
    frequent = sorted(counted, key=counted.__getitem__)
    return pipe(models.WordLevel(_numbered(frequent, size), unk_token=SPECIAL_TOKENS[UNK]))


class CharConfig(TokenizerConfig):
    """Single characters; one outside the vocabulary is written as its bytes, so decoding is exact."""

    kind: Literal["char"] = "char"
    size: int | None = Field(None, ge=SMALLEST, le=LARGEST)
    """Tokens in the vocabulary at most, with the 7 special ones and the 256 bytes; frequent ones are kept."""
    min_count: int = Field(1, ge=1)
    """Characters that occur less often than this in the training text are written as bytes."""

    def train(self, texts: Iterable[str]) -> Core:
        """The tokenizer learnt from the texts."""
        return train_characters(
            texts, size=self.size, min_count=self.min_count, normalise=self.normalise, lowercase=self.lowercase
        )


def train_characters(
    texts: Iterable[str],
    *,
    size: int | None = None,
    min_count: int = 1,
    normalise: Normalisation = "none",
    lowercase: bool = False,
) -> Core:
    """Takes the most frequent characters, after the 256 bytes."""
    normaliser = pipeline.characters(models.BPE(), normalise=normalise, lowercase=lowercase).normalizer
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normaliser.normalize_str(text) if normaliser else text)
    frequent = sorted((c for c, n in counts.items() if n >= min_count), key=lambda c: (-counts[c], c))
    vocabulary = _numbered([*BYTE_TOKENS, *frequent], size)
    model = models.BPE(vocab=vocabulary, merges=[], unk_token=SPECIAL_TOKENS[UNK], byte_fallback=True)
    return pipeline.characters(model, normalise=normalise, lowercase=lowercase)


class ByteConfig(TokenizerConfig):
    """The 256 bytes of UTF-8, nothing learnt: byte b is token 7 + b."""

    kind: Literal["byte"] = "byte"

    def train(self, texts: Iterable[str]) -> Core:
        """The tokenizer; the texts are not looked at."""
        return byte_tokenizer(normalise=self.normalise, lowercase=self.lowercase)


def byte_tokenizer(*, normalise: Normalisation = "none", lowercase: bool = False) -> Core:
    """Each byte of the text's UTF-8 is a token."""
    model = models.BPE(vocab=_numbered([*BYTE_CHARACTERS]), merges=[], unk_token=SPECIAL_TOKENS[UNK])
    return pipeline.byte_level(model, words=False, normalise=normalise, lowercase=lowercase)


def _numbered(tokens: list[str], size: int | None = None) -> dict[str, int]:
    """Ids in order, the special tokens first; a special token among the others is not counted twice."""
    return {token: i for i, token in enumerate(list(dict.fromkeys([*SPECIAL_TOKENS, *tokens]))[:size])}
