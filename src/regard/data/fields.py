"""The fields of an example: texts, what reads each, what stands around it, how long it may be; or plain numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from regard.data.collate import Ragged
from regard.errors import ConfigError
from regard.text.special_tokens import BOS, EOS
from regard.text.subword_sampling import Sampler
from regard.text.tokenizer import Tokenizer
from regard.text.word_cache import MANY, WordCache

MAX_RESAMPLES = 8
"""How often a segmentation that is too long is sampled again before the tokenizer's own is taken."""


@dataclass(frozen=True)
class TextField:
    """A text of each example, and how it becomes tokens."""

    tokenizer: Tokenizer
    sampler: Sampler | None = None
    """Cuts the text differently in each epoch; the store then keeps the text and encodes while training."""
    begin: bool = False
    """Put `<bos>` before the text."""
    end: bool = True
    """Put `<eos>` after the text."""
    max_length: int | None = None
    """Tokens an example may have here, `<bos>` and `<eos>` included; None: any number."""
    overlong: Literal["skip", "cut"] = "skip"
    """What happens to a longer one: the whole example is left out, or its text is cut at the end. Both are counted."""

    def __post_init__(self) -> None:
        if self.max_length is not None and self.max_length <= self.begin + self.end:
            raise ConfigError("max_length", f"expected room for at least one token of text, got {self.max_length}")

    def settings(self) -> dict[str, object]:
        """All that decides what is stored, as plain values."""
        plain = {"tokenizer": self.tokenizer.identity, "sampler": self.sampler and self.sampler.settings}
        return {**vars(self), **plain}

    def within(self, limit: int, overlong: Literal["skip", "cut"]) -> "TextField":
        """The same field with at most so many tokens; `overlong` holds where it had no limit."""
        if self.max_length is None:
            return replace(self, max_length=limit, overlong=overlong)
        return replace(self, max_length=min(limit, self.max_length))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._surround(ids) for ids in self.tokenizer.encode_batch(texts)]

    def encode_many(self, texts: Sequence[str], cache: WordCache | None = None) -> Ragged:
        """The same in arrays; large data with a cache of its words."""
        if cache is None or len(texts) < MANY:
            return Ragged.of(self.encode(texts))
        try:
            encoded = Ragged(*cache.encode(texts))
        except UnicodeEncodeError:
            return Ragged.of(self.encode(texts))  # which says what is wrong
        return encoded.surround(BOS if self.begin else None, EOS if self.end else None)

    def is_overlong(self, tokens: Sequence[int]) -> bool:
        return self.max_length is not None and len(tokens) > self.max_length

    def shorten(self, tokens: list[int]) -> list[int]:
        """The tokens, cut at the end where there are too many and that is how it is set; `<eos>` stays the last."""
        if self.max_length is None or not self.is_overlong(tokens) or self.overlong == "skip":
            return tokens
        return tokens[: self.max_length - self.end] + [EOS] * self.end

    def shorten_all(self, tokens: Ragged) -> Ragged:
        """The same for many texts."""
        if self.max_length is None or self.overlong == "skip" or tokens.lengths.max(initial=0) <= self.max_length:
            return tokens
        cut = tokens.shorten(self.max_length)
        if self.end:
            cut.tokens[np.cumsum(cut.lengths)[tokens.lengths > self.max_length] - 1] = EOS
        return cut

    def draw(self, text: str, key: str, max_tokens: int) -> list[int]:
        """A sampled segmentation of at most `max_tokens` tokens: a pure function of text and key.

        Longer ones are sampled again; after `MAX_RESAMPLES` attempts the tokenizer's own segmentation is taken.
        """
        for attempt in range(MAX_RESAMPLES):
            tokens = self._sample(text, f"{key} {attempt}")
            if len(tokens) <= max_tokens:
                return tokens
        return self.shorten(self._surround(self.tokenizer.encode(text)))

    def max_tokens(self, text: str, tokens: Sequence[int]) -> int:
        """Most tokens of sampled segmentations of a text: a quarter more than its own or a trial one has.

        Three to five in a hundred are longer and are sampled again.
        """
        trial = self._sample(text, "room")
        most = 5 * max(len(tokens), len(trial)) // 4 + 1
        return most if self.max_length is None else min(most, self.max_length)

    def _sample(self, text: str, key: str) -> list[int]:
        assert self.sampler is not None
        return self.shorten(self._surround(self.sampler.sample(text, key)))

    def _surround(self, ids: list[int]) -> list[int]:
        return [BOS] * self.begin + ids + [EOS] * self.end

    @property
    def different(self) -> int:
        """How many different numbers can stand here."""
        return self.tokenizer.vocab_size


@dataclass(frozen=True)
class NumbersField:
    """Whole numbers of each example that are made before it is stored: tokens of words, their tags, their heads."""

    different: int
    """How many different numbers can stand here, from 0 on."""
    made_with: str = ""
    """What the numbers follow from beside the files, such as the identity of a tokenizer."""
    max_length: int | None = None
    """Numbers an example may have here; one with more is left out, and counted. None: any number."""
    overlong: Literal["skip"] = "skip"
    sampler: None = None

    def settings(self) -> dict[str, object]:
        return dict(vars(self))

    def within(self, limit: int, overlong: Literal["skip", "cut"]) -> "NumbersField":
        return replace(self, max_length=limit if self.max_length is None else min(limit, self.max_length))

    def encode(self, rows: Sequence[list[int]]) -> list[list[int]]:
        return list(rows)

    def encode_many(self, rows: Sequence[list[int]], cache: WordCache | None = None) -> Ragged:
        """The same in arrays."""
        return Ragged.of(rows)

    def is_overlong(self, numbers: Sequence[int]) -> bool:
        return self.max_length is not None and len(numbers) > self.max_length

    def shorten(self, numbers: list[int]) -> list[int]:
        """The numbers as they are: what belongs together cannot be cut."""
        return numbers

    def shorten_all(self, numbers: Ragged) -> Ragged:
        """The same for many rows."""
        return numbers


AnyField = TextField | NumbersField
