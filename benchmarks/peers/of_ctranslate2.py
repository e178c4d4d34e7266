"""CTranslate2, called directly on a converted folder; torch is never loaded, which would make it slower.

`divided` gives each core a worker and a share of the batch, which is not its default.
"""

import json
import sys
from pathlib import Path
from typing import Any

import protocol

import ctranslate2


def make(request: protocol.Request) -> protocol.Step:
    """A batch written; EOS is suppressed, so that all programs generate equally many tokens."""
    work, folder = request["work"], Path(request["folder"])
    names = next(iter(sorted(folder.glob("*vocabulary.json"))))
    words = json.loads(names.read_text(encoding="utf-8"))
    inputs = [[words[number] for number in row] for row in protocol.rows(work, request["lengths"])]
    pairs = work["kind"] == "translate"
    kind = ctranslate2.Translator if pairs else ctranslate2.Generator
    divided = "divided" in sys.argv[1:]
    workers, threads = (request["threads"], 1) if divided else (1, request["threads"])
    model: Any = kind(
        str(folder), device="cpu", compute_type=request["precision"], inter_threads=workers, intra_threads=threads
    )
    count, most = work["write"], -(-work["rows"] // workers)

    def translate() -> None:
        model.translate_batch(
            inputs, beam_size=work["beam"], min_decoding_length=count, max_decoding_length=count, max_batch_size=most
        )

    def generate() -> None:
        model.generate_batch(
            inputs, min_length=count, max_length=count, include_prompt_in_result=False, max_batch_size=most
        )

    return translate if pairs else generate


if __name__ == "__main__":
    protocol.serve(make, lambda: f"ctranslate2 {ctranslate2.__version__}")
