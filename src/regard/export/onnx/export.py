"""ONNX graphs: any kind of model, with the decoding step and its cache; they run in onnxruntime alone.

encoder.onnx   tokens, lengths (or images) → what the decoder listens to, and where it has such, what it begins with
step.onnx      tokens, what was written before (and what is heard) → logits, what is written now
model.onnx     tokens, lengths (or images) → scores of the labels, or of tokens at each place
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.errors import ConfigError, RegardError
from regard.export.exported_model import Row, Subject
from regard.export.onnx import baselines as onnx_baselines
from regard.export.onnx import transformers as onnx_modules
from regard.export.onnx.engine import OnnxModel, padded
from regard.export.onnx.graphs import Graph, Step
from regard.export.parity import Compared, Scores, prompt
from regard.export.supported_settings import Supported, unsupported_error, unsupported_settings
from regard.models import Decoder, Encoder, EncoderDecoder, VisionEncoderDecoder, VisionTransformer
from regard.models.convolutional.base import Seq2Seq
from regard.models.convolutional.windows import WindowModel
from regard.models.recurrent import RecurrentTranslator
from regard.models.recurrent.single_stack import SingleRecurrent
from regard.text.tokenizer import save_tokenizers

HINT = "a graph has no input for a sentence's tree; the torch engine runs the model as it is"
SUPPORTED: Supported = {"position.kind": ("none", "sinusoidal", "learned", "relative", "rotary", "t5", "alibi")}

Make = Callable[[nn.Module, int], list[Graph]]
WRITERS: dict[type, Make] = {
    VisionEncoderDecoder: lambda model, room: [
        onnx_modules.ReadImage(model, room),
        onnx_modules.WriteOn(model, room, hears=True, padded=False),
    ],
    EncoderDecoder: lambda model, room: [
        onnx_modules.ReadText(model, room),
        onnx_modules.WriteOn(model, room, hears=True),
    ],
    Decoder: lambda model, room: [onnx_modules.WriteOn(model, room)],
    RecurrentTranslator: lambda model, room: [
        onnx_baselines.ReadRecurrently(model, room),
        onnx_baselines.WriteRecurrently(model, room),
    ],
    SingleRecurrent: lambda model, room: [onnx_baselines.ReadOn(model, room)],
    Seq2Seq: lambda model, room: [onnx_baselines.ReadWindows(model, room), onnx_baselines.WriteWindows(model, room)],
    WindowModel: lambda model, room: [onnx_baselines.SlideOn(model, room)],
}
READERS: dict[type, Make] = {
    VisionTransformer: lambda model, room: [onnx_modules.LabelImage(model, room)],
    Encoder: lambda model, room: [onnx_modules.ReadTokens(model, room)],
    Decoder: lambda model, room: [onnx_modules.ReadTokens(model, room)],
    SingleRecurrent: lambda model, room: [onnx_baselines.LabelRecurrently(model, room)],
    WindowModel: lambda model, room: [onnx_baselines.LabelWindows(model, room)],
}


def refuse_unsupported(config: Any) -> None:  # noqa: ANN401
    """Refuses a model that cannot be traced into a graph."""
    if unsupported := unsupported_settings(config, SUPPORTED):
        raise unsupported_error("an ONNX graph", unsupported, HINT)


def write_onnx(subject: Subject, folder: Path) -> str:
    """Writes the graphs, the tokenizer and regard.json; says which graphs."""
    need_onnx()
    refuse_unsupported(subject.settled)
    graphs, room = graphs_of(subject), room_of(subject)
    for graph in graphs:
        graph.write(folder, room)
    if subject.tokenizers:
        save_tokenizers(subject.tokenizers, folder)
    settings = {
        "task": subject.kind,
        "longest": subject.length,
        "documents": subject.documents,
        "labels": list(subject.labels),
        "state": _state(graphs),
        **subject.input_form(),
        **({"image": subject.images.tree()} if subject.images is not None else {}),
    }
    (folder / "regard.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    return ", ".join(graph.file for graph in graphs)


def graphs_of(subject: Subject) -> list[Graph]:
    """The graphs that do what a model does for its task."""
    makers = WRITERS if subject.writes else READERS
    for kind, make in makers.items():
        if isinstance(subject.model, kind):
            return make(subject.model, room_of(subject))
    raise ConfigError("model.kind", f"no graph of '{subject.config.kind}' does {subject.kind}")


def room_of(subject: Subject) -> int:
    """Most tokens of a sequence: all that may be read or written, and no more than the model was built for."""
    config = subject.config
    built_for = getattr(getattr(config, "attention", None), "length", None)
    room = min(subject.room, built_for) if built_for else subject.room
    return max(room, getattr(config, "tokens", 0))


def _state(graphs: list[Graph]) -> dict[str, Any]:
    """What a step takes over from the one before, where the first one finds zeros."""
    given = {name for graph in graphs for name in graph.gives}
    return {
        part.name: part.tree()
        for graph in graphs
        if isinstance(graph, Step)
        for part in graph.past
        if part.name not in given
    }


class Onnx:
    """The exported folder, run by onnxruntime."""

    compared: Compared = "logits"

    def __init__(self, subject: Subject, folder: Path) -> None:
        self.subject, self.model = subject, OnnxModel(folder)

    def scores(self, rows: list[Row]) -> list[Scores]:
        """The logits of each row's target, all of it given at once; of its labels where nothing is written."""
        if not self.subject.writes:
            logits = self.model.scores(source_of(rows))
            return [one if one.ndim == 1 else one[: len(row.source)] for one, row in zip(logits, rows, strict=True)]
        state = self.model.start(source_of(rows) if rows[0].source else None, len(rows))
        tokens = padded([row.target for row in rows])["tokens"]
        logits, _ = self.model.step(tokens, state)
        return [logits[place, : len(row.target)] for place, row in enumerate(rows)]

    def greedy(self, rows: list[Row], longest: int) -> list[list[int]]:
        """Greedy search; prompts of a language model one at a time, as they differ in length."""
        if self.model.translates:
            return self.model.greedy(source_of(rows), longest)
        return [self.model.greedy({"tokens": np.array([prompt(row)])}, longest)[0] for row in rows]


def source_of(rows: list[Row]) -> dict[str, Any]:
    """What the first graph is given."""
    pixels = [row.pixels for row in rows if row.pixels is not None]
    if pixels:
        return {"images": np.stack(pixels)}
    return padded([row.source for row in rows])


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
    given = "image.png" if subject.images is not None else "Your text"
    calls = {
        "tagging": 'model.classify(["Some words to tag"])',
        "masked_language_model": 'tokens = model.tokenizers["text"].encode("Your text")  # 4 is <mask>\n'
        'model.scores({"tokens": np.array([tokens]), "lengths": np.array([len(tokens)])})',
    }
    usual = f'model.{"write" if subject.writes else "classify"}(["{given}"])'
    return "\n".join(
        [
            "from regard.export.onnx.engine import OnnxModel  # onnxruntime, numpy and tokenizers; no torch",
            "",
            'model = OnnxModel(".")',
            *subject.input_note(),
            calls.get(subject.kind, usual),
        ]
    )
