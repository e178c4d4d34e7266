"""ONNX graphs: any kind of model, with the decoding step and its cache; they run in onnxruntime alone.

encoder.onnx   tokens, lengths (or images) → what the decoder attends to, and its initial state where it has one
step.onnx      tokens, state (and what the decoder attends to) → logits, new state
model.onnx     tokens, lengths (or images) → scores of the labels, or of tokens at each position
"""

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.errors import ConfigError, RegardError
from regard.export.exported_model import ExportedModel, Row
from regard.export.onnx import baselines, graphs
from regard.export.onnx.engine import Inputs, OnnxModel, padded
from regard.export.onnx.graphs import Graph, StepGraph
from regard.export.onnx.traceable import traceable
from regard.export.parity import Compared, ExportedFolder, ExportTarget, Scores, label_scores, target_scores
from regard.export.supported_settings import Supported, unsupported_error, unsupported_settings
from regard.models import Decoder, Encoder, EncoderDecoder, ModelConfig, VisionEncoderDecoder, VisionTransformer
from regard.models.convolutional.base import Seq2Seq
from regard.models.convolutional.windows import WindowModel
from regard.models.recurrent import RecurrentTranslator
from regard.models.recurrent.single_stack import SingleRecurrent
from regard.text.tokenizer import save_tokenizers

HINT = "a graph has no input for a sentence's tree; the torch engine runs the model as it is"
SUPPORTED: Supported = {"position.kind": ("none", "sinusoidal", "learned", "relative", "rotary", "t5", "alibi")}

Graphs = dict[type[nn.Module], Callable[[Any, int], list[Graph]]]
"""Class of models → its graphs, from a traceable model and its most positions."""
GENERATORS: Graphs = {
    VisionEncoderDecoder: lambda model, length: [
        graphs.ImageEncoder(model, length),
        graphs.TransformerStep(model, length, padded=False),
    ],
    EncoderDecoder: lambda model, length: [
        graphs.TransformerEncoder(model, length),
        graphs.TransformerStep(model, length),
    ],
    Decoder: lambda model, length: [graphs.TransformerStep(model, length)],
    RecurrentTranslator: lambda model, length: [
        baselines.RecurrentEncoder(model, length),
        baselines.RecurrentStep(model, length),
    ],
    SingleRecurrent: lambda model, length: [baselines.RecurrentLanguageModelStep(model, length)],
    Seq2Seq: lambda model, length: [
        baselines.ConvolutionalEncoder(model, length),
        baselines.ConvolutionalStep(model, length),
    ],
    WindowModel: lambda model, length: [baselines.WindowStep(model, length)],
}
SCORERS: Graphs = {
    VisionTransformer: lambda model, length: [graphs.ImageScores(model, length)],
    Encoder: lambda model, length: [graphs.TransformerScores(model, length)],
    Decoder: lambda model, length: [graphs.TransformerScores(model, length)],
    SingleRecurrent: lambda model, length: [baselines.RecurrentScores(model, length)],
    WindowModel: lambda model, length: [baselines.WindowScores(model, length)],
}


def require_onnx() -> None:
    try:
        for name in ("onnx", "onnxruntime", "onnxscript"):
            import_module(name)
    except ImportError:
        raise RegardError("ONNX graphs need extra libraries: pip install 'regard[onnx]' onnxscript") from None


def refuse_unsupported(config: ModelConfig) -> None:
    if unsupported := unsupported_settings(config, SUPPORTED):
        raise unsupported_error("an ONNX graph", unsupported, HINT)


