"""What leaves as ONNX graphs computes the same in onnxruntime, cache and all."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import PAIRS, TEXTS, decoder, encoder, pair

from regard.errors import ConfigError
from regard.export import parity
from regard.export.onnx import refuse_unfit
from regard.export.onnx_engine import OnnxModel
from regard.export.subject import Subject
from regard.export.writing import export_model

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

SHALLOW = {"depth": 1}
SUBJECTS: dict[str, Any] = {
    "relative": lambda: pair(**SHALLOW, position={"kind": "relative", "clip": 3}),
    "classes": lambda: encoder(**SHALLOW, position={"kind": "learned", "length": 64}),
}
SLOW: dict[str, Any] = {
    "rotary, shared keys": lambda: decoder(position="rotary", attention={"kind": "full", "kv_heads": 2}),
    "default": lambda: pair(),
    "T5 bias, norm after, gated, rms": lambda: pair(norm_place="after", position="t5", feedforward="gated", norm="rms"),
    "two vocabularies, learned": lambda: pair(
        False, position={"kind": "learned", "length": 64}, embedding={"share": "output"}
    ),
    "window, alibi": lambda: decoder(position="alibi", attention={"kind": "window", "reach": 4}),
    "bigbird": lambda: decoder(attention={"kind": "bigbird", "block": 4, "global_tokens": 2, "random": 1}),
    "running text, narrow heads": lambda: decoder(False, attention={"kind": "full", "shape": "narrow"}),
    "classes, max, waves": lambda: encoder(head={"kind": "pooled", "pooling": "max"}),
}


def checked(subject: Subject, folder: Path) -> None:
    held_out = PAIRS if subject.kind == "translation" else TEXTS
    found = export_model(subject, held_out, "onnx", folder)
    assert found.largest_difference <= parity.CLOSE
    assert found.identical == 1.0


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_graphs_compute_the_same(name: str, tmp_path: Path) -> None:
    subject = SUBJECTS[name]()
    checked(subject, tmp_path / "out")
    if subject.kind == "translation":
        step_by_step_is_all_at_once(OnnxModel(tmp_path / "out"))
        runs_without_torch(tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_the_graphs_of_other_variants_compute_the_same(name: str, tmp_path: Path) -> None:
    checked(SLOW[name](), tmp_path / "out")


def step_by_step_is_all_at_once(model: OnnxModel) -> None:
    tokens, heard = np.array([[2, 40, 41, 42, 43], [2, 50, 51, 52, 53]]), model.read([[30, 31, 32, 3], [33, 3]])
    whole, _ = model.step(tokens, model.start(2), heard)
    past, parts = model.start(2), []
    for column in range(tokens.shape[1]):
        logits, past = model.step(tokens[:, column : column + 1], past, heard)
        parts.append(logits)
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, atol=1e-5)


def runs_without_torch(folder: Path) -> None:
    script = (
        "import sys; from regard.export.onnx_engine import OnnxModel; print(OnnxModel('.').write(['The cat.'], 9)); "
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        (lambda: encoder(position="tree"), "model.position.kind: an ONNX graph needs 'none' or"),
        (lambda: pair(feedforward="experts"), "model.feedforward.kind: an ONNX graph needs 'plain'"),
        (lambda: decoder(attention="memory-compressed"), "model.attention.kind: an ONNX graph needs 'full'"),
    ],
)
def test_what_cannot_be_traced_is_refused_by_name(subject: Any, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        refuse_unfit(subject().settled)
    assert str(error.value).startswith(words)
