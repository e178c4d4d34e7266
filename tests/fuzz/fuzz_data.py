"""Random small data of every kind that recipes read, and how many examples it holds where that is certain.

Most files are clean. The others have what files of strangers have: blank lines, byte order marks, Windows line ends,
rows with a missing cell, other encodings, cut-off archives, no lines at all.
"""

import csv
import gzip
import io
import json
import struct
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

WORDS = [
    "the", "a", "dog", "cat", "house", "tree", "sees", "sleeps", "because", "it", "is", "tired", "old", "red", "not",
    "and", "with", "street", "animal", "chair", "water", "small", ".", ",", "!", "?",
]  # fmt: skip
RARE = [
    "Straße", "naïve", "日本語", "привет", "🙂", "e\u0301", "שלום", "x" * 40, "3.14", "<unk>", "</s>", "##ing", "▁a",
    "a_b",
]  # fmt: skip
ODD = ["\u2028", "\u200b", "\ufeff", "\x07", "\t", "\r", "\u0000", '"', "\\", "\xa0", "\u202e", "\x85"]
LABELS = ["good", "bad", "1", "neutral", "très bien", "true", "-"]
UPOS = ["NOUN", "VERB", "DET", "ADJ", "PUNCT"]

HARMLESS = {"bom", "crlf", "rare", "no-final-newline", "one"}
"""Oddities that change no number of examples."""
TEXT_ODDITIES = (
    "bom",
    "crlf",
    "rare",
    "no-final-newline",
    "one",
    "blank",
    "empty",
    "odd",
    "latin-1",
    "long",
    "cut",
    "spaces",
)
TABLE_ODDITIES = (*TEXT_ODDITIES, "ragged", "null")

Row = tuple[str, ...]


@dataclass
class Split:
    """One split: how a recipe names it, and what a reader must count."""

    source: dict[str, Any]
    count: int | None
    rows: list[Row] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@dataclass
class Corpus:
    """The splits of one task."""

    content: str
    splits: dict[str, Split]
    odd: bool

    def texts(self, random: Random) -> list[str]:
        """A few input lines."""
        rows = [row[0] for split in self.splits.values() for row in split.rows]
        known = [text for text in rows if isinstance(text, str) and "\n" not in text] or ["the dog"]
        return [random.choice(known) for _ in range(random.randint(1, 6))]


def sentence(random: Random, longest: int = 7, rare: bool = False) -> str:
    """Some words with single spaces between them."""
    words = WORDS + RARE if rare else WORDS
    return " ".join(random.choice(words) for _ in range(random.randint(1, longest)))


def make_corpus(random: Random, folder: Path, content: str, *, clean: bool) -> Corpus:
    """Files for one task in a folder; clean ones hold what their splits say, exactly."""
    sizes = {"train": random.randint(6, 40), "valid": random.randint(1, 8), "test": random.randint(1, 8)}
    oddity = None if clean else random.choice(TABLE_ODDITIES)
    writer = random.choice(WRITERS[content])
    labels = random.sample(LABELS, random.randint(1, 4) if random.random() < 0.2 else random.randint(2, 4))
    splits = {}
    for name, size in sizes.items():
        if name == "test" and random.random() < 0.4:
            continue
        if name == "valid" and random.random() < 0.08:
            continue
        affected = oddity if oddity and random.random() < 0.7 else None
        rows = _rows(random, content, size, labels, affected)
        splits[name] = writer(random, folder, name, rows, content, affected)
        splits[name].rows = rows
        if writer is _conllu:  # all splits show the same of their sentences
            shown = {
                key: splits["train"].source[key]
                for key in ("source", "target", "text", "tags")
                if key in splits["train"].source
            }
            splits[name].source = {"file": splits[name].source["file"], **shown}
    return Corpus(content, splits, oddity is not None)


