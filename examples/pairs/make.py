"""Makes the files of examples/pairs.toml: English and German sentences of the embedded corpus.

Run from anywhere: `python examples/pairs/make.py`; the same files come out each time.
"""

import gzip
from pathlib import Path

from regard.data.street import pairs

HERE = Path(__file__).parent
SIZES = {"train": 12_000, "val": 300, "test": 300}
"""Sentences in each file."""


def main() -> None:
    """Writes all of them; those to train on are packed, without a time, so that they are the same to the byte."""
    for name, size in SIZES.items():
        found = list(pairs("valid" if name == "val" else name, size))
        for language, texts in zip(("en", "de"), zip(*found, strict=True), strict=True):
            content = "".join(f"{text}\n" for text in texts).encode()
            if name == "train":
                (HERE / f"{name}.{language}.gz").write_bytes(gzip.compress(content, mtime=0))
            else:
                (HERE / f"{name}.{language}").write_bytes(content)


if __name__ == "__main__":
    main()
