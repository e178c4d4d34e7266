"""A trained vocabulary: from text to token ids and back.

    vocabulary = Vocabulary.load(folder / "tokenizer.json")
    vocabulary.decode(vocabulary.encode("Ein Haus.")) == "Ein Haus."

Only the `tokenizers` library is loaded here, so that inference starts at once; training is in `tokenizer.py`. An
imported vocabulary has an id mapping: it encodes and decodes as its own library does, so special tokens spelt in a text
are read as such, and decoding need not be exact.
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
from regard.text.id_mapping import NONE, IdMapping
from regard.text.marian import HIDDEN, MarianPieces
from regard.text.pretokenizer import BYTE_CHARACTERS
from regard.text.special_tokens import MASK, SPECIAL_TOKENS, UNK
from regard.text.tokenizer_file import read_any_core, read_core

BYTES = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}
VISIBLE = str.maketrans({" ": "▁", "\n": "↵", "\t": "⇥"})
NOT_DECODED = frozenset(range(len(SPECIAL_TOKENS))) - {UNK}
"""Ids that `decode` leaves out; an unknown word stays visible as `<unk>`."""


@dataclass(frozen=True)
class Piece:
    """A token of a text and the characters it covers; bytes of one character all cover that character."""

    id: int
    token: str
    start: int
    end: int


class Vocabulary:
    """Text to token ids and back; `core` is the tokenizer of the `tokenizers` library."""

    def __init__(self, core: Core, id_mapping: IdMapping | None = None) -> None:
        core.encode_special_tokens = id_mapping is None or id_mapping.split_special  # "<eos>" in a text is text
        self.core = core
        self.id_mapping = id_mapping
        self.vocab_size = core.get_vocab_size() if id_mapping is None else len(id_mapping.foreign_ids)

    @classmethod
    def load(cls, file: Path) -> Self:
        """The vocabulary that `save` wrote; DataError for any other file."""
        id_mapping = IdMapping.load(file)
        return cls(read_core(file) if id_mapping is None else read_any_core(file), id_mapping)

    def save(self, file: Path) -> None:
        """Writes `tokenizer.json` in the Hugging Face format, and the id mapping beside it, if there is one."""
        if self.id_mapping is not None:
            self.id_mapping.save(file)
        aside = file.with_name(f".{file.name}.{os.getpid()}")
        aside.write_text(self.core.to_str(), encoding="utf-8")
        aside.replace(file)

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the tokenizer's JSON: equal for tokenizers that encode every text alike."""
        mapping = "" if self.id_mapping is None else self.id_mapping.signature
        return sha256((self.core.to_str() + mapping).encode()).hexdigest()

    def normalise(self, text: str) -> str:
        """The text as `decode` gives it back."""
        if self.id_mapping is not None:
            return self.decode(self.encode(text))
        require_unicode(text)
        normaliser = self.core.normalizer
        normalised = normaliser.normalize_str(text) if normaliser else text
        return normalised[1:] if self._prefixed and text else normalised

    def encode(self, text: str, *, prefix: bool = True) -> list[int]:
        """The ids of a text; no special token is added but the prefix of an imported vocabulary.

        `prefix=False` is for a part of a text.
        """
        first = self.prefix_ids if prefix else ()
        if self.id_mapping is None:
            return [*first, *self._encoding(text).ids]
        if self._marian is None:
            return [*first, *self.id_mapping.from_foreign(self._encoding(text).ids)]
        require_unicode(text)
        return [*first, *self.id_mapping.from_foreign([token_id for token_id, _, _ in self._marian.encode(text)])]

    @property
    def prefix_ids(self) -> tuple[int, ...]:
        """Special tokens that an imported vocabulary puts before every text."""
        return () if self.id_mapping is None else self.id_mapping.first

    @property
    def same(self) -> tuple[tuple[int, int], ...]:
        """Pairs of ids that are one token of an imported vocabulary; the model generates the second."""
        return () if self.id_mapping is None else self.id_mapping.same

    @property
    def mask(self) -> str:
        """How `<mask>` is spelt in a text."""
        foreign_id = NONE if self.id_mapping is None else self.id_mapping.special[MASK]
        return SPECIAL_TOKENS[MASK] if foreign_id == NONE else str(self.core.id_to_token(foreign_id))

    def encode_batch(self, texts: Sequence[str], *, prefix: bool = True) -> list[list[int]]:
        """The ids of many texts, on all cores."""
        if len(texts) == 1 or self._marian is not None:  # the thread pool does not pay
            return [self.encode(text, prefix=prefix) for text in texts]
        try:
            rows = [encoding.ids for encoding in self.core.encode_batch_fast(texts, add_special_tokens=False)]
        except TypeError:
            for text in texts:
                require_unicode(text)
            raise
        if self.id_mapping is not None:
            rows = list(map(self.id_mapping.from_foreign, rows))
        return [[*self.prefix_ids, *ids] for ids in rows] if prefix and self.prefix_ids else rows

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special tokens are left out, except `<unk>` of a vocabulary that was not imported."""
        if self._marian is not None:
            return self._cleaned(self._marian.decode(self._decodable(ids)))
        return self._cleaned(self.core.decode(self._decodable(ids), skip_special_tokens=self.id_mapping is not None))

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence of ids, on all cores."""
        if len(batch) == 1 or self._marian is not None:
            return list(map(self.decode, batch))
        rows = [self._decodable(ids) for ids in batch]
        return list(map(self._cleaned, self.core.decode_batch(rows, skip_special_tokens=self.id_mapping is not None)))

    def _decodable(self, ids: Sequence[int]) -> list[int]:
        """The ids of `core`, without our special tokens but `<unk>`."""
        self._require_known(ids)
        if self.id_mapping is not None:
            return self.id_mapping.to_foreign(ids)
        return [i for i in ids if i not in NOT_DECODED]

    def _cleaned(self, text: str) -> str:
        return clean_up_spaces(text) if self.id_mapping is not None and self.id_mapping.tidy else text

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Each id's piece of text, readable: a space is ▁, half a character its bytes."""
        self._require_known(ids)
        return [self._shown[i] for i in ids]

    def join(self, words: Sequence[str]) -> str:
        """The text that tokens, or words outside the vocabulary, decode to."""
        return self.core.decoder.decode(list(words))

    def pieces(self, text: str) -> list[Piece]:
        """The tokens of a text with the characters each covers."""
        if self._marian is not None:
            require_unicode(text)
            pieces = self._marian.encode(text)
            spans = zip(self.encode(text, prefix=False), ((start, end) for _, start, end in pieces), strict=True)
        else:
            encoding = self._encoding(text)
            ids = encoding.ids if self.id_mapping is None else self.id_mapping.from_foreign(encoding.ids)
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
        if self.id_mapping is None or not self.id_mapping.marian:
            return None
        return MarianPieces(self.core, self.id_mapping.size, self.id_mapping.split_special)

    @cached_property
    def names(self) -> list[str]:
        """The unique name of each id; special tokens have our names."""
        if self.id_mapping is None:
            return [str(self.core.id_to_token(i)) for i in range(self.vocab_size)]
        first = len(SPECIAL_TOKENS)
        foreign = ((i, self.core.id_to_token(i)) for i in self.id_mapping.foreign_ids[first:])
        return [
            *SPECIAL_TOKENS,
            *(
                f"<unnamed {i}>" if name in (None, *SPECIAL_TOKENS) else str(name).removeprefix(HIDDEN)
                for i, name in foreign
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
        if self.id_mapping is None:
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


def clean_up_spaces(text: str) -> str:
    """Text without spaces before punctuation and apostrophes: transformers' clean_up_tokenization_spaces."""
    for spaced in (" .", " ?", " !", " ,"):
        text = text.replace(spaced, spaced[1:])
    text = text.replace(" ' ", "'")
    for spaced in (" n't", " 'm", " 's", " 've", " 're"):
        text = text.replace(spaced, spaced[1:])
    return text


def _from_bytes(token: str) -> str:
    """A byte-level piece as text; where it is no whole UTF-8, as the names of its bytes."""
    if not BYTES.keys() >= set(token):  # a piece of an imported vocabulary that no text contains
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
