"""One side of a MarianTokenizer: a SentencePiece unigram model whose pieces have the ids of another vocabulary.

transformers looks the *surface* of each piece up in vocab.json, which both languages share. So a run of characters that
this side's model does not know has an id if the other side has that piece, and a piece without an id is unknown. No
`tokenizer.json` can say this, so it is done here; `tokenizer.json` only stores pieces, scores and replaced characters.
"""

import base64
import json
import re
import struct
from collections.abc import Sequence
from functools import cached_property

from tokenizers import Tokenizer as Core
from tokenizers.models import Unigram

SPACE = "▁"
HIDDEN = "\0"
"""Stands before names in vocab.json that are no piece of this side's model."""
LANGUAGE = re.compile(r">>.*?<<", re.DOTALL)


class MarianPieces:
    """Tokenises and decodes as MarianTokenizer does; `size` is the number of names in vocab.json."""

    def __init__(self, core: Core, size: int, split_special: bool = False) -> None:
        tree = json.loads(core.to_str())
        self.special = {token["content"]: token["id"] for token in tree["added_tokens"]}
        self.unknown: int = tree["model"]["unk_id"]
        pieces = [(HIDDEN + name if name in self.special else name, score) for name, score in tree["model"]["vocab"]]
        self._model = Unigram(pieces, unk_id=self.unknown)  # no text becomes a special token by its pieces
        self.ids = {name.removeprefix(HIDDEN): number for name, number in core.get_vocab().items() if number < size}
        self.names = {number: name for name, number in self.ids.items()}
        self.table = CharacterTable(_characters(tree["normalizer"]))
        names = sorted(self.special, key=len, reverse=True)
        self._split = None if split_special else re.compile("|".join(map(re.escape, names)))

    def encode(self, text: str) -> list[tuple[int, int, int]]:
        """Id, start and end of each token of a text."""
        if self._split is None:
            return self._chunk(text, 0, len(text))
        tokens: list[tuple[int, int, int]] = []
        end = 0
        for match in self._split.finditer(text):
            tokens += self._chunk(text, end, match.start())
            tokens.append((self.special[match.group()], match.start(), match.end()))
            end = match.end()
        return tokens + self._chunk(text, end, len(text))

    def _chunk(self, text: str, start: int, end: int) -> list[tuple[int, int, int]]:
        """The tokens of text between special tokens: a language code, if it begins with one, and pieces."""
        tokens: list[tuple[int, int, int]] = []
        if code := LANGUAGE.match(text, start, end):
            tokens.append((self.ids.get(code.group(), self.unknown), start, code.end()))
            start = code.end()
        normalised, origins = self.table.normalise(text[start:end])
        if not normalised:
            return tokens
        position = 0
        for piece in self._model.tokenize(normalised.replace(HIDDEN, "\ufffd")):
            after = position + len(piece.value)
            span = start + origins[position], start + origins[after]
            tokens.append((self.ids.get(normalised[position:after], self.unknown), *span))
            position = after
        return tokens

    def decode(self, ids: Sequence[int]) -> str:
        special = {*self.special.values()}
        names = [self.names.get(number, "") for number in ids if number not in special]
        return "".join(names).replace(SPACE, " ").strip()


class CharacterTable:
    """SentencePiece's compiled table of character replacements: a double array over UTF-8, then the replacements."""

    def __init__(self, data: bytes) -> None:
        data = data or bytes(4)
        if len(data) < 4:
            raise ValueError("the table of replaced characters ends too early")
        (size,) = struct.unpack_from("<I", data)
        if size % 4 or 4 + size > len(data):
            raise ValueError("the table of replaced characters has another size than it says")
        self._units: tuple[int, ...] = struct.unpack_from(f"<{size // 4}I", data, 4)
        self._texts = data[4 + size :]

    def normalise(self, text: str) -> tuple[str, list[int]]:
        """The text as the model reads it, and for each of its characters, and its end, the position in the text."""
        result, origins = [SPACE], [0]
        after_space, position = True, 0
        while position < len(text):
            replaced, count = self._prefix(text, position)
            for character in replaced:
                if character == " " and after_space:
                    continue
                result.append(SPACE if character == " " else character)
                origins.append(position)
                after_space = False
            after_space = after_space or replaced.endswith(" ")
            position += count
        normalised = "".join(result).rstrip(SPACE)
        return normalised, [*origins[: len(normalised)], len(text)]

    def _prefix(self, text: str, start: int) -> tuple[str, int]:
        """The replacement of the longest known beginning, and how many characters that is."""
        if not self._units or (text[start] in self._plain and text[start + 1 : start + 2].isascii()):
            return text[start], 1
        best, length = None, 0
        position = _offset(self._units[0])
        for read, byte in enumerate(text[start : start + LONGEST].encode(), 1):
            position ^= byte
            if not self._labelled(position, byte):
                break
            unit = self._units[position]
            position ^= _offset(unit)
            if unit >> 8 & 1 and position < len(self._units):
                best, length = self._units[position] & ((1 << 31) - 1), read
        if best is None:
            return text[start], 1
        matched = text[start : start + LONGEST].encode()[:length].decode()
        end = self._texts.find(b"\0", best)
        return self._texts[best : len(self._texts) if end < 0 else end].decode(), len(matched)

    @cached_property
    def _plain(self) -> frozenset[str]:
        """Printable characters of ASCII that stay as they are before another character of ASCII."""
        return frozenset(chr(first) for first in range(0x20, 0x7F) if self._stays(first))

    def _stays(self, first: int) -> bool:
        position = _offset(self._units[0]) ^ first
        if not self._labelled(position, first):
            return True
        unit = self._units[position]
        position ^= _offset(unit)
        return not unit >> 8 & 1 and not any(self._labelled(position ^ second, second) for second in range(0x80))

    def _labelled(self, position: int, byte: int) -> bool:
        return position < len(self._units) and self._units[position] & (1 << 31 | 0xFF) == byte


LONGEST = 32
"""Characters of a sequence that is replaced, at most."""


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & (1 << 9)) >> 6)


def _characters(normalizer: dict[str, str] | None) -> bytes:
    return base64.b64decode(normalizer["precompiled_charsmap"]) if normalizer else b""