def _rows(random: Random, content: str, size: int, labels: Sequence[str], oddity: str | None) -> list[Row]:
    size = 1 if oddity == "one" else size
    rare = oddity == "rare" or random.random() < 0.2
    rows: list[Row] = []
    for number in range(size):
        text = sentence(random, rare=rare)
        if content in ("labelled", "images"):
            label = labels[number % len(labels)]  # each label occurs in training, whatever the size of the split
            rows.append((text, label))
        elif content in ("pairs", "captions"):
            rows.append((text, sentence(random, rare=rare)))
        else:
            rows.append((text,))
    return [_changed(random, row, oddity) for row in rows]


def _changed(random: Random, row: Row, oddity: str | None) -> Row:
    if oddity not in ("blank", "odd", "long", "spaces") or random.random() < 0.6:
        return row
    cell = random.randrange(len(row))
    words = row[cell].split()
    new = {
        "blank": "",
        "spaces": " " * random.choice([1, 3, 9000]),
        "odd": "".join(random.sample(ODD, 2)).join(words),
        "long": " ".join(words * random.choice([40, 200])),
    }[oddity]
    return (*row[:cell], new, *row[cell + 1 :])


def _count(rows: Sequence[Row], oddity: str | None) -> int | None:
    if oddity not in HARMLESS and oddity is not None:
        return None
    return len(rows)