def write_onnx(exported: ExportedModel, folder: Path) -> str:
    """Writes the graphs, the tokenizer and regard.json; returns the names of the graphs."""
    require_onnx()
    refuse_unsupported(exported.resolved_config)
    written, length = graphs_of(exported), _max_length(exported)
    for graph in written:
        graph.write(folder, length)
    if exported.tokenizers:
        save_tokenizers(exported.tokenizers, folder)
    settings = {
        "task": exported.task,
        "longest": exported.length,
        "documents": exported.documents,
        "labels": list(exported.labels),
        **({"thresholds": dict(exported.thresholds)} if exported.thresholds else {}),
        "state": _state(written),
        **exported.input_settings(),
        **({"image": exported.images.tree()} if exported.images is not None else {}),
    }
    (folder / "regard.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    return ", ".join(graph.file for graph in written)


def graphs_of(exported: ExportedModel) -> list[Graph]:
    """The graphs that do what a model does for its task."""
    for kind, make in (GENERATORS if exported.generates else SCORERS).items():
        if isinstance(exported.model, kind):
            length = _max_length(exported)
            return make(traceable(exported.model, length), length)
    raise ConfigError("model.kind", f"no graph of '{exported.config.kind}' does {exported.task}")


def _max_length(exported: ExportedModel) -> int:
    """Most tokens of a sequence: any input or output, and no more than the model was built for."""
    config = exported.config
    attention_length = getattr(getattr(config, "attention", None), "length", None)
    length = min(exported.max_positions, attention_length) if attention_length else exported.max_positions
    return max(length, getattr(config, "tokens", 0))


def _state(written: list[Graph]) -> dict[str, object]:
    """The state tensors that are zero at the first step: those that no encoder returns."""
    outputs = {name for graph in written for name in graph.outputs}
    steps = [graph for graph in written if isinstance(graph, StepGraph)]
    return {tensor.name: tensor.tree() for graph in steps for tensor in graph.past if tensor.name not in outputs}


class Onnx:
    """The exported folder, run by onnxruntime."""

    compared: Compared = "logits"

    def __init__(self, exported: ExportedModel, folder: Path) -> None:
        self.exported, self.model = exported, OnnxModel(folder)

    def scores(self, rows: list[Row]) -> list[Scores]:
        """The logits of each row's target in one step; of its labels where nothing is generated."""
        if not self.exported.generates:
            return label_scores(self.model.scores(_inputs(rows)), rows)
        state = self.model.start(_inputs(rows) if rows[0].source else None, len(rows))
        logits, _ = self.model.step(padded([row.target for row in rows])["tokens"], state)
        return target_scores(logits, rows)

    def greedy(self, rows: list[Row], max_length: int) -> list[list[int]]:
        """Prompts of a language model one at a time, as they differ in length."""
        if self.model.has_encoder:
            return self.model.greedy(_inputs(rows), max_length)
        return [self.model.greedy({"tokens": np.array([row.prompt])}, max_length)[0] for row in rows]


def _inputs(rows: list[Row]) -> Inputs:
    """The inputs of the first graph."""
    pixels = [row.pixels for row in rows if row.pixels is not None]
    return {"images": np.stack(pixels)} if pixels else padded([row.source for row in rows])


def usage(exported: ExportedModel) -> str:
    """An example for the README."""
    argument = "image.png" if exported.images is not None else "Your text"
    calls = {
        "tagging": 'model.classify(["Some words to tag"])',
        "masked_language_model": 'tokens = model.tokenizers["text"].encode("Your text")  # 4 is <mask>\n'
        'model.scores({"tokens": np.array([tokens]), "lengths": np.array([len(tokens)])})',
    }
    default = f'model.{"generate" if exported.generates else "classify"}(["{argument}"])'
    return "\n".join(
        [
            "from regard.export.onnx.engine import OnnxModel  # onnxruntime, numpy and tokenizers; no torch",
            "",
            'model = OnnxModel(".")',
            *exported.input_comment(),
            calls.get(exported.task, default),
        ]
    )


def _write(exported: ExportedModel, folder: Path, int8: bool) -> ExportedFolder:
    layout = write_onnx(exported, folder)
    return ExportedFolder(Onnx(exported, folder), layout, usage(exported))


TARGET = ExportTarget("onnx", _write)
