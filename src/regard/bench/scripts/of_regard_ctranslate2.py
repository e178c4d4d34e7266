"""regard with CTranslate2: its own engine on a converted folder, with the threads that it measured; no torch."""

from pathlib import Path

import protocol

from regard import __version__
from regard.ctranslate2.model_folder import ConvertedModel
from regard.ctranslate2.threads import load_engine

workers: list[str] = []


def make(request: protocol.Request) -> protocol.Step:
    work = request["work"]
    converted = ConvertedModel.read(Path(request["folder"]))
    engine = load_engine(converted, many=work["rows"] > 1)
    workers.append("{} x {} threads".format(*engine.workers))
    texts = [engine.target.decode(row) for row in protocol.rows(work, request["lengths"])]
    count = {"max_length": work["write"], "min_length": work["write"] - 1}
    search = {**converted.searches["greedy" if work["beam"] == 1 else "beam"], **count}
    if work["beam"] > 1:
        search["size"] = work["beam"]
    write = engine.translate if work["kind"] == "translate" else engine.generate
    return lambda: write(texts, search)


if __name__ == "__main__":
    protocol.serve(make, lambda: f"regard {__version__}, {workers[0]}")
