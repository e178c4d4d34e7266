"""A vocabulary that is learnt already: from text to token ids and back.

    vocabulary = Vocabulary.load(folder / "tokenizer.json")
    vocabulary.decode(vocabulary.encode("Ein Haus.")) == "Ein Haus."

Nothing here but the `tokenizers` library is loaded, so that what only reads and writes text starts at once. How
vocabularies are learnt is in `tokenizer.py`.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Self

from tokenizers import Encoding
from tokenizers import Tokenizer as Core
from tokenizers.pre_tokenizers import ByteLevel

from regard.data.pipeline import BYTE_CHARACTERS
from regard.data.special import SPECIAL_TOKENS, UNK
from regard.data.tokenizer_file import read_core
from regard.errors import DataError

VISIBLE = str.maketrans({" ": "▁", "\n": "↵", "\t": "⇥"})
UNWRITTEN = frozenset(range(len(SPECIAL_TOKENS))) - {UNK}
"""Ids that `decode` leaves out; an unknown word stays visible as `<unk>`."""


@dataclass(frozen=True)
class Piece:
    """A token of a text and the characters it covers; bytes of one character all cover that character."""

    id: int
    token: str
    start: int
    end: int


class Vocabulary:
    """Tokens, and how text is cut into them; `core` is the tokenizer of the `tokenizers` library."""

    def __init__(self, core: Core) -> None:
        core.encode_special_tokens = True  # "<eos>" in a text is text
        self.core = core
        self.vocab_size = core.get_vocab_size()

    @classmethod
    def load(cls, file: Path) -> Self:
        """The vocabulary that `save` wrote; DataError for a file that is none."""
        return cls(read_core(file))

    def save(self, file: Path) -> None:
        """Writes `tokenizer.json` in the Hugging Face format, aside first."""
        aside = file.with_name(f".{file.name}.{os.getpid()}")
        aside.write_text(self.core.to_str(), encoding="utf-8")
        aside.replace(file)

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the tokenizer's JSON: equal for tokenizers that cut every text alike."""
        return sha256(self.core.to_str().encode()).hexdigest()

    def normalise(self, text: str) -> str:
        """The text as `decode` gives it back."""
        normaliser = self.core.normalizer
        normalised = normaliser.normalize_str(text) if normaliser else text
        return normalised[1:] if self._prefixed and text else normalised

    def encode(self, text: str) -> list[int]:
        """The ids of a text; no special token is added, and none is read out of the text."""
        return self._encoding(text).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, on all cores."""
        try:
            return [encoding.ids for encoding in self.core.encode_batch_fast(texts, add_special_tokens=False)]
        except TypeError:
            for text in texts:
                require_unicode(text)
            raise

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special tokens are left out, except `<unk>`."""
        self._require_known(ids)
        return self.core.decode([i for i in ids if i not in UNWRITTEN], skip_special_tokens=False)

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence of ids."""
        return [self.decode(ids) for ids in batch]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Each id's piece of text for people to read: a space is ▁, half a character its bytes."""
        self._require_known(ids)
        return [self._shown[i] for i in ids]

    def join(self, words: Sequence[str]) -> str:
        """The text that words of the vocabulary, or words from elsewhere, make."""
        return self.core.decoder.decode(list(words))

    def pieces(self, text: str) -> list[Piece]:
        """The tokens of a text with the characters each covers."""
        encoding = self._encoding(text)
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        return [Piece(i, self._shown[i], start, end) for i, (start, end) in spans]

    def _encoding(self, text: str) -> Encoding:
        try:
            return self.core.encode(text, add_special_tokens=False)
        except TypeError:
            require_unicode(text)
            raise

    @cached_property
    def _shown(self) -> list[str]:
        byte_of = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}
        byte_level = isinstance(self.core.pre_tokenizer, ByteLevel)
        named = [str(self.core.id_to_token(i)) for i in range(self.vocab_size)]
        first = len(SPECIAL_TOKENS)
        shown = [_from_bytes(token, byte_of) if byte_level else token for token in named[first:]]
        return named[:first] + [token.translate(VISIBLE) for token in shown]

    @cached_property
    def _prefixed(self) -> bool:
        return self.core.normalizer is not None and self.core.normalizer.normalize_str("x") == " x"

    def _require_known(self, ids: Sequence[int]) -> None:
        if len(ids) and not (min(ids) >= 0 and max(ids) < self.vocab_size):
            wrong = next(i for i in ids if not 0 <= i < self.vocab_size)
            raise DataError("tokenizer", f"id {wrong} is not in its vocabulary of {self.vocab_size:,} tokens")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.vocab_size:,} tokens, {self.identity[:8]})"


def _from_bytes(token: str, byte_of: dict[str, int]) -> str:
    """A byte-level piece as text; where it is no whole UTF-8, as the names of its bytes."""
    if not byte_of.keys() >= set(token):  # a piece of a foreign vocabulary, which no text is ever cut into
        return token
    data = bytes(byte_of[character] for character in token)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "".join(chr(byte) if byte < 0x80 else f"<0x{byte:02X}>" for byte in data)


def require_unicode(text: str) -> None:
    """Refuses text that cannot be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            "text", f"character {error.start + 1} is a lone surrogate (U+{ord(text[error.start]):04X}), not a character"
        ) from None
