"""Large data encoded word by word, each distinct word once.

A byte-level pre-tokenizer begins a new piece at each space that stands before a word, so the tokens of a text are those
of its words, each with the space before it. Words are told apart by Arrow, on whole arrays; the library encodes those
that are new, many in one text with line feeds between them, which are tokens of their own.
"""

from collections.abc import Sequence
from importlib import import_module
from itertools import chain

import numpy as np
from jaxtyping import Int32, Int64
from tokenizers import Tokenizer as Core
from tokenizers import models

from regard.text.pretokenizer import BYTE_CHARACTERS, byte_level, describe
from regard.text.vocabulary import Vocabulary

MANY = 4096
"""Texts from which on words are worth telling apart."""
MOST_WORDS = 300_000
"""Words that are kept at a time, beside as many before them: about 100 MB."""
WORDS_AT_ONCE = 128
"""New words that are encoded as one text."""
TEXTS_AT_ONCE = 1024
"""Texts that are encoded whole at a time: the library needs much memory for each."""

Encoded = tuple[Int32[np.ndarray, " tokens"], Int64[np.ndarray, " texts"]]
"""The tokens of texts, one after another, and how many each has."""


class WordCache:
    """Encodes many texts with a byte-level tokenizer; the words met last are kept with their tokens."""

    def __init__(self, core: Core, prefix_space: bool) -> None:
        self._core, self._prefix_space = core, prefix_space
        self._line_feed: int = core.get_vocab()[BYTE_CHARACTERS[ord("\n")]]
        self._tokens: dict[str, bytes] = {}
        self._before: dict[str, bytes] = {}

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "WordCache | None":
        """The cache of a vocabulary; None where its words do not stand by themselves."""
        for prefix_space in (False, True) if vocabulary.id_mapping is None else ():
            if describe(vocabulary.core) == describe(byte_level(models.BPE(), prefix_space=prefix_space)):
                return cls(vocabulary.core, prefix_space)
        return None

    def encode(self, texts: Sequence[str]) -> Encoded:
        """What the tokenizer gives for each text by itself."""
        lines = np.fromiter((text[-1:] == "\n" and text[-2:-1].strip() != "" for text in texts), bool, len(texts))
        if not lines.any():
            return self._encode(texts)
        bare = [text[:-1] if is_line else text for text, is_line in zip(texts, lines, strict=True)]
        tokens, lengths = self._encode(bare)
        return np.insert(tokens, np.cumsum(lengths)[lines], self._line_feed), lengths + lines

    def _encode(self, texts: Sequence[str]) -> Encoded:
        words, indices, bounds = _distinct_words(texts)
        odd = _odd_words(words)
        if odd:
            return self._partly(texts, np.add.reduceat(np.isin(indices, odd), bounds[:-1]) > 0)
        spaced = [f" {word}" for word in words]
        if not self._prefix_space:
            first, position = np.unique(indices[bounds[:-1]], return_inverse=True)
            indices[bounds[:-1]] = len(words) + position
            spaced += [words[index] for index in first]
        tokens, lengths = self._of_words(spaced)
        ends = np.cumsum(lengths)
        return _joined(tokens, (ends - lengths)[indices], lengths[indices], bounds)

    def _partly(self, texts: Sequence[str], odd: np.ndarray) -> Encoded:
        """Where some texts have white space other than one space between words: these by the library."""
        rest = [text for text, is_odd in zip(texts, odd, strict=True) if not is_odd]
        whole = [text for text, is_odd in zip(texts, odd, strict=True) if is_odd]
        encoded: list[list[int]] = []
        for start in range(0, len(whole), TEXTS_AT_ONCE):
            encodings = self._core.encode_batch_fast(whole[start : start + TEXTS_AT_ONCE], add_special_tokens=False)
            encoded += [encoding.ids for encoding in encodings]
        parts = [_arrays(encoded), self._encode(rest)] if rest else [_arrays(encoded)]
        tokens, lengths = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        starts = np.cumsum(lengths) - lengths
        order = np.argsort(np.argsort(~odd, kind="stable"), kind="stable")
        return _joined(tokens, starts[order], lengths[order], np.arange(len(texts) + 1))

    def _of_words(self, words: Sequence[str]) -> Encoded:
        """The tokens of words, each with the space before it, if there is one."""
        if len(self._tokens) > MOST_WORDS:
            self._tokens, self._before = {}, self._tokens
        cached = list(map(self._tokens.get, words))
        missing = [word for word, tokens in zip(words, cached, strict=True) if tokens is None]
        self._tokens.update((word, self._before[word]) for word in missing if word in self._before)
        self._add([word for word in missing if word not in self._tokens])
        parts = [tokens or self._tokens[word] for word, tokens in zip(words, cached, strict=True)]
        lengths = np.fromiter(map(len, parts), np.int64, len(parts)) // 4
        return np.frombuffer(b"".join(parts), np.int32), lengths

    def _add(self, words: Sequence[str]) -> None:
        """Encodes new words, many as one text."""
        if not words:
            return
        groups = ["\n".join(words[start : start + WORDS_AT_ONCE]) for start in range(0, len(words), WORDS_AT_ONCE)]
        if self._prefix_space:  # which the tokenizer puts there
            groups = [group[1:] for group in groups]
        encodings = self._core.encode_batch_fast(groups, add_special_tokens=False)
        ids = np.fromiter(chain.from_iterable([*one.ids, self._line_feed] for one in encodings), np.int32)
        ends = np.flatnonzero(ids == self._line_feed)
        data, starts = ids.tobytes(), [0, *(4 * (ends[:-1] + 1)).tolist()]
        parts = [data[start:end] for start, end in zip(starts, (4 * ends).tolist(), strict=True)]
        self._tokens.update(zip(words, parts, strict=True))


def _distinct_words(
    texts: Sequence[str],
) -> tuple[list[str], Int64[np.ndarray, " words"], Int64[np.ndarray, " bounds"]]:
    """The words between spaces, each once; which of them the texts have; where each text begins."""
    pyarrow = import_module("pyarrow")  # here, as it is slow to load and only large data needs it
    options = import_module("pyarrow.compute").SplitPatternOptions(" ")
    split = pyarrow.compute.call_function("split_pattern", [pyarrow.array(texts, pyarrow.string())], options)
    coded = split.flatten().dictionary_encode()
    indices = coded.indices.to_numpy().astype(np.int64)
    return coded.dictionary.to_pylist(), indices, split.offsets.to_numpy().astype(np.int64)


def _odd_words(words: Sequence[str]) -> list[int]:
    """Words that are empty or hold white space, as where two spaces follow one another."""
    joined = " ".join(words)
    if "" not in words and " ".join(joined.split()) == joined:
        return []
    return [index for index, word in enumerate(words) if word.split() != [word]]


def _arrays(rows: Sequence[Sequence[int]]) -> Encoded:
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths


def _joined(tokens: np.ndarray, starts: np.ndarray, lengths: np.ndarray, bounds: np.ndarray) -> Encoded:
    """The tokens of texts whose parts `bounds[i] : bounds[i + 1]` stand at `starts`, with their `lengths`."""
    ends = np.concatenate([[0], np.cumsum(lengths)])
    positions = np.arange(int(ends[-1])) + np.repeat(starts - ends[:-1], lengths)
    return tokens[positions], np.diff(ends[bounds])
