"""Exported ONNX graphs at work: onnxruntime, numpy and tokenizers, no torch."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.special import BOS, EOS, PAD
from regard.data.vocabularies import load_tokenizers

Ids = list[int]
Numbers = NDArray[np.float32]


class OnnxModel:
    """The graphs of a folder."""

    def __init__(self, folder: Path | str, threads: int = 1) -> None:
        import onnxruntime

        folder = Path(folder)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        self.settings: dict[str, Any] = json.loads((folder / "regard.json").read_text(encoding="utf-8"))
        self.graphs = {
            file.stem: onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
            for file in sorted(folder.glob("*.onnx"))
        }
        fields = ("source", "target") if self.translates else ("text",)
        self.tokenizers = load_tokenizers(fields, folder)

    @property
    def translates(self) -> bool:
        """Whether the model reads one text and writes another."""
        return self.settings["task"] == "translation"

    def write(self, texts: list[str], longest: int = 256) -> list[str]:
        """The translation of each text, or what follows it."""
        reader, writer = self.tokenizers["source" if self.translates else "text"], list(self.tokenizers.values())[-1]
        ids = [reader.encode(text) for text in texts]
        if self.translates:
            return writer.decode_batch(self.greedy([[*row, EOS] for row in ids], longest))
        start = [BOS] if self.settings["documents"] else []
        return writer.decode_batch([self.greedy([[*start, *row]], longest)[0] for row in ids])

    def classify(self, texts: list[str]) -> list[str]:
        """The likeliest label of each text."""
        scores = self.classes([[*self.tokenizers["text"].encode(text), EOS] for text in texts])
        return [self.settings["labels"][number] for number in scores.argmax(-1)]

    def classes(self, rows: list[Ids]) -> Numbers:
        """The scores of the labels, a row a text."""
        return np.asarray(self.graphs["model"].run(["logits"], _padded(rows))[0])

    def read(self, sources: list[Ids]) -> dict[str, Any]:
        """What the decoder listens to."""
        given, encoder = _padded(sources), self.graphs["encoder"]
        names = [output.name for output in encoder.get_outputs()]
        return dict(zip(names, encoder.run(None, given), strict=True)) | {"lengths": given["lengths"]}

    def start(self, rows: int) -> dict[str, Any]:
        """Nothing written yet."""
        empty = np.zeros((rows, self.settings["kv_heads"], 0, self.settings["head_width"]), dtype=np.float32)
        blocks = range(self.settings["blocks"])
        return {f"past.{block}.{part}": empty for block in blocks for part in ("key", "value")}

    def step(
        self, tokens: NDArray[np.int64], past: dict[str, Any], heard: dict[str, Any]
    ) -> tuple[Numbers, dict[str, Any]]:
        """The logits of what follows, and the cache with these tokens in it."""
        logits, *now = self.graphs["step"].run(None, {"tokens": tokens, **past, **heard})
        return np.asarray(logits), dict(zip(past, now, strict=True))

    def greedy(self, rows: list[Ids], longest: int) -> list[Ids]:
        """Greedy search after sources, or after prompts of one length; without special tokens."""
        heard = self.read(rows) if self.translates else {}
        tokens = np.full((len(rows), 1), BOS) if self.translates else np.array(rows)
        never = [PAD, BOS] if self.translates else [PAD]
        ends = self.translates or self.settings["documents"]
        past, written = self.start(len(rows)), []
        done = np.zeros(len(rows), dtype=bool)
        while len(written) < longest and not done.all():
            logits, past = self.step(tokens.astype(np.int64), past, heard)
            logits[:, -1, never] = -np.inf
            tokens = logits[:, -1].argmax(-1)[:, None]
            done |= (tokens[:, 0] == EOS) & ends
            written.append(tokens[:, 0])
        columns = np.stack(written, axis=1).tolist() if written else [[] for _ in rows]
        return [row[: row.index(EOS)] if ends and EOS in row else row for row in columns]


def _padded(rows: list[Ids]) -> dict[str, NDArray[np.int64]]:
    longest = max(map(len, rows))
    tokens = np.array([row + [PAD] * (longest - len(row)) for row in rows], dtype=np.int64)
    return {"tokens": tokens, "lengths": np.array([len(row) for row in rows], dtype=np.int64)}
