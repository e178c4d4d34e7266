"""How many threads a converted model computes best with: measured once on each machine, and kept beside the model.

More are not always faster: small models in int8 are several times slower on two threads than on one. The measuring
process is `python -m regard.ctranslate2.threads FOLDER`; it never loads torch, which would make CTranslate2 slower.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from regard.ctranslate2.model import FastEngine, Workers
from regard.ctranslate2.model_folder import Converted
from regard.ctranslate2.search import Search
from regard.errors import RegardError
from regard.files.atomic import write_atomic
from regard.files.machine import cores
from regard.text.vocabulary import Vocabulary

FILE = "threads.json"
ROUNDS, SECONDS = 5, 0.5
"""A way to share the work is tried so often, or until it has taken so long."""
MOST_WRITTEN = 64
"""Tokens that are generated for each input."""


def workers_for(converted: Converted, many: bool) -> Workers:
    """The best way to share the work of one text at a time, or of many at once."""
    file = converted.folder / FILE
    if not _fits(file):
        subprocess.run([sys.executable, "-m", "regard.ctranslate2.threads", str(converted.folder)], check=False)
    if not _fits(file):  # a folder that cannot be written to
        return Workers(1, 1)
    return Workers(*json.loads(file.read_text(encoding="utf-8"))["many" if many else "one"])


def open_engine(converted: Converted, many: bool) -> FastEngine:
    """A converted model with the workers that suit one text at a time, or many at once."""
    return FastEngine(converted, workers_for(converted, many))


def candidates(count: int, many: bool) -> list[Workers]:
    """Ways to share the work of so many cores: a batch on 1, 2, 4, … threads, and so many batches as there is room."""
    threads = sorted({min(2**power, count) for power in range(count.bit_length() + 1)})
    found = [Workers(1, each) for each in threads]
    return found + [Workers(count // each, each) for each in threads if many and count // each > 1]


def measure(converted: Converted) -> dict[str, object]:
    """The fastest ways, and the seconds that each took."""
    tree: dict[str, object] = {"cores": cores()}
    for name, many in (("one", False), ("many", True)):
        taken = {workers: _seconds(converted, workers, many) for workers in candidates(cores(), many)}
        tree[name] = list(min(taken, key=taken.__getitem__))
        tree[f"{name}_seconds"] = {f"{batches} x {threads}": best for (batches, threads), best in taken.items()}
    return tree


def _seconds(converted: Converted, workers: Workers, many: bool) -> float:
    """The shortest of several tries: whatever else runs on the machine makes a try longer, nothing makes it shorter."""
    engine = FastEngine(converted, workers)
    write = engine.translate if converted.verb == "translate" else engine.generate
    texts, search = timed_work(converted, engine.target)
    texts = texts if many else texts[:1]
    write(texts, search)
    best, spent = float("inf"), 0.0
    for _ in range(ROUNDS):
        start = time.perf_counter()
        write(texts, search)
        took = time.perf_counter() - start
        best, spent = min(best, took), spent + took
        if spent > SECONDS:
            break
    return best


def timed_work(converted: Converted, vocabulary: Vocabulary) -> tuple[list[str], Search]:
    """The inputs and the search that speed is measured on: no more tokens than the model has positions."""
    texts, room = converted.texts, converted.room
    search = {**(converted.usual if converted.usual["kind"] != "sample" else converted.searches["greedy"])}
    if converted.prompted:
        room -= converted.input_tokens or 0
    elif converted.continues:  # half of the positions for the prompt, half for what follows
        room -= (given := room // 2)
        kept = max(1, given - converted.documents)
        texts = [vocabulary.decode(ids[:kept]) for ids in vocabulary.encode_batch(texts)]
        texts = [text for text in texts if len(vocabulary.encode(text)) <= kept] or [""]
    search["max_length"] = max(1, min(search["max_length"], MOST_WRITTEN, room))
    search["min_length"] = 0
    return texts, search


def _fits(file: Path) -> bool:
    return file.exists() and json.loads(file.read_text(encoding="utf-8"))["cores"] == cores()


def main(folder: Path) -> int:
    """The measuring process; where it cannot measure, one sentence says so, and one thread is used."""
    try:
        converted = Converted.read(folder)
        write_atomic(folder / FILE, json.dumps(measure(converted), indent=1) + "\n")
    except (RegardError, RuntimeError, OSError) as error:
        print(f"regard: {folder}: speed cannot be measured, so one thread is used: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
