"""How many threads a converted model is fastest with: measured once on each machine, and kept beside the model.

More are not always faster: small models in int8 are several times slower on two threads than on one. The measuring
process is `python -m regard.ctranslate2.threads FOLDER`; it never loads torch, which would make CTranslate2 slower.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from regard.config.search_options import Search
from regard.ctranslate2.model import CTranslate2Engine, Workers
from regard.ctranslate2.model_folder import ConvertedModel
from regard.errors import RegardError
from regard.files.atomic import write_atomic
from regard.files.machine import cores
from regard.text.vocabulary import Vocabulary

FILE = "threads.json"
ROUNDS, SECONDS = 5, 0.5
"""Repetitions of a measurement, and the time after which no other begins."""
MAX_NEW_TOKENS = 64
"""Tokens that are generated for each input."""


def workers_for(converted: ConvertedModel, many: bool) -> Workers:
    """The fastest workers for one text at a time, or for many at once."""
    file = converted.folder / FILE
    if not _is_measured(file):
        subprocess.run([sys.executable, "-m", "regard.ctranslate2.threads", str(converted.folder)], check=False)
    if not _is_measured(file):  # a folder that cannot be written to
        return Workers(1, 1)
    return Workers(*json.loads(file.read_text(encoding="utf-8"))["many" if many else "one"])


def load_engine(converted: ConvertedModel, many: bool) -> CTranslate2Engine:
    """A converted model with the workers that suit one text at a time, or many at once."""
    return CTranslate2Engine(converted, workers_for(converted, many))


def candidates(count: int, many: bool) -> list[Workers]:
    """Workers for so many cores: a batch on 1, 2, 4, … threads, and as many batches as there are cores for."""
    threads = sorted({min(2**power, count) for power in range(count.bit_length() + 1)})
    one_batch = [Workers(1, number) for number in threads]
    return one_batch + [Workers(count // number, number) for number in threads if many and count // number > 1]


def measure(converted: ConvertedModel) -> dict[str, object]:
    """The fastest workers, and the seconds of all that were measured."""
    tree: dict[str, object] = {"cores": cores()}
    for name, many in (("one", False), ("many", True)):
        seconds = {workers: _seconds(converted, workers, many) for workers in candidates(cores(), many)}
        tree[name] = list(min(seconds, key=seconds.__getitem__))
        tree[f"{name}_seconds"] = {f"{batches} x {threads}": best for (batches, threads), best in seconds.items()}
    return tree


def _seconds(converted: ConvertedModel, workers: Workers, many: bool) -> float:
    """The shortest of several tries: whatever else runs on the machine makes a try longer, nothing makes it shorter."""
    engine = CTranslate2Engine(converted, workers)
    generate = engine.translate if converted.verb == "translate" else engine.generate
    texts, search = timed_work(converted, engine.target)
    texts = texts if many else texts[:1]
    generate(texts, search)
    best, spent = float("inf"), 0.0
    for _ in range(ROUNDS):
        start = time.perf_counter()
        generate(texts, search)
        took = time.perf_counter() - start
        best, spent = min(best, took), spent + took
        if spent > SECONDS:
            break
    return best


def timed_work(converted: ConvertedModel, vocabulary: Vocabulary) -> tuple[list[str], Search]:
    """The inputs and the search that speed is measured on: no more tokens than the model has positions."""
    texts, positions = converted.texts, converted.max_positions
    search = {
        **(converted.default_search if converted.default_search["kind"] != "sample" else converted.searches["greedy"])
    }
    if converted.prompted:
        positions -= converted.input_tokens or 0
    elif converted.continues:  # half of the positions for the prompt, half for what follows
        positions -= (prompt := positions // 2)
        length = max(1, prompt - converted.documents)
        texts = [vocabulary.decode(ids[:length]) for ids in vocabulary.encode_batch(texts)]
        texts = [text for text in texts if len(vocabulary.encode(text)) <= length] or [""]
    search["max_length"] = max(1, min(search["max_length"], MAX_NEW_TOKENS, positions))
    search["min_length"] = 0
    return texts, search


def _is_measured(file: Path) -> bool:
    return file.exists() and json.loads(file.read_text(encoding="utf-8"))["cores"] == cores()


def main(folder: Path) -> int:
    """The measuring process; where it cannot measure, one sentence says so, and one thread is used."""
    try:
        converted = ConvertedModel.read(folder)
        write_atomic(folder / FILE, json.dumps(measure(converted), indent=1) + "\n")
    except (RegardError, RuntimeError, OSError) as error:
        print(f"regard: {folder}: speed cannot be measured, so one thread is used: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
