"""What leaves as ONNX graphs computes the same in onnxruntime, cache and all."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from onnx_checks import checked
from tiny import PAIRS, TEXTS, decoder, encoder, masked, pair, tagger

from regard.errors import ConfigError
from regard.export.exported_model import ExportedModel
from regard.export.onnx.export import refuse_unsupported

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

SHALLOW: dict[str, Any] = {"depth": 1}
EXPERTS = {"kind": "experts", "experts": 4, "chosen": 2, "hidden": 16}
COMPRESSED = {"kind": "memory-compressed", "stride": 2, "block": 4}
SUBJECTS: dict[str, Any] = {
    "relative": lambda: pair(**SHALLOW, position={"kind": "relative", "clip": 3}),
    "readings of the lectures": lambda: decoder(
        **SHALLOW,
        position={"kind": "sinusoidal", "combine": "qkv", "exponents_from": 1, "positions_from": 1},
        norm={"kind": "layer", "epsilon": 0, "epsilon_inside": False, "root_deviation": True},
        attention={"kind": "full", "output_projection": False},
    ),
    "experts, strict": lambda: decoder(**SHALLOW, feedforward=EXPERTS, attention={"kind": "full", "strict": True}),
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
    "bigbird, added": lambda: encoder(
        attention={"kind": "bigbird", "block": 4, "global_tokens": 2, "random": 1, "added": True}
    ),
    "running text, narrow heads": lambda: decoder(False, attention={"kind": "full", "shape": "narrow"}),
    "classes": lambda: encoder(**SHALLOW, position={"kind": "learned", "length": 64}),
    "classes, max, waves": lambda: encoder(head={"kind": "pooled", "pooling": "max"}),
    "last of a decoder": lambda: decoder_that_labels(),
    "values of another width": lambda: pair(attention={"kind": "full", "value_width": 6, "kv_heads": 2}),
    "linformer, positions in heads": lambda: encoder(
        attention={"kind": "linformer", "length": 40, "projected": 6}, position={"kind": "sinusoidal", "combine": "qkv"}
    ),
    "linformer": lambda: encoder(attention={"kind": "linformer", "length": 40, "projected": 6}),
    "compressed memory": lambda: pair(position="alibi", attention=COMPRESSED),
    "local and compressed by turns": lambda: decoder(
        position="rotary", attention={"kind": "alternating", "kinds": [{"kind": "local", "block": 4}, COMPRESSED]}
    ),
    "experts in both stacks": lambda: pair(feedforward=EXPERTS),
    "tags": lambda: tagger(),
    "hidden words": lambda: masked(head={"kind": "vocabulary", "transform": "gelu", "bias": True}),
}


def decoder_that_labels() -> ExportedModel:
    made = decoder()
    config = made.config.but(head={"kind": "pooled", "pooling": "last", "hidden": 8})
    labels = ("bad", "good")
    model = config.build(made.target.vocab_size, len(labels)).eval()
    return ExportedModel(model, config, "classification", made.tokenizers, labels, length=48)


def held_out(exported: ExportedModel) -> Any:
    return PAIRS if exported.task == "translation" else TEXTS


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_graphs_compute_the_same(name: str, tmp_path: Path) -> None:
    exported = SUBJECTS[name]()
    checked(exported, held_out(exported), tmp_path / "out")
    if exported.task == "translation":
        runs_without_torch(tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_the_graphs_of_other_variants_compute_the_same(name: str, tmp_path: Path) -> None:
    exported = SLOW[name]()
    model = checked(exported, held_out(exported), tmp_path / "out")
    if exported.task == "tagging":
        (tags,) = model.classify(["The cat sleeps"])
        assert len(tags.split()) == 3
        assert set(tags.split()) <= set(exported.labels)


def runs_without_torch(folder: Path) -> None:
    script = (
        "import sys; from regard.export.onnx.engine import OnnxModel; print(OnnxModel('.').generate(['The cat.'], 9)); "
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_sentences_tree_is_refused_by_name() -> None:
    with pytest.raises(ConfigError) as error:
        refuse_unsupported(tagger(position="tree").resolved_config)
    assert str(error.value).startswith("model.position.kind: an ONNX graph needs 'none' or")
    assert "no input for a sentence's tree" in str(error.value)
