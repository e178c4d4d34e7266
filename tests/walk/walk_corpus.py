"""Small files of every kind that recipes read: texts with capitals, accents, punctuation and different lengths."""

import json
import shutil
import struct
from pathlib import Path
from random import Random

from PIL import Image

WORDS = [
    "The",
    "dog",
    "sees",
    "A",
    "cat",
    "house",
    "Tree",
    "café",
    "café",
    "ﬁsh",
    "naïve",
    "old",
    "red",
    "not",
    "street",
    "water",
    "small",
    "it",
    "is",
]
LABELS = ["bad", "good", "so-so"]
UPOS = ["NOUN", "VERB", "DET", "ADJ"]
EXAMPLES = 24


def write_corpus(folder: Path) -> None:
    """All files; those of `other` hold other examples in the same form."""
    for number, name in enumerate(("train", "valid", "test", "other")):
        _write_texts(folder, name, Random(number), EXAMPLES)
        _write_images(folder, name, Random(10 + number), 18 if name == "train" else 9)
    (folder / "words.tsv").write_text("dog\tHund\ncat\tKatze\nThe\tDie\n<unk>\tX\n", encoding="utf-8")
    shutil.copytree(folder, folder / "elsewhere")
    for file in sorted((folder / "elsewhere").glob("other*")):
        there = file.with_name(file.name.replace("other", "train", 1))
        shutil.rmtree(there, ignore_errors=True)
        file.replace(there)


def _sentence(random: Random) -> str:
    return " ".join(random.choice(WORDS) for _ in range(random.randint(2, 11))) + random.choice([".", "!", " ?"])


def _write_texts(folder: Path, name: str, random: Random, count: int) -> None:
    rows = []
    for number in range(count):
        source = _sentence(random) + (" Ж" if number == 3 else "")
        target = " ".join(f"{word[::-1]}ß" for word in source.split())
        label = LABELS[number % len(LABELS)]
        mark = LABELS[(number + number // 4) % len(LABELS)]
        topics = "|".join(sorted({label, mark} - {LABELS[number % 2]}))
        rows.append(
            {"source": source, "target": target, "text": source, "label": label, "more": target[::-1], "mark": mark}
            | {"topics": topics}
        )
    for side in ("source", "target", "text"):
        (folder / f"{name}.{side}").write_text("".join(f"{row[side]}\n" for row in rows), encoding="utf-8")
    (folder / f"{name}.txt").write_text("".join(f"{row['text']}\n" for row in rows), encoding="utf-8")
    (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    columns = list(rows[0])
    table = [columns, *([row[column] for column in columns] for row in rows)]
    (folder / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in table), encoding="utf-8")
    (folder / f"{name}.bare").write_text("".join("\t".join(row) + "\n" for row in table[1:]), encoding="utf-8")
    (folder / f"{name}.both").write_text("".join(f"{row['text']}, {row['target']}\n" for row in rows), encoding="utf-8")
    (folder / f"{name}.conllu").write_text("".join(_parsed(row["text"], random) for row in rows), encoding="utf-8")


def _parsed(text: str, random: Random) -> str:
    lines = []
    for position, word in enumerate(text.split(), start=1):
        head = 0 if position == 1 else random.randint(1, position - 1)
        tag = UPOS[len(word) % len(UPOS)]
        own = random.choice(UPOS)
        relation = "root" if head == 0 else "dep"
        lines.append("\t".join([str(position), word, word.lower(), tag, own, "_", str(head), relation, "_", "_"]))
    return "\n".join(lines) + "\n\n"


def _write_images(folder: Path, name: str, random: Random, count: int) -> None:
    """Folders of classes, a table that names their files, and IDX files; some images have another size."""
    files = [f"{name}-images/{LABELS[number % 2]}/{number}.png" for number in range(count)]
    rows = ["file\tlabel\ttarget\tmore\tmark\tother"]
    for number, file in enumerate(files):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        image = Image.new("RGB", (8, 8) if number % 3 else (11, 9))
        image.putdata([tuple(random.randrange(256) for _ in range(3)) for _ in range(image.width * image.height)])
        image.save(folder / file)
        sentences = f"{_sentence(random)}\t{_sentence(random)}"
        mark, other = LABELS[number // 2 % 2], files[(number + 2) % count]
        rows.append(f"{file}\t{LABELS[number % 2]}\t{sentences}\t{mark}\t{other}")
    (folder / f"{name}-captions.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    pixels, labels = random.randbytes(64 * 9), bytes(random.choices((0, 1), k=7)) + bytes([0, 1])
    (folder / f"{name}-idx-images").write_bytes(struct.pack(">IIII", 0x803, 9, 8, 8) + pixels)
    (folder / f"{name}-idx-labels").write_bytes(struct.pack(">II", 0x801, 9) + labels)
