"""How many simple sentences a run translates rightly: `python benchmarks/simple_sentences.py runs/demo`.

The sentences and their right answers are in tests/data/simple_sentences.tsv; a final '!' counts as a full stop.
"""

import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

SENTENCES = Path(__file__).parents[1] / "tests" / "data" / "simple_sentences.tsv"


class Sentence(NamedTuple):
    """An English sentence, its shape, and its right German translations."""

    shape: str
    source: str
    targets: tuple[str, ...]

    def accepts(self, written: str) -> bool:
        """Whether a translation is one of the right ones."""
        return _plain(written) in map(_plain, self.targets)


def _plain(text: str) -> str:
    return text.replace("!", ".")


def sentences(path: Path = SENTENCES) -> list[Sentence]:
    """The sentences of a file: shape, English, German answers separated by bars."""
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return [Sentence(shape, source, tuple(targets.split(" | "))) for shape, source, targets in rows]


def main(run_folder: str, path: Path = SENTENCES) -> float:
    """Prints what is wrong and the shares by shape; returns the share of right translations."""
    from regard import api

    asked = sentences(path)
    written = api.translate(api.load(run_folder), [one.source for one in asked])
    right, total = Counter[str](), Counter(one.shape for one in asked)
    for one, german in zip(asked, written, strict=True):
        if one.accepts(german):
            right[one.shape] += 1
        else:
            print(f"{one.shape}: {one.source}\n    → {german}   (expected: {' | '.join(one.targets)})")
    for shape, count in total.items():
        print(f"{shape:16} {right[shape]:3} of {count}")
    share = right.total() / len(asked)
    print(f"{'all':16} {right.total():3} of {len(asked)}   {share:.1%}")
    return share


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
