"""Writes examples to files in every format and compression; the other half of the readers' round trips."""

import csv
import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

COMPRESSIONS = ("", ".gz", ".zst")


def write_bytes(file: Path, content: bytes) -> Path:
    """Writes a file, packed as the end of its name says."""
    if file.suffix == ".zst":
        with pa.output_stream(str(file), compression="zstd") as stream:
            stream.write(content)
    else:
        file.write_bytes(gzip.compress(content, 1) if file.suffix == ".gz" else content)
    return file


def write_text(file: Path, text: str) -> Path:
    return write_bytes(file, text.encode())


def write_lines(file: Path, lines: Sequence[str]) -> Path:
    return write_text(file, "".join(f"{line}\n" for line in lines))


def table_lines(format: str, rows: Sequence[Sequence[object]], names: Sequence[str]) -> list[str]:
    """Each row as it stands in a text file, line end included; one that holds line ends spans several lines."""
    if format == "tsv":
        return ["\t".join(map(str, row)) + "\n" for row in rows]
    if format == "jsonl":
        return [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=len(rows) % 2 == 0) + "\n" for row in rows]
    return [_csv_line(row) for row in rows]


def table_bytes(format: str, rows: Sequence[Sequence[object]], names: Sequence[str], header: bool = False) -> bytes:
    if format == "parquet":
        buffer = io.BytesIO()
        columns = {name: [row[index] for row in rows] for index, name in enumerate(names)}
        pq.write_table(pa.table(columns), buffer, row_group_size=3)
        return buffer.getvalue()
    head = [names] if header and format != "jsonl" else []
    return "".join(table_lines(format, [*head, *rows], names)).encode()


def _csv_line(row: Sequence[object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n", quoting=csv.QUOTE_ALL).writerow(row)
    return buffer.getvalue()
