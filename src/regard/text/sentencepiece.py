"""A SentencePiece model file read and written without its library.

The file is a protocol buffer: a list of pieces with their scores, and how text is normalised. Only what decides how
text is tokenised is read; sizes are checked before anything is believed.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from regard.errors import DataError

LARGEST_FILE = 64_000_000  # bytes; a quarter of a million pieces take about a tenth of it
MOST_PIECES = 2**21
LONGEST_PIECE = 256  # characters

Kind = Literal["normal", "unknown", "control", "user", "unused", "byte"]
KINDS: dict[int, Kind] = {1: "normal", 2: "unknown", 3: "control", 4: "user", 5: "unused", 6: "byte"}
UNIGRAM, BPE = 1, 2
NAMED = (("bos_token", 41, 1, b"<s>"), ("eos_token", 42, 2, b"</s>"), ("unk_token", 40, 0, b"<unk>"))
"""Name, field, default id and default piece of the trainer's special tokens; the piece is five fields further."""
Value = TypeVar("Value", int, bytes)
VARINT, EIGHT_BYTES, COUNTED, FOUR_BYTES = 0, 1, 2, 5


@dataclass(frozen=True)
class Subword:
    text: str
    score: float = 0.0
    kind: Kind = "normal"


@dataclass(frozen=True)
class SentencePieceModel:
    subwords: list[Subword]
    algorithm: int = UNIGRAM
    byte_fallback: bool = False
    characters: bytes = field(default=b"", repr=False)
    """The compiled table of character replacements."""
    dummy_prefix: bool = True
    """Whether a text begins with a space."""
    squeeze: bool = True
    """Whether spaces at the ends, and all but one of several, are taken away."""
    escape: bool = True
    """Whether spaces become ▁."""
    suffix: bool = False
    """Whether ▁ stands after words."""
    denormalised: bool = False
    """Whether characters are replaced again in decoded text."""
    unknown_id: int = 0
    """The id of the unknown piece that the trainer noted."""
    unknown_piece: str = "<unk>"
    named: tuple[tuple[str, int, str], ...] = ()
    """Name, id (-1: none) and piece of the special tokens that the trainer noted."""


def read_sentencepiece(file: Path) -> SentencePieceModel:
    """The model in a `.spm` or `.model` file; DataError where it is none, or none that the library could run."""
    if (size := file.stat().st_size) > LARGEST_FILE:
        raise DataError(file, f"{size:,} bytes, but a SentencePiece model has at most {LARGEST_FILE:,}")
    try:
        model = _model(file.read_bytes())
    except (ValueError, IndexError, struct.error, KeyError) as error:
        raise DataError(file, f"not a SentencePiece model ({error})") from None
    if problem := _problem(model):
        raise DataError(file, f"not a SentencePiece model that regard can use: {problem}")
    return model


def _model(data: bytes) -> SentencePieceModel:
    subwords: list[Subword] = []
    trainer: dict[int, int | bytes] = {}
    normaliser: dict[int, int | bytes] = {}
    denormaliser: dict[int, int | bytes] = {}
    messages = {2: trainer, 3: normaliser, 5: denormaliser}
    for number, value in fields(data):
        if number not in (1, 2, 3, 5):
            continue
        if not isinstance(value, bytes):
            raise ValueError(f"field {number} is a number, expected a message")
        if number == 1:
            subwords.append(_subword(value))
        else:
            messages[number].update(fields(value))
        if len(subwords) > MOST_PIECES:
            raise ValueError(f"more than {MOST_PIECES:,} pieces")
    return SentencePieceModel(
        subwords,
        algorithm=_field(trainer, 3, UNIGRAM),
        byte_fallback=bool(_field(trainer, 35, 0)),
        characters=_field(normaliser, 2, b""),
        dummy_prefix=bool(_field(normaliser, 3, 1)),
        squeeze=bool(_field(normaliser, 4, 1)),
        escape=bool(_field(normaliser, 5, 1)),
        suffix=bool(_field(trainer, 24, 0)),
        denormalised=bool(_field(denormaliser, 2, b"")),
        unknown_id=_signed(_field(trainer, 40, 0)),
        unknown_piece=_field(trainer, 45, b"<unk>").decode(),
        named=tuple(
            (key, _signed(_field(trainer, at, default)), _field(trainer, at + 5, piece).decode() or piece.decode())
            for key, at, default, piece in NAMED
        ),
    )


def _subword(data: bytes) -> Subword:
    values = dict(fields(data))
    (score,) = struct.unpack("<f", _field(values, 2, bytes(4)))
    return Subword(_field(values, 1, b"").decode(), score, KINDS[_field(values, 3, 1)])


def _signed(value: int) -> int:
    """A 32-bit number, which negative ones are written as 64 bits of."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _field(values: dict[int, int | bytes], number: int, default: Value) -> Value:
    """A field of a message, or what its absence means; ValueError where it is of another type than that."""
    value = values.get(number, default)
    if not isinstance(value, type(default)):
        raise ValueError(f"field {number} has another type than expected")
    return value


def _problem(model: SentencePieceModel) -> str | None:
    if model.algorithm not in (UNIGRAM, BPE):
        return "it cuts into words or characters; expected unigram or BPE"
    if sum(one.kind == "unknown" for one in model.subwords) != 1:
        return "expected one unknown piece"
    if len({one.text for one in model.subwords}) != len(model.subwords):
        return "a piece stands in it twice"
    if not all(one.text for one in model.subwords):
        return "a piece is empty"
    if not all(math.isfinite(one.score) for one in model.subwords):
        return "a score is no number"
    longest = max(len(one.text) for one in model.subwords)
    return f"a piece of {longest:,} characters, at most {LONGEST_PIECE}" if longest > LONGEST_PIECE else None


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a protocol-buffer message: varints as int, everything else as bytes."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, position = _varint(data, position)
        elif wire in (COUNTED, FOUR_BYTES, EIGHT_BYTES):
            size = {FOUR_BYTES: 4, EIGHT_BYTES: 8}.get(wire)
            if size is None:
                size, position = _varint(data, position)
            if position + size > len(data):
                raise ValueError("it ends too early")
            value, position = data[position : position + size], position + size
        else:
            raise ValueError(f"field {number} is of an unknown type")
        yield number, value


def write_unigram(pieces: list[tuple[str, float]], characters: bytes) -> bytes:
    """A unigram model's file with the usual special pieces first; `characters` is its table of replacements."""
    usual: list[Subword] = [
        Subword("<unk>", 0.0, "unknown"),
        *(Subword(one, 0.0, "control") for one in ("<s>", "</s>")),
    ]
    numbers = {kind: number for number, kind in KINDS.items()}
    data = b""
    for one in [*usual, *(Subword(text, score) for text, score in pieces)]:
        text = one.text.encode()
        data += _message(1, _message(1, text) + b"\x15" + struct.pack("<f", one.score) + bytes([24, numbers[one.kind]]))
    return data + _message(2, bytes([24, UNIGRAM])) + _message(3, _message(2, characters))


def _message(number: int, content: bytes) -> bytes:
    """A field whose size stands before it."""
    size, left = b"", len(content)
    while left >= 128:
        size, left = size + bytes([left & 127 | 128]), left >> 7
    return bytes([number << 3 | COUNTED]) + size + bytes([left]) + content


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A varint of up to ten bytes, seven bits in each, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError("a number has no end")
