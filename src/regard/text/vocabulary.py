"""A vocabulary that is learnt already: from text to token ids and back.

    vocabulary = Vocabulary.load(folder / "tokenizer.json")
    vocabulary.decode(vocabulary.encode("Ein Haus.")) == "Ein Haus."

Nothing here but the `tokenizers` library is loaded, so that what only reads and writes text starts at once. How
vocabularies are learnt is in `tokenizer.py`. One that was learnt elsewhere has a numbering: it cuts text and writes it
as its own library does: special tokens spelt in a text are read as such, and text need not come back as it was.
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
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import ByteLevel

from regard.errors import DataError
from regard.text.id_mapping import NONE, Numbering
from regard.text.marian import HIDDEN, MarianPieces
from regard.text.pretokenizer import BYTE_CHARACTERS
from regard.text.special_tokens import MASK, SPECIAL_TOKENS, UNK
from regard.text.tokenizer_file import read_any_core, read_core

BYTES = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}
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

    def __init__(self, core: Core, numbering: Numbering | None = None) -> None:
        core.encode_special_tokens = numbering is None or numbering.split_special  # "<eos>" in a text is text
        self.core = core
        self.numbering = numbering
        self.vocab_size = core.get_vocab_size() if numbering is None else len(numbering.theirs)

    @classmethod
    def load(cls, file: Path) -> Self:
        """The vocabulary that `save` wrote; DataError for a file that is none."""
        numbering = Numbering.load(file)
        return cls(read_core(file) if numbering is None else read_any_core(file), numbering)

    def save(self, file: Path) -> None:
        """Writes `tokenizer.json` in the Hugging Face format, aside first; beside it its numbers, where it has any."""
        if self.numbering is not None:
            self.numbering.save(file)
        aside = file.with_name(f".{file.name}.{os.getpid()}")
        aside.write_text(self.core.to_str(), encoding="utf-8")
        aside.replace(file)

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the tokenizer's JSON: equal for tokenizers that cut every text alike."""
        numbers = "" if self.numbering is None else repr(self.numbering)
        return sha256((self.core.to_str() + numbers).encode()).hexdigest()

    def normalise(self, text: str) -> str:
        """The text as `decode` gives it back."""
        if self.numbering is not None:
            return self.decode(self.encode(text))
        require_unicode(text)
        normaliser = self.core.normalizer
        normalised = normaliser.normalize_str(text) if normaliser else text
        return normalised[1:] if self._prefixed and text else normalised

    def encode(self, text: str) -> list[int]:
        """The ids of a text; no special token is added, and none is read out of the text.

        Of a vocabulary from elsewhere, those that it puts before every text come first.
        """
        return [*self.first, *self.cut(text)]

    def cut(self, text: str) -> list[int]:
        """The ids of a part of a text, without what stands before every text."""
        if self.numbering is None:
            return self._encoding(text).ids
        if self._marian is None:
            return self.numbering.to_ours(self._encoding(text).ids)
        require_unicode(text)
        return self.numbering.to_ours([number for number, _, _ in self._marian.encode(text)])

    @property
    def first(self) -> tuple[int, ...]:
        """What stands before every text: nothing, unless a vocabulary from elsewhere wants it."""
        return () if self.numbering is None else self.numbering.first

    @property
    def same(self) -> tuple[tuple[int, int], ...]:
        """Pairs of ids that are one token of a vocabulary from elsewhere, the second of which is written."""
        return () if self.numbering is None else self.numbering.same

    @property
    def mask(self) -> str:
        """How a hidden token is written in a text."""
        number = NONE if self.numbering is None else self.numbering.special[MASK]
        return SPECIAL_TOKENS[MASK] if number == NONE else str(self.core.id_to_token(number))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, on all cores."""
        cuts = self.cut_batch(texts)
        return [[*self.first, *ids] for ids in cuts] if self.first else cuts

    def cut_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many parts of texts, on all cores."""
        if len(texts) == 1 or self._marian is not None:  # sooner done than handed on
            return list(map(self.cut, texts))
        try:
            found = [encoding.ids for encoding in self.core.encode_batch_fast(texts, add_special_tokens=False)]
            return found if self.numbering is None else list(map(self.numbering.to_ours, found))
        except TypeError:
            for text in texts:
                require_unicode(text)
            raise

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special tokens are left out, except `<unk>` where the vocabulary is our own."""
        if self._marian is not None:
            return self._tidied(self._marian.decode(self._written(ids)))
        return self._tidied(self.core.decode(self._written(ids), skip_special_tokens=self.numbering is not None))

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence of ids, on all cores."""
        if len(batch) == 1 or self._marian is not None:
            return list(map(self.decode, batch))
        rows = [self._written(ids) for ids in batch]
        return list(map(self._tidied, self.core.decode_batch(rows, skip_special_tokens=self.numbering is not None)))

    def _written(self, ids: Sequence[int]) -> list[int]:
        """The core's own ids; of those of our own special tokens only `<unk>`."""
        self._require_known(ids)
        if self.numbering is not None:
            return self.numbering.to_theirs(ids)
        return [i for i in ids if i not in UNWRITTEN]

    def _tidied(self, text: str) -> str:
        return tidied(text) if self.numbering is not None and self.numbering.tidy else text

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Each id's piece of text for people to read: a space is ▁, half a character its bytes."""
        self._require_known(ids)
        return [self._shown[i] for i in ids]

    def join(self, words: Sequence[str]) -> str:
        """The text that words of the vocabulary, or words from elsewhere, make."""
        return self.core.decoder.decode(list(words))

    def pieces(self, text: str) -> list[Piece]:
        """The tokens of a text with the characters each covers."""
        if self._marian is not None:
            require_unicode(text)
            numbers = self._marian.encode(text)
            spans = zip(self.cut(text), ((start, end) for _, start, end in numbers), strict=True)
        else:
            encoding = self._encoding(text)
            ids = encoding.ids if self.numbering is None else self.numbering.to_ours(encoding.ids)
            spans = zip(ids, encoding.offsets, strict=True)
        return [Piece(i, self._shown[i], start, end) for i, (start, end) in spans]

    def _encoding(self, text: str) -> Encoding:
        try:
            return self.core.encode(text, add_special_tokens=False)
        except TypeError:
            require_unicode(text)
            raise

    @cached_property
    def _marian(self) -> MarianPieces | None:
        if self.numbering is None or not self.numbering.marian:
            return None
        return MarianPieces(self.core, self.numbering.size, self.numbering.split_special)

    @cached_property
    def names(self) -> list[str]:
        """The name of each id, no two alike; those of special tokens are ours."""
        if self.numbering is None:
            return [str(self.core.id_to_token(i)) for i in range(self.vocab_size)]
        first = len(SPECIAL_TOKENS)
        theirs = ((i, self.core.id_to_token(i)) for i in self.numbering.theirs[first:])
        return [
            *SPECIAL_TOKENS,
            *(
                f"<unnamed {i}>" if name in (None, *SPECIAL_TOKENS) else str(name).removeprefix(HIDDEN)
                for i, name in theirs
            ),
        ]

    @cached_property
    def _shown(self) -> list[str]:
        first = len(SPECIAL_TOKENS)
        return self.names[:first] + [token.translate(VISIBLE) for token in map(self._spelt, self.names[first:])]

    def _spelt(self, token: str) -> str:
        """A token as text; of pieces of words, those that begin one have their space."""
        if isinstance(self.core.model, WordPiece):
            prefix = self.core.model.continuing_subword_prefix
            return token.removeprefix(prefix) if token.startswith(prefix) else f" {token}"
        return _from_bytes(token) if self._byte_level else token

    @cached_property
    def _byte_level(self) -> bool:
        if self.numbering is None:
            return isinstance(self.core.pre_tokenizer, ByteLevel)
        return isinstance(self.core.decoder, ByteLevelDecoder)

    @cached_property
    def _prefixed(self) -> bool:
        return self.core.normalizer is not None and self.core.normalizer.normalize_str("x") == " x"

    def _require_known(self, ids: Sequence[int]) -> None:
        if len(ids) and not (min(ids) >= 0 and max(ids) < self.vocab_size):
            wrong = next(i for i in ids if not 0 <= i < self.vocab_size)
            raise DataError("tokenizer", f"id {wrong} is not in its vocabulary of {self.vocab_size:,} tokens")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.vocab_size:,} tokens, {self.identity[:8]})"


def tidied(text: str) -> str:
    """Text without the spaces that cutting at punctuation and apostrophes left, as transformers cleans it up."""
    for spaced in (" .", " ?", " !", " ,"):
        text = text.replace(spaced, spaced[1:])
    text = text.replace(" ' ", "'")
    for spaced in (" n't", " 'm", " 's", " 've", " 're"):
        text = text.replace(spaced, spaced[1:])
    return text


def _from_bytes(token: str) -> str:
    """A byte-level piece as text; where it is no whole UTF-8, as the names of its bytes."""
    if not BYTES.keys() >= set(token):  # a piece of a foreign vocabulary, which no text is ever cut into
        return token
    data = bytes(BYTES[character] for character in token)
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
