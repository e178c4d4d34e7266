"""ONNX graphs: any kind of Transformer, with the decoding step and its cache; they run in onnxruntime alone.

encoder.onnx   tokens, lengths → for each block of the decoder, the keys and values that it listens to
step.onnx      tokens, what was written before (and what is heard) → logits, what is written now
model.onnx     tokens, lengths → scores of the labels
"""

import json
import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.export import Dim

from regard.data.special import PAD
from regard.data.vocabularies import save_tokenizers
from regard.errors import ConfigError, RegardError
from regard.export.needs import Needs, misfits, refusal
from regard.export.onnx_engine import OnnxModel
from regard.export.onnx_modules import Classify, ReadSource, WriteOn
from regard.export.parity import Compared, Scores, prompt
from regard.export.subject import Row, Subject

HINT = "the torch engine runs it as it is"
KINDS = ("encoder-decoder", "decoder", "encoder")
GRAPHS = {
    "translation": ["encoder.onnx", "step.onnx"],
    "language_model": ["step.onnx"],
    "classification": ["model.onnx"],
}


def _needs(config: Any) -> Needs:  # noqa: ANN401
    kinds = ("full", "window", "bigbird", "linformer") if config.shape == "encoder" else ("full", "window", "bigbird")
    return {
        "attention.kind": kinds,
        "attention.added": (False,),
        "attention.strict": (False,),
        "position.kind": ("none", "sinusoidal", "learned", "relative", "rotary", "t5", "alibi"),
        "feedforward.kind": ("plain", "gated", "none"),
    }


def refuse_unfit(config: Any) -> None:  # noqa: ANN401
    """Refuses a model that cannot be traced into a graph."""
    if config.kind not in KINDS:
        raise ConfigError("model.kind", f"ONNX graphs hold one of {', '.join(KINDS)}, got '{config.kind}'; {HINT}")
    if found := misfits(config, _needs(config)):
        raise refusal("an ONNX graph", found, HINT)


