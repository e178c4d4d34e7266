"""Recurrent and convolutional models as ONNX graphs: operators for their layers, memories and windows as state."""

from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx_checks import checked
from tiny import PAIRS, TEXTS, baseline_decoder, baseline_encoder, baseline_pair

from regard.decode import GreedyConfig
from regard.export.onnx.engine import OnnxModel, padded
from regard.tasks.generation import TextGenerator
from regard.text.special_tokens import BOS, EOS, PAD

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

EXPERTS = {"experts": 4, "chosen": 2, "hidden": 8}
SUBJECTS: dict[str, Any] = {
    "lstm-seq2seq": lambda: baseline_pair("lstm-seq2seq", depth=1, decoder_depth=2),
    "gru": lambda: baseline_decoder("recurrent", cell="gru", experts=EXPERTS),
}
SLOW: dict[str, Any] = {
    "windows": lambda: baseline_decoder("window-decoder"),
    "bi-rnn, experts": lambda: baseline_encoder("recurrent-encoder", cell="rnn", experts=EXPERTS),
    "rnn": lambda: baseline_decoder("recurrent", cell="rnn", residual=True),
    "lstm": lambda: baseline_decoder("recurrent", embedding={"share": "all"}),
    "no attention, backward": lambda: baseline_pair(
        "lstm-seq2seq", attention="none", cell="gru", reading="backward", decoder_depth=3
    ),
    "additive, tanh": lambda: baseline_pair("lstm-seq2seq", attention="additive", readout="tanh", reading="forward"),
    "gnmt": lambda: baseline_pair("gnmt", experts=EXPERTS),
    "deep-att": lambda: baseline_pair("deep-att"),
    "bytenet": lambda: baseline_pair("bytenet", stretch=1.3, extra=2, kernel=2),
    "bytenet, added": lambda: baseline_pair("bytenet", join="add", decoder_kernel=1),
    "convs2s": lambda: baseline_pair("convs2s"),
    "convs2s, waves": lambda: baseline_pair("convs2s", position="sinusoidal", hidden=24, weight_norm=False),
    "window classes": lambda: baseline_encoder("window-encoder", head={"kind": "pooled", "pooling": "max"}),
    "last of an lstm": lambda: baseline_encoder("recurrent", head={"kind": "pooled", "pooling": "last"}),
}


@pytest.mark.parametrize("name", [*SUBJECTS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_the_graphs_compute_the_same(name: str, tmp_path: Path) -> None:
    exported = {**SUBJECTS, **SLOW}[name]()
    model = checked(exported, PAIRS if exported.has_source else TEXTS, tmp_path / "out")
    if exported.has_source:
        writes_as_torch_does(exported, model)


def writes_as_torch_does(exported: Any, model: OnnxModel) -> None:
    writer = TextGenerator(exported.model, exported.source, exported.target, torch.device("cpu"))
    ours = writer.translate(list(PAIRS.texts), GreedyConfig(max_length=12))
    assert model.generate(list(PAIRS.texts), 12) == [outputs[0].text for outputs in ours]
    tokens = model.greedy(padded([[30, 31, EOS], [32, EOS]]), 12)
    assert not {PAD, BOS, EOS} & {token for row in tokens for token in row}


def test_a_recurrent_layer_is_the_operator_that_onnx_has_for_it(tmp_path: Path) -> None:
    checked(baseline_encoder("recurrent-encoder", depth=1), TEXTS, tmp_path / "out")
    operators = [node.op_type for node in onnx.load(tmp_path / "out" / "model.onnx").graph.node]
    assert operators.count("LSTM") == 1
    assert "Loop" not in operators
    assert "Scan" not in operators
