"""CTranslate2, called directly on a converted folder; torch is never loaded, which would make it slower.

`divided` gives each core a worker and a share of the batch, which its users must ask for.
"""

import json
import sys
from pathlib import Path
from typing import Any

import protocol

import ctranslate2


def make(asked: protocol.Asked) -> protocol.Step:
    """A batch written; the end is forbidden, so that all write equally much."""
    work, folder = asked["work"], Path(asked["folder"])
    names = next(iter(sorted(folder.glob("*vocabulary.json"))))
    words = json.loads(names.read_text(encoding="utf-8"))
    given = [[words[number] for number in row] for row in protocol.rows(work, asked["lengths"])]
    pairs = work["kind"] == "translate"
    kind = ctranslate2.Translator if pairs else ctranslate2.Generator
    divided = "divided" in sys.argv[1:]
    workers, threads = (asked["threads"], 1) if divided else (1, asked["threads"])
    model: Any = kind(
        str(folder), device="cpu", compute_type=asked["precision"], inter_threads=workers, intra_threads=threads
    )
    count, most = work["write"], -(-work["rows"] // workers)

    def translate() -> None:
        model.translate_batch(
            given, beam_size=work["beam"], min_decoding_length=count, max_decoding_length=count, max_batch_size=most
        )

    def generate() -> None:
        model.generate_batch(
            given, min_length=count, max_length=count, include_prompt_in_result=False, max_batch_size=most
        )

    return translate if pairs else generate


if __name__ == "__main__":
    protocol.speak(make, lambda: f"ctranslate2 {ctranslate2.__version__}")