def write_onnx(subject: Subject, folder: Path) -> str:
    """Writes the graphs, the tokenizer and regard.json; says which graphs."""
    need_onnx()
    refuse_unfit(subject.settled)
    writers = {"translation": _write_pair, "language_model": _write_decoder, "classification": _write_classifier}
    writers[subject.kind](subject, folder)
    save_tokenizers(subject.tokenizers, folder)
    settings = {
        "task": subject.kind,
        "longest": subject.length,
        "documents": subject.documents,
        "labels": list(subject.labels),
        "kv_heads": subject.config.attention.kv_heads or subject.config.heads,
        "head_width": subject.config.head_width,
        "blocks": getattr(subject.config, "target_depth", subject.config.depth),
    }
    (folder / "regard.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    return ", ".join(GRAPHS[subject.kind])


def _write_pair(subject: Subject, folder: Path) -> None:
    config, room = subject.config, subject.room
    rows, source = Dim("rows", min=1, max=4096), Dim("source", min=1, max=room)
    tokens, lengths = torch.full((2, 5), 7), torch.tensor([5, 3])
    reader = ReadSource(subject.model, room)
    heard = reader(tokens, lengths)
    names = _named("heard", config.target_depth)
    trace(reader, {"tokens": tokens, "lengths": lengths}, names, folder / "encoder.onnx",
          {"tokens": {0: rows, 1: source}, "lengths": {0: rows}})  # fmt: skip
    _write_step(subject, folder, {"heard": heard, "lengths": lengths}, names,
                {"heard": [{0: rows, 2: source}] * len(heard), "lengths": {0: rows}}, rows)  # fmt: skip


def _write_decoder(subject: Subject, folder: Path) -> None:
    _write_step(subject, folder, {}, [], {}, Dim("rows", min=1, max=4096))


def _write_step(
    subject: Subject,
    folder: Path,
    heard: dict[str, Any],
    heard_names: list[str],
    sizes: dict[str, Any],
    rows: Any,  # noqa: ANN401
) -> None:
    config = subject.config
    depth = getattr(config, "target_depth", config.depth)
    kv_heads = config.attention.kv_heads or config.heads
    time, written = Dim("time", min=1, max=subject.room), Dim("written", min=0, max=subject.room)
    past = [torch.zeros(2, kv_heads, 4, config.head_width) for _ in range(2 * depth)]
    given = {"tokens": torch.full((2, 3), 7), "past": past, **heard}
    shapes = {"tokens": {0: rows, 1: time}, "past": [{0: rows, 2: written}] * len(past), **sizes}
    inputs = ["tokens", *_named("past", depth), *heard_names, *(["lengths"] if heard else [])]
    trace(
        WriteOn(subject.model, subject.room),
        given,
        ["logits", *_named("now", depth)],
        folder / "step.onnx",
        shapes,
        inputs,
    )


def _write_classifier(subject: Subject, folder: Path) -> None:
    rows, time = Dim("rows", min=1, max=4096), Dim("time", min=1, max=subject.room)
    given = {"tokens": torch.full((2, 5), 7), "lengths": torch.tensor([5, 3])}
    shapes = {"tokens": {0: rows, 1: time}, "lengths": {0: rows}}
    trace(Classify(subject.model, subject.room), given, ["logits"], folder / "model.onnx", shapes)


def _named(what: str, depth: int) -> list[str]:
    return [f"{what}.{layer}.{part}" for layer in range(depth) for part in ("key", "value")]


def trace(
    module: nn.Module,
    given: dict[str, Any],
    outputs: list[str],
    file: Path,
    shapes: dict[str, Any],
    inputs: list[str] | None = None,
) -> None:
    """One graph, its weights inside it."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter warns about itself
        torch.onnx.export(
            module.eval(),
            kwargs=given,
            f=str(file),
            input_names=inputs or list(given),
            output_names=outputs,
            dynamic_shapes=shapes,
            dynamo=True,
            external_data=False,
            verbose=False,
        )


class Onnx:
    """The exported folder, run by onnxruntime."""

    compared: Compared = "logits"

    def __init__(self, subject: Subject, folder: Path) -> None:
        self.subject, self.model = subject, OnnxModel(folder)

    def scores(self, rows: list[Row]) -> list[Scores]:
        """The logits of each row's target, all of it given at once."""
        if self.subject.kind == "classification":
            return list(self.model.classes([row.source for row in rows]))
        heard = self.model.read([row.source for row in rows]) if self.model.translates else {}
        longest = max(len(row.target) for row in rows)
        tokens = np.array([row.target + [PAD] * (longest - len(row.target)) for row in rows], dtype=np.int64)
        logits, _ = self.model.step(tokens, self.model.start(len(rows)), heard)
        return [logits[place, : len(row.target)] for place, row in enumerate(rows)]

    def greedy(self, rows: list[Row], longest: int) -> list[list[int]]:
        """Greedy search; prompts of a language model one at a time, as they differ in length."""
        if self.model.translates:
            return self.model.greedy([row.source for row in rows], longest)
        return [self.model.greedy([prompt(row)], longest)[0] for row in rows]


def need_onnx() -> Any:  # noqa: ANN401
    """onnxruntime, which is an extra like the libraries that write graphs."""
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError:
        raise RegardError("ONNX graphs need extra libraries: pip install 'regard[onnx]' onnxscript") from None
    return onnxruntime


def usage(subject: Subject) -> str:
    """How the folder is used, for its README."""
    return "\n".join(
        [
            "from regard.export.onnx_engine import OnnxModel  # onnxruntime, numpy and tokenizers; no torch",
            "",
            'model = OnnxModel(".")',
            *(
                ['model.classify(["Your text"])']
                if subject.kind == "classification"
                else ['model.write(["Your text"])']
            ),
        ]
    )