def _encoded(random: Random, text: str, oddity: str | None) -> bytes:
    """A text as bytes, with what goes wrong between editors and disks."""
    if oddity == "empty":
        return random.choice([b"", b"\n", b"\xef\xbb\xbf"])
    if oddity == "crlf":
        text = text.replace("\n", "\r\n")
    if oddity == "no-final-newline":
        text = text.removesuffix("\n")
    if oddity == "latin-1":
        return ("Stra\xdfe " + text).encode("latin-1", errors="replace")
    if oddity == "bom":
        return b"\xef\xbb\xbf" + text.encode()
    data = text.encode(errors="surrogatepass")
    return data[: len(data) // 2] if oddity == "cut" else data


def _packed(random: Random, path: Path, data: bytes, oddity: str | None) -> Path:
    """Writes a file, compressed now and then."""
    packing = random.choice(["", "", "", ".gz", ".zst"])
    if packing == ".gz":
        data = gzip.compress(data)
    if packing == ".zst":
        data = pa.compress(data, codec="zstd", asbytes=True)
    if packing and oddity == "cut":
        data = data[: max(1, len(data) - 7)]
    path = path.with_name(path.name + packing)
    path.write_bytes(data)
    return path


def _two_files(random: Random, folder: Path, name: str, rows: list[Row], content: str, oddity: str | None) -> Split:
    ends = random.choice([("en", "de"), ("src", "tgt"), ("a.txt", "b.txt")])
    names = []
    for side, end in enumerate(ends):
        lines = [" ".join(row[side].split("\n")) for row in rows]
        if oddity == "ragged" and side:
            lines = lines[:-1]
        data = _encoded(random, "".join(f"{line}\n" for line in lines), oddity if oddity != "bom" or side else None)
        names.append(_packed(random, folder / f"{name}.{end}", data, oddity).name)
    count = None if oddity == "one" and not rows else _count(rows, oddity)
    return Split({"source": names[0], "target": names[1]}, count, paths=names)


def _columns(content: str) -> tuple[str, ...]:
    return {
        "pairs": ("source", "target"), "labelled": ("text", "label"), "text": ("text",), "images": ("image", "label"),
        "captions": ("image", "target"),
    }[content]  # fmt: skip


def _table(random: Random, folder: Path, name: str, rows: list[Row], content: str, oddity: str | None) -> Split:
    """A .tsv or .csv file, with or without a header."""
    columns = _columns(content)
    kind = random.choice(["tsv", "csv"])
    header = random.random() < 0.6
    titles = list(random.choice([columns, tuple(f"{column}s" for column in columns)]))
    cells = [[*row, *(["more"] if header and len(titles) > len(row) else [])] for row in rows]
    if oddity == "ragged" and cells:
        cells[len(cells) // 2] = random.choice([[], ["x"] * 5, cells[0][:1]])
    text = _delimited([titles, *cells] if header else cells, kind)
    path = _packed(random, folder / f"{name}.{kind}", _encoded(random, text, oddity), oddity)
    by_name = header and random.random() < 0.8
    source: dict[str, Any] = {"file": path.name}
    source |= {column: titles[number] if by_name else number for number, column in enumerate(columns)}
    if header and not by_name:
        source["header"] = True
    return Split(source, _count(rows, oddity), paths=[path.name])


def _delimited(cells: list[list[str]], kind: str) -> str:
    if kind == "tsv":
        return "".join("\t".join(" ".join(cell.split("\t")) for cell in row) + "\n" for row in cells)
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(cells)
    return stream.getvalue()


def _jsonl(random: Random, folder: Path, name: str, rows: list[Row], content: str, oddity: str | None) -> Split:
    columns = _columns(content)
    nested = random.random() < 0.3
    records: list[Any] = [dict(zip(columns, row, strict=True)) for row in rows]
    if "label" in columns and random.random() < 0.3:
        records = [{**record, "label": len(record["label"])} for record in records]
    if nested:
        records = [{"body": record, "id": number} for number, record in enumerate(records)]
    if oddity in ("ragged", "null") and records:
        records[len(records) // 2] = random.choice([None, [], {}, 3, {columns[0]: None}, {columns[0]: [1, 2]}])
    text = "".join(json.dumps(record, ensure_ascii=random.random() < 0.5) + "\n" for record in records)
    path = _packed(random, folder / f"{name}.jsonl", _encoded(random, text, oddity), oddity)
    source = {"file": path.name} | {column: f"body.{column}" if nested else column for column in columns}
    return Split(source, _count(rows, oddity), paths=[path.name])


def _parquet(random: Random, folder: Path, name: str, rows: list[Row], content: str, oddity: str | None) -> Split:
    columns = _columns(content)
    values: dict[str, list[Any]] = {column: [row[number] for row in rows] for number, column in enumerate(columns)}
    if oddity in ("null", "ragged") and rows:
        values[columns[0]][0] = None
    if content in ("images", "captions"):
        values["image"] = [picture(random, 8) for _ in rows]
    if oddity == "empty":
        values = {column: [] for column in columns}
    table = pa.table({column: pa.array(cells) for column, cells in values.items()})
    path = folder / f"{name}.parquet"
    pq.write_table(table, path)
    if oddity == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    source = {"file": path.name} | {column: column for column in columns}
    known = oddity not in ("null", "ragged", "empty", "cut", "latin-1")
    return Split(source, _count(rows, oddity) if known else None, paths=[path.name])


def _running_text(random: Random, folder: Path, name: str, rows: list[Row], content: str, oddity: str | None) -> Split:
    data = _encoded(random, "".join(f"{row[0]}\n" for row in rows), oddity)
    path = _packed(random, folder / f"{name}.txt", data, oddity)
    return Split({"file": path.name}, _count(rows, oddity), paths=[path.name])


def _street(random: Random, folder: Path, name: str, rows: list[Row], content: str, oddity: str | None) -> Split:
    return Split({"street": name, "limit": len(rows) or 1}, len(rows) or 1)


def _conllu(random: Random, folder: Path, name: str, rows: list[Row], content: str, oddity: str | None) -> Split:
    """Sentences whose words form a tree: each but the first depends on an earlier one."""
    lines: list[str] = []
    for number, row in enumerate(rows):
        words = row[0].split()
        lines.append(f"# sent_id = {number}")
        for position, word in enumerate(words, start=1):
            head = 0 if position == 1 else random.randint(1, position - 1)
            tag = UPOS[len(word) % len(UPOS)]
            relation = "root" if head == 0 else "dep"
            lines.append(
                "\t".join([str(position), word, word.lower(), tag, tag[:1], "_", str(head), relation, "_", "_"])
            )
        if oddity == "ragged" and number == len(rows) // 2:
            lines.append(
                random.choice(["9\tx", "1\tx\tx\tX\t_\t_\t7\tdep\t_\t_", "nothing", "1-2\tzum\t_\t_\t_\t_\t_\t_\t_\t_"])
            )
        lines.append("")
    path = _packed(
        random, folder / f"{name}.conllu", _encoded(random, "".join(f"{line}\n" for line in lines), oddity), oddity
    )
    source: dict[str, Any] = {"file": path.name}
    if content == "pairs":
        source |= {"source": "words", "target": random.choice(["brackets", "upos", "lemmas", "relations"])}
    elif content == "text":
        source |= {"text": random.choice(["words", "lemmas"])}
    elif random.random() < 0.3:
        source |= {"tags": random.choice(["upos", "xpos"])}
    return Split(source, _count(rows, oddity), paths=[path.name])


def picture(random: Random, size: int, mode: str = "RGB", form: str = "PNG") -> bytes:
    """A random image file."""
    image = Image.new(mode, (size, size))
    image.putdata([_pixel(random, mode) for _ in range(size * size)])
    stream = io.BytesIO()
    image.save(stream, format=form)
    return stream.getvalue()


def _pixel(random: Random, mode: str) -> Any:
    bands = {"L": 1, "RGB": 3, "RGBA": 4}[mode]
    value = tuple(random.randrange(256) for _ in range(bands))
    return value[0] if bands == 1 else value


def _odd_picture(random: Random, oddity: str | None) -> bytes:
    if oddity is None or random.random() < 0.7:
        return picture(random, 8)
    if oddity in ("cut", "empty", "latin-1"):
        data = picture(random, 8)
        return data[: random.choice([0, 10, len(data) - 12])]
    return picture(random, random.choice([1, 7, 9, 16]), random.choice(["L", "RGB", "RGBA"]))


def _class_folders(random: Random, folder: Path, name: str, rows: list[Row], content: str, oddity: str | None) -> Split:
    members = {f"{row[1][:200]}/{number}.png": _odd_picture(random, oddity) for number, row in enumerate(rows)}
    if oddity == "ragged":
        members[random.choice(["readme.txt", "good/readme.txt", "9.png", "bad/deep/1.png"])] = b"hello"
    if random.random() < 0.4:
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
            for member, data in members.items():
                archive.writestr(member, data)
        return Split({"images": f"{name}.zip"}, None if oddity else len(rows))
    for member, data in members.items():
        (folder / name / member).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / member).write_bytes(data)
    (folder / name).mkdir(exist_ok=True)
    return Split({"images": name}, None if oddity else len(rows))


def _idx(random: Random, folder: Path, name: str, rows: list[Row], content: str, oddity: str | None) -> Split:
    names = sorted({row[1] for row in rows})
    pixels = random.randbytes(64 * len(rows))
    images = struct.pack(">IIII", 0x803, len(rows), 8, 8) + pixels
    labels = struct.pack(">II", 0x801, len(rows)) + bytes(names.index(row[1]) for row in rows)
    if oddity == "cut":
        images = images[:-5]
    if oddity == "ragged":
        labels = labels[:-1]
    (folder / f"{name}-images").write_bytes(images)
    (folder / f"{name}-labels.gz").write_bytes(gzip.compress(labels))
    return Split({"images": f"{name}-images", "labels": f"{name}-labels.gz"}, None if oddity else len(rows))


def _picture_table(random: Random, folder: Path, name: str, rows: list[Row], content: str, oddity: str | None) -> Split:
    """A table that names files of images."""
    (folder / f"{name}-png").mkdir(exist_ok=True)
    named = []
    for number, row in enumerate(rows):
        file = f"{name}-png/{number}.png"
        if not (oddity == "null" and number == 0):
            (folder / file).write_bytes(_odd_picture(random, oddity))
        named.append((file, *row[1:]))
    split = _table(random, folder, name, named, content, oddity)
    split.count = None if oddity else split.count
    return split


Writer = Callable[[Random, Path, str, list[Row], str, str | None], Split]
WRITERS: dict[str, list[Writer]] = {
    "pairs": [_two_files, _two_files, _table, _jsonl, _parquet, _conllu, _street],
    "labelled": [_table, _table, _jsonl, _parquet],
    "text": [_running_text, _running_text, _table, _jsonl, _parquet, _conllu],
    "tagged": [_conllu],
    "images": [_class_folders, _class_folders, _idx, _picture_table, _parquet],
    "captions": [_picture_table, _parquet],
}
