"""Parquet files, read a few rows at a time; packed ones (.parquet.gz) are unpacked to a temporary file first."""

# pyright: basic, reportMissingTypeStubs=false
# pyarrow comes without types.

import errno
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

from typing_extensions import override

from regard.data.columns import ColumnError, Record, column_index
from regard.data.examples import SourceLocation
from regard.data.findings import Findings
from regard.data.lines import READ_ERRORS, compression_of, open_stream, why_unreadable
from regard.data.readers.registry import RecordFormat
from regard.errors import nearest

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 128
READ_AHEAD = 1 << 16  # bytes of a column; without it a whole row group is read at once
MAX_UNPACKED, MAX_RATIO = 1 << 26, 100  # bytes that a packed Parquet file may unpack to, and times its own size
NOT_TEXT = b"\xff"  # no UTF-8 text: stands for a text that Parquet holds and that cannot be decoded


class ParquetFormat(RecordFormat):
    name, suffixes = "parquet", (".parquet", ".pq")

    @override
    def records(self, file: Path, columns: Sequence[str | int] | None, findings: Findings) -> Iterator[Record]:
        """The rows with the given columns only, a few at a time; a column given by number is keyed by it."""
        with ExitStack() as stack:
            try:
                stream = _seekable(file, stack)
            except READ_ERRORS as error:
                return findings.add_once("unreadable", file, None, why_unreadable(file, error))
            yield from _parquet_rows(file, stream, columns, findings)


def _seekable(file: Path, stack: ExitStack) -> IO[bytes]:
    """The file itself; one packed as a whole is first unpacked to a temporary file, as Parquet is read from its end."""
    stream = stack.enter_context(open_stream(file))
    if not compression_of(file):
        return stream
    unpacked = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    limit = max(MAX_UNPACKED, MAX_RATIO * file.stat().st_size)
    while block := stream.read(READ_AHEAD):
        if unpacked.tell() + len(block) > limit:
            raise OSError(errno.EFBIG, f"it unpacks to more than {limit:,} bytes, as no Parquet file would")
        unpacked.write(block)
    return unpacked


def _parquet_rows(
    file: Path, stream: IO[bytes], columns: Sequence[str | int] | None, findings: Findings
) -> Iterator[Record]:
    import pyarrow as pa  # here, as only tables in Parquet need it and it takes long to load
    from pyarrow import parquet as pq

    number = 0
    try:
        parquet = pq.ParquetFile(stream, buffer_size=READ_AHEAD, pre_buffer=False)
        keys = _top_columns(parquet.schema_arrow.names, columns)
        for batch in parquet.iter_batches(ROWS_AT_ONCE, columns=sorted(set(keys.values())), use_threads=False):
            values = {key: _python_values(batch.column(name)) for key, name in keys.items()}
            for row in range(batch.num_rows):
                number += 1
                yield {key: column[row] for key, column in values.items()}, SourceLocation(str(file), number)
    except ColumnError as problem:
        findings.add_once("column", file, None, str(problem))
    except (OSError, pa.ArrowException) as error:
        problem = f"not a Parquet file, or one that is cut off or damaged ({str(error).splitlines()[0]})"
        findings.add_once("unreadable", file, number + 1 if number else None, problem)


def _top_columns(names: list[str], columns: Sequence[str | int] | None) -> dict[str | int, str]:
    """Which of the file's columns to read, by the key that `pick` will look for."""
    if columns is None:
        return {name: name for name in names if names.count(name) == 1}
    keys: dict[str | int, str] = {}
    for column in columns:
        if isinstance(column, int):
            keys[column] = names[column_index(column, names, len(names))]
            continue
        name = column if column in names else column.partition(".")[0]
        if name not in names:
            raise ColumnError(f"no column '{column}'; {nearest(name, names)}")
        column_index(name, names, len(names))  # refuses a name that two columns have
        keys[name] = name
    return keys


def _python_values(column: "pa.Array") -> list[object]:
    try:
        return column.to_pylist()
    except UnicodeDecodeError:
        return [_python_value(scalar) for scalar in column]


def _python_value(scalar: "pa.Scalar") -> object:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return NOT_TEXT
