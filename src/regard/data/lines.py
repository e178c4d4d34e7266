"""Files as streams of bytes, packed or not, and as lines of text that end at a line feed and nowhere else."""

import errno
import gzip
import io
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import chain, count, repeat
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple, Protocol, cast

from regard.data.findings import Findings
from regard.errors import ConfigError, DataError, InputError

LONGEST_LINE = 1 << 26  # bytes; a file without line ends must not fill the memory
BLOCK = 1 << 16
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
READ_ERRORS = (OSError, EOFError, zlib.error)
"""Whatever opening or reading a file can raise; `why_unreadable` turns it into a sentence."""

Compression = Literal["gzip", "zstd"]
COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}

Line = tuple[int, str, str]
"""Number from one, text, and the line end: a line feed, `\\r\\n`, or nothing at the end of a file."""


class _Stream(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class LineBlock(NamedTuple):
    """Lines that follow one another: the number of the first, their texts, and the end of the last."""

    first: int
    texts: list[str]
    end: str

    @property
    def lines(self) -> Iterator[Line]:
        """One by one; all but the last end in a line feed."""
        ends = chain(repeat("\n", len(self.texts) - 1), [self.end])
        return zip(count(self.first), self.texts, ends, strict=False)


STANDARD_INPUT = Path("standard input")
"""What messages call it."""
OLD_MAC = "its lines end in \\r alone, as on old Macs; convert it: tr '\\r' '\\n'"
NUL = "holds a NUL character: is it text, and UTF-8?"


class Input(NamedTuple):
    """Something for a model to work on, and where it comes from: a text, mostly; or a sentence of a treebank."""

    text: Any
    file: str
    line: int

    @property
    def origin(self) -> tuple[str, int]:
        """File and line, as `regard.errors.located` takes them."""
        return self.file, self.line


def compression_of(file: str | PurePath) -> Compression | None:
    """How a file is compressed, by the end of its name."""
    return COMPRESSIONS.get(PurePath(file).suffix.lower())


def uncompressed_name(file: str | PurePath) -> PurePath:
    """`train.en` for `train.en.gz`."""
    file = PurePath(file)
    return file.with_suffix("") if compression_of(file) else file


def open_stream(file: Path) -> io.BufferedReader:
    """The bytes of a file, unpacked; opening and reading raise READ_ERRORS, also where packed data is cut off."""
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder")
    match compression_of(file):
        case "gzip":
            return io.BufferedReader(gzip.GzipFile(file, "rb"), BLOCK)  # type: ignore[arg-type]
        case "zstd":
            import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]  # slow to load, and few files need it

            return io.BufferedReader(pa.input_stream(str(file), compression="zstd"), BLOCK)  # type: ignore[arg-type]
        case None:
            return io.BufferedReader(io.FileIO(file), BLOCK)


def unreadable(files: Iterable[Path], findings: Findings) -> bool:
    """Reports files that can be read only once, or never end: training data is read more than once."""
    problems = {file: problem for file in files if (problem := _not_regular(file))}
    for file, problem in problems.items():
        findings.add_once("unreadable", file, None, problem)
    return bool(problems)


def _not_regular(file: Path) -> str:
    """Why a file cannot be read twice: it is a pipe or a device; empty where it can, or where there is none."""
    try:
        mode = file.stat().st_mode
    except OSError:
        return ""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    what = "a pipe" if stat.S_ISFIFO(mode) else "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a socket"
    return f"expected a file, got {what}, which cannot be read twice; write its content to a file first"


def why_unreadable(file: Path, error: Exception) -> str:
    """The sentence for one of READ_ERRORS."""
    if isinstance(error, FileNotFoundError):
        return f"no such file{_similar(file)}"
    if isinstance(error, IsADirectoryError):
        return "expected a file, got a folder"
    if isinstance(error, PermissionError):
        return "may not be read (permission denied)"
    if isinstance(error, EOFError) or "Truncated" in str(error):
        return "cut off: the packed data ends too early; fetch or pack the file again"
    if compression_of(file):
        return f"not a {file.suffix} file, or a damaged one ({error}); fetch or pack the file again"
    return f"cannot be read ({getattr(error, 'strerror', None) or error})"


def lines(file: Path, findings: Findings, crlf_is_odd: bool = True) -> Iterator[Line]:
    """The lines of a text file.

    A byte order mark at the start is left out, and both it and `\\r\\n` are reported as warnings. What cannot be read
    is an error; where `findings` lets reading go on, a line that is not UTF-8 comes with its bytes spelt out, so that
    two files stay aligned.
    """
    for block in line_blocks(file, findings, crlf_is_odd):
        yield from block.lines


def line_blocks(file: Path, findings: Findings, crlf_is_odd: bool = True) -> Iterator[LineBlock]:
    """The same lines, many at a time; those about which something is reported, one at a time."""
    try:
        stream = open_stream(file)
    except READ_ERRORS as error:
        return findings.add_once("unreadable", file, None, why_unreadable(file, error))
    with stream:
        yield from _stream_blocks(stream, file, findings, crlf_is_odd)


