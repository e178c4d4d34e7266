"""What leaves as a CTranslate2 folder computes the same in that engine, for every variant its specifications allow."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import LLAMA, PAIRS, T5, TEXTS, decoder, encoder, pair

from regard.errors import ConfigError, Failure
from regard.export import parity
from regard.export.export import export_model
from regard.export.parity import Parity

pytest.importorskip("ctranslate2")

SUBJECTS: dict[str, Any] = {
    "default": lambda: pair(),
    "norm after, learned": lambda: pair(norm_place="after", position={"kind": "learned", "length": 64}),
    "two vocabularies, head with bias": lambda: pair(
        False, embedding={"share": "output"}, head={"kind": "vocabulary", "bias": True}
    ),
    "own output layer, embedding norm": lambda: pair(embedding={"share": "inputs", "scale": False, "norm": True}),
    "rotary, gated, rms": lambda: pair(position="rotary", feedforward="gated", norm="rms", decoder_depth=1),
    "rotary, neighbours turn": lambda: pair(position={"kind": "rotary", "interleaved": True, "theta": 500.0}),
    "relative": lambda: pair(position={"kind": "relative", "clip": 3}),
    "T5": lambda: pair(**T5),
    "shared keys": lambda: decoder(**LLAMA),
    "decoder, waves": lambda: decoder(feedforward={"kind": "plain", "activation": "gelu-tanh"}),
    "waves from one": lambda: pair(position={"kind": "sinusoidal", "exponents_from": 1, "positions_from": 1}),
    "decoder, alibi": lambda: decoder(position="alibi"),
    "decoder, rotary in part": lambda: decoder(position={"kind": "rotary", "share": 0.5}),
    "decoder, running text, relative": lambda: decoder(False, position={"kind": "relative", "clip": 4}),
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_engine_computes_the_same(name: str, tmp_path: Path) -> None:
    exported = SUBJECTS[name]()
    held_out = PAIRS if exported.task == "translation" else TEXTS
    found = export_model(exported, held_out, "ctranslate2", tmp_path / "out")
    assert found.largest_difference <= parity.TOLERANCE
    assert found.identical == 1.0


def test_int8_leaves_the_model_as_it_was_and_is_measured(tmp_path: Path) -> None:
    exported = decoder()
    before = {name: weight.clone() for name, weight in exported.model.named_parameters()}
    found = export_model(exported, TEXTS, "ctranslate2", tmp_path / "out", int8=True)
    assert all(torch.equal(weight, before[name]) for name, weight in exported.model.named_parameters())
    assert found.precision == "int8"
    assert found.loss is not None
    assert found.loss[0] == pytest.approx(found.loss[1], rel=parity.LOSS_CHANGE)
    export_model(exported, TEXTS, "ctranslate2", tmp_path / "whole")
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("out", "whole")]
    assert sizes[0] < 0.6 * sizes[1]


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ({"precision": "int8", "bleu": (30.0, 29.6)}, "BLEU goes from 30.00 to 29.60"),
        ({"precision": "int8", "loss": (2.0, 2.1)}, "the loss goes from 2.0000 to 2.1000"),
        ({"precision": "float32", "identical": 0.99}, "99.00% of the answers are identical"),
        ({"precision": "float32", "largest_difference": float("nan")}, "differ by nan"),
    ],
)
def test_limits(found: dict[str, Any], complaint: str) -> None:
    usual = {"target": "ctranslate2", "layout": "x", "examples": 9, "compared": "logits", "largest_difference": 0.0}
    with pytest.raises(Failure, match=complaint):
        Parity(**{**usual, **found}).require()
    Parity(**usual, precision="int8", bleu=(30.0, 29.8), identical=0.5).require()


@pytest.mark.parametrize(
    ("exported", "words"),
    [
        (lambda: pair(position="alibi"), "model.position.kind: CTranslate2 needs"),
        (lambda: pair(final_norm=False), "model.final_norm: CTranslate2 needs true, got false"),
        (lambda: pair(attention={"kind": "window", "reach": 2}), "model.attention.kind: CTranslate2 needs 'full'"),
        (lambda: pair(norm={"kind": "layer", "epsilon": 0}), "model.norm.epsilon: CTranslate2 needs a number above 0"),
        (
            lambda: pair(attention={"kind": "full", "value_width": 6}),
            "model.attention.value_width: CTranslate2 needs nothing, got 6",
        ),
        (
            lambda: pair(attention={"kind": "full", "output_projection": False}),
            "model.attention.output_projection: CTranslate2 needs",
        ),
        (lambda: pair(position={"kind": "learned", "combine": "qkv"}), "model.position.combine: CTranslate2 needs"),
        (lambda: encoder(), "model.kind: CTranslate2 folders hold 'encoder-decoder' or 'decoder', got 'encoder'"),
    ],
)
def test_what_the_specifications_cannot_say_is_refused_by_name(exported: Any, words: str, tmp_path: Path) -> None:
    made = exported()
    with pytest.raises(ConfigError) as error:
        export_model(made, PAIRS if made.task == "translation" else TEXTS, "ctranslate2", tmp_path / "out")
    assert str(error.value).startswith(words)


def test_the_folder_is_enough_without_torch(tmp_path: Path) -> None:
    exported = pair()
    export_model(exported, PAIRS, "ctranslate2", tmp_path / "out")
    settings = json.loads((tmp_path / "out" / "regard.json").read_text())
    assert settings["task"] == "translation"
    assert settings["forbidden"] == ["<pad>", "<bos>"]
    program = (tmp_path / "out" / "README.md").read_text().split("```python\n")[1].split("```")[0]
    lines = program.strip().splitlines()
    script = "\n".join([*lines[:-1], f"print({lines[-1]})", "import sys; assert 'torch' not in sys.modules"])
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path / "out", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
