"""CTranslate2, called directly on a converted folder; torch is never loaded, which would make it slower."""

import json
from pathlib import Path
from typing import Any

import ctranslate2
import protocol


def make(asked: protocol.Asked) -> protocol.Step:
    """A batch written; the end is forbidden, so that all write equally much."""
    work, folder = asked["work"], Path(asked["folder"])
    names = next(iter(sorted(folder.glob("*vocabulary.json"))))
    words = json.loads(names.read_text(encoding="utf-8"))
    given = [[words[number] for number in row] for row in protocol.rows(work, asked["lengths"])]
    pairs = work["kind"] == "translate"
    kind = ctranslate2.Translator if pairs else ctranslate2.Generator
    model: Any = kind(
        str(folder), device="cpu", compute_type=asked["precision"], inter_threads=1, intra_threads=asked["threads"]
    )
    count = work["write"]

    def translate() -> None:
        model.translate_batch(given, beam_size=work["beam"], min_decoding_length=count, max_decoding_length=count)

    def generate() -> None:
        model.generate_batch(given, min_length=count, max_length=count, include_prompt_in_result=False)

    return translate if pairs else generate


if __name__ == "__main__":
    protocol.speak(make, lambda: f"ctranslate2 {ctranslate2.__version__}")