def input_lines(file: Path | None) -> Iterator[Input]:
    """The texts of a file, or of standard input, for a model to work on, by the same rules as training data."""
    findings, name = Findings(), STANDARD_INPUT if file is None else file
    if file is None and sys.stdin is None:  # as after `<&-` in a shell
        raise DataError(name, "is closed; name a file, or give texts a line each")
    if file is None:
        blocks = _stream_blocks(cast(_Stream, sys.stdin.buffer), name, findings)
    else:
        blocks = line_blocks(file, findings)
    for number, text, _ in chain.from_iterable(block.lines for block in blocks):
        if "\0" in text:
            findings.add("nul", name, number, NUL)
        yield Input(text, str(name), number)


def plain_text(text: object) -> str:
    """A text that was given as such, without the byte order mark before it; ValueError where it is none."""
    if not isinstance(text, str):
        raise ValueError(f"expected a text, got a value of type {type(text).__name__}")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("holds half a surrogate pair, which is no text")
    return text.removeprefix("\ufeff")


def plain_texts(texts: object) -> list[str]:
    """Texts that were given in a list; InputError for one that is no text."""
    if isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Iterable):
        got = "one text" if isinstance(texts, str) else f"a value of type {type(cast(object, texts)).__name__}"
        raise ConfigError("texts", f"expected a list of texts, got {got}")
    plain: list[str] = []
    for number, text in enumerate(cast(Iterable[object], texts), start=1):
        try:
            plain.append(plain_text(text))
        except ValueError as problem:
            raise InputError(number, str(problem)) from None
    return plain


def _stream_blocks(stream: _Stream, file: Path, findings: Findings, crlf_is_odd: bool = True) -> Iterator[LineBlock]:
    """The lines of an open file, which messages call `file`."""
    number = 0
    try:
        for data in _whole_lines(stream):
            if (texts := _plain_texts(data, number == 0)) is not None:
                yield LineBlock(number + 1, texts, "\n" if data.endswith(b"\n") else "")
                number += len(texts)
                continue
            for raw in io.BytesIO(data):
                number += 1
                if len(raw) > LONGEST_LINE:
                    findings.add_once("unreadable", file, number, f"a line of more than {LONGEST_LINE:,} bytes")
                    return
                text, end = _split_end(_decode(file, raw, number, findings))
                if number == 1 and not end and text.count("\r") > 1:
                    findings.add_once("unreadable", file, None, OLD_MAC)
                    return
                if crlf_is_odd and (end == "\r\n" or "\r" in text):
                    _report_returns(file, number, text, findings)
                yield LineBlock(number, [text], end)
    except READ_ERRORS as error:
        findings.add_once("unreadable", file, number + 1 if number else None, why_unreadable(file, error))


def _whole_lines(stream: _Stream) -> Iterator[bytes]:
    """What is read at once of a file, up to the last line feed in it; no line is much longer than may be."""
    rest, size = list[bytes](), 0
    while data := stream.read1(BLOCK):
        cut = data.rfind(b"\n") + 1
        if cut:
            yield b"".join([*rest, data[:cut]])
            rest, size = [data[cut:]], len(data) - cut
        else:
            rest.append(data)
            size += len(data)
        if size > LONGEST_LINE:
            break
    if size:
        yield b"".join(rest)


def _plain_texts(data: bytes, is_first: bool) -> list[str] | None:
    """The texts of lines about which there is nothing to say; None otherwise."""
    if b"\r" in data or len(data) > LONGEST_LINE or (is_first and data.startswith(BYTE_ORDER_MARK)):
        return None
    try:
        texts = data.decode().split("\n")
    except UnicodeDecodeError:
        return None
    return texts[:-1] if data.endswith(b"\n") else texts


def _split_end(line: str) -> tuple[str, str]:
    if line.endswith("\r\n"):
        return line[:-2], "\r\n"
    return (line[:-1], "\n") if line.endswith("\n") else (line, "")


def _decode(file: Path, raw: bytes, number: int, findings: Findings) -> str:
    if number == 1 and raw.startswith(BYTE_ORDER_MARK):
        findings.add_once("bom", file, 1, "starts with a byte order mark, which is left out")
        raw = raw[3:]
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        byte, wide = raw[error.start], number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff")
        guess = "utf-16" if wide else "latin1"
        problem = f"not UTF-8 (byte 0x{byte:02x} at position {error.start + 1}); if it is {guess}, convert it: "
        findings.add_once("encoding", file, number, f"{problem}iconv -f {guess} -t utf-8")
        return raw.decode(errors="backslashreplace")


def _report_returns(file: Path, number: int, text: str, findings: Findings) -> None:
    if "\r" in text:
        findings.add_once("separator", file, number, "holds a carriage return, at which other tools break the line")
    else:
        findings.add_once("crlf", file, number, "ends in \\r\\n as on Windows; the \\r is left out")


def _similar(file: Path) -> str:
    """Names the file in the same folder that was probably meant."""
    try:
        neighbours = [entry.name for entry in file.parent.iterdir()]
    except OSError:
        return f"; there is no folder {file.parent}"
    close = get_close_matches(file.name, neighbours, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
