"""Converts a random model of a workload's size for CTranslate2: `convert.py WORKLOAD_JSON FOLDER`."""

import json
import sys
from pathlib import Path

import protocol
import torch
from of_regard import model_config, vocabulary

from regard.ctranslate2.model_folder import ConvertedModel, Precision
from regard.decode import BeamConfig, GreedyConfig
from regard.export.ctranslate2 import write_ctranslate2
from regard.export.exported_model import ExportedModel

PRECISIONS: tuple[Precision, ...] = ("float32", "int8")


def main(work: protocol.Work, folder: Path) -> None:
    """A folder for each precision, each complete for regard and for CTranslate2 itself."""
    torch.manual_seed(0)
    words, config, pairs = vocabulary(work), model_config(work), work["kind"] == "translate"
    sizes = (words.vocab_size, words.vocab_size) if pairs else (words.vocab_size,)
    tokenizers = {"source": words, "target": words} if pairs else {"text": words}
    task = "translation" if pairs else "language_model"
    model = config.build(*sizes).eval()
    exported = ExportedModel(model, config, task, tokenizers, documents=pairs, length=1024)
    for precision in PRECISIONS:
        target = folder / precision
        target.mkdir(parents=True)
        write_ctranslate2(exported, target, int8=precision == "int8")
        searches = {kind.kind: kind.tree() for kind in (GreedyConfig(), BeamConfig())}
        texts = [words.decode(range(7 + row, 32 + row)) for row in range(32)]
        ConvertedModel(
            target, task, precision, 1024, exported.max_positions, pairs, searches["greedy"], searches, texts
        ).write()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
