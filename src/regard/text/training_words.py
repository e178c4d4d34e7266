"""The words of a run's training texts, so that a word which the model never saw can be named.

    words = TrainingWords()
    words.add("The dog sleeps.")
    words.unseen("The zebra sleeps.") == ["zebra"]

They are kept in a Bloom filter: a bit array in which each word sets ten bits. A word of the training texts is always
found; another is taken for one of them in less than one case of a thousand up to four million words, and the file,
`training_words.safetensors`, has never more than 8 MiB. Case makes no difference, numbers are no words, and in scripts
without spaces each character is a word.
"""

import json
import re
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from regard.errors import DataError
from regard.files.run_folder import TRAINING_WORDS_FILE

SAFETENSORS: Any = safetensors.numpy  # its stubs leave most types out
HASHES = 10
LARGEST = 1 << 26
"""Bits of the largest filter."""
BITS_PER_WORD = 15
"""At least so many where the filter has room: with ten hashes, one in 1,300 unseen words passes for seen."""
SMALLEST = 1 << 10
PENDING = 50_000
"""Texts between spaces that are kept until they are cut into words: most come again and again."""
SETTLED = 200_000
"""Words that were taken in last and are not looked at again."""

UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u3041-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Thai, Lao, Tibetan, Burmese, Khmer, Japanese and Chinese characters."""
SEPARATORS = (
    r"\s\x00-&(-@\[-`{-\xa9\xab-\xb4\xb6-\xb9\xbb-\xbf\xd7\xf7\u05be\u060c\u061b\u061f\u066a-\u066d\u06d4\u0964\u0965"
    r"\u2000-\u200b\u2010-\u2018\u201a-\u206f\u20a0-\u20cf\u2100-\u2bff\u3000-\u303f\ufe00-\ufe0f\ufeff\uff00-\uff20"
    "\U0001f000-\U0001faff"
)
"""White space, digits, punctuation and symbols, but not the apostrophe."""
WORD = re.compile(f"[{UNSPACED}]|[^{UNSPACED}{SEPARATORS}]+")


def words_of(text: str) -> list[str]:
    words = (word.strip("'") for word in WORD.findall(normalize("NFC", text).replace("’", "'")))
    return [word for word in words if word]


def _is_joined(word: str) -> bool:
    return "'" in word


def _parts(word: str) -> list[str]:
    """What an apostrophe joins: of "l'eau" or "dog's", each part may be known from elsewhere."""
    return list(filter(None, word.split("'")))


class TrainingWords:
    """A set of words that grows by texts, and is asked which words of a text it lacks."""

    def __init__(self, bits: bytearray | None = None, count: int = 0) -> None:
        self._bits = bytearray(LARGEST // 8) if bits is None else bits
        self._pending: set[str] = set()
        self._settled: set[str] = set()
        self.count = count
        """Different words, all but for those that were taken for others."""

    def add(self, text: str) -> None:
        self._pending.update(text.split())
        if len(self._pending) > PENDING:
            self._settle()

    def add_all(self, texts: Sequence[str]) -> None:
        """Takes the words of many texts in."""
        self.add(" ".join(texts))

    def unseen(self, text: str) -> list[str]:
        """The words of a text that no added text had, each once, as they are written."""
        self._settle()
        missing: dict[str, str] = {}
        for word in words_of(text):
            key = word.casefold()
            if key not in missing and not self._has(key) and not all(map(self._has, _parts(key))):
                missing[key] = word
        return list(missing.values())

    def _settle(self) -> None:
        words = {word.casefold() for word in set(words_of(" ".join(self._pending)))} - self._settled
        for word in words.union(*map(_parts, filter(_is_joined, words))):
            self._insert(word)
        self._pending.clear()
        if len(self._settled) > SETTLED:
            self._settled.clear()
        self._settled |= words

    def _insert(self, word: str) -> None:
        new = False
        for position in self._positions(word):
            bit = 1 << (position & 7)
            new = new or not self._bits[position >> 3] & bit
            self._bits[position >> 3] |= bit
        self.count += new

    def _has(self, word: str) -> bool:
        return all(self._bits[position >> 3] >> (position & 7) & 1 for position in self._positions(word))

    def _positions(self, word: str) -> list[int]:
        """The bits of a word: h₁ + i·h₂ for i = 0 … 9, from two halves of one hash (Kirsch and Mitzenmacher 2006)."""
        digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        start, step = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little") | 1
        mask = len(self._bits) * 8 - 1
        return [(start + number * step) & mask for number in range(HASHES)]

    def save(self, folder: Path) -> None:
        """Writes the filter in the smallest size that keeps its rate of errors: halves laid upon each other."""
        self._settle()
        bits = np.frombuffer(bytes(self._bits), dtype=np.uint8)
        while len(bits) * 4 >= max(SMALLEST, self.count * BITS_PER_WORD):
            bits = bits[: len(bits) // 2] | bits[len(bits) // 2 :]
        rate = (float(np.unpackbits(bits).mean())) ** HASHES
        about = {"words": self.count, "hashes": HASHES, "false_positives": float(f"{rate:.2g}")}
        metadata = {"filter": json.dumps(about)}  # one key: several have no order
        SAFETENSORS.save_file({"bits": bits}, folder / TRAINING_WORDS_FILE, metadata=metadata)

    @classmethod
    def load(cls, folder: Path) -> "TrainingWords | None":
        """Those of a run folder; None where it has none, as runs that were imported or trained long ago."""
        file = folder / TRAINING_WORDS_FILE
        if not file.is_file():
            return None
        try:
            with SAFETENSORS.safe_open(file, "numpy") as opened:
                bits: NDArray[np.uint8] = opened.get_tensor("bits")
                about: dict[str, str] = opened.metadata() or {}
                count = int(json.loads(about["filter"])["words"])
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            problem = f"the words of the training data cannot be read ({error}); restore the file from a copy"
            raise DataError(file, problem) from None
        size = bits.size * 8
        if bits.dtype != np.uint8 or not SMALLEST <= size <= LARGEST or size & (size - 1):
            raise DataError(file, "expected a filter of training words; restore the file from a copy")
        return cls(bytearray(bits.tobytes()), count)

    def grown(self) -> "TrainingWords":
        """The same words in a filter of the largest size, to which others can be added."""
        self._settle()
        return TrainingWords(bytearray(bytes(self._bits) * (LARGEST // 8 // len(self._bits))), self.count)
