"""What leaves as a Hugging Face folder computes the same in transformers, and comes back the same."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import BERT, LLAMA, ODD, PAIRS, T5, TEXTS, decoder, encoder, pair
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from regard.errors import ConfigError, Failure, RunError
from regard.export import parity
from regard.export.export import export_model
from regard.export.exported_model import ExportedModel
from regard.export.huggingface.export import HuggingFace
from regard.export.huggingface.import_model import read_folder
from regard.tasks.generation import TextGenerator
from regard.text.special_tokens import BOS, EOS

SUBJECTS: dict[str, tuple[str, Any]] = {
    "Pegasus": ("Pegasus", lambda: pair()),
    "Pegasus, learned positions": ("Pegasus", lambda: pair(position={"kind": "learned", "length": 60})),
    "Pegasus, no biases, shallow": (
        "Pegasus",
        lambda: pair(
            decoder_depth=1,
            attention={"kind": "full", "bias": False},
            feedforward={"kind": "plain", "bias": False, "activation": "gelu", "hidden": 40},
            norm={"kind": "layer", "shift": False},
            head={"kind": "vocabulary", "bias": True},
        ),
    ),
    "Marian": ("Marian", lambda: pair(norm_place="after")),
    "Marian, two vocabularies": ("Marian", lambda: pair(False, norm_place="after", embedding={"share": "output"})),
    "T5": ("T5", lambda: pair(**T5)),
    "T5, gated": (
        "T5",
        lambda: pair(**{**T5, "feedforward": {"kind": "gated", "activation": "gelu-tanh"}, "decoder_depth": 1}),
    ),
    "GPT-2": ("GPT-2", lambda: decoder(position={"kind": "learned", "length": 64}, embedding={"scale": False})),
    "GPT-2, waves and scale folded": ("GPT-2", lambda: decoder()),
    "GPT-2, waves from one": (
        "GPT-2",
        lambda: decoder(position={"kind": "sinusoidal", "exponents_from": 1, "positions_from": 1}),
    ),
    "GPT-2, running text": ("GPT-2", lambda: decoder(False, feedforward={"kind": "plain", "activation": "gelu-tanh"})),
    "GPT-NeoX": ("GPT-NeoX", lambda: decoder(position={"kind": "rotary", "share": 0.5}, embedding={"scale": False})),
    "Llama": ("Llama", lambda: decoder(**LLAMA)),
    "Llama, tied, wide heads, biases": (
        "Llama",
        lambda: decoder(
            **{
                **LLAMA,
                "attention": {"kind": "full", "head_width": 12},
                "feedforward": {"kind": "gated", "bias": True},
                "embedding": {"share": "all", "scale": False},
            }
        ),
    ),
    "BERT": ("BERT", lambda: encoder(**BERT)),
}


def held_out(exported: ExportedModel) -> Any:
    return PAIRS if exported.task == "translation" else TEXTS


@pytest.mark.parametrize("name", SUBJECTS)
def test_there_and_back(name: str, tmp_path: Path) -> None:
    layout, make = SUBJECTS[name]
    exported = make()
    found = export_model(exported, held_out(exported), "huggingface", tmp_path / "out")
    assert found.layout == layout
    assert found.largest_difference <= parity.TOLERANCE
    assert found.identical == 1.0
    back = read_folder(tmp_path / "out")
    vocabularies = [tokenizer.vocab_size for tokenizer in back.tokenizers]
    model = back.config.build(*vocabularies, *([len(back.labels)] if back.labels else []))
    model.load_state_dict(back.weights, strict=False)
    assert {name for name, _ in model.named_parameters()} == back.weights.keys()
    returned = replace(exported, model=model.eval(), config=back.config)
    rows = held_out(exported).rows(exported)
    for one, other in zip(
        parity.TorchEngine(exported).scores(rows), parity.TorchEngine(returned).scores(rows), strict=True
    ):
        torch.testing.assert_close(torch.tensor(one), torch.tensor(other), atol=1e-5, rtol=0)
    assert [t.identity for t in back.tokenizers] == [t.identity for t in dict.fromkeys(exported.tokenizers.values())]


def test_the_folder_translates_in_transformers_as_here(tmp_path: Path) -> None:
    exported = pair(norm_place="after")
    export_model(exported, PAIRS, "huggingface", tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    inputs = tokenizer(list(PAIRS.texts), return_tensors="pt", padding=True)
    theirs = tokenizer.batch_decode(model.generate(**inputs, max_new_tokens=20), skip_special_tokens=True)
    writer = TextGenerator(exported.model, exported.source, exported.target, torch.device("cpu"))
    ours = writer.translate(list(PAIRS.texts), parity.GreedyConfig(max_length=20))
    assert theirs == [outputs[0].text for outputs in ours]
    assert any(theirs)


def test_the_report_says_what_was_measured(tmp_path: Path) -> None:
    found = export_model(pair(), PAIRS, "huggingface", tmp_path / "out")
    tree = json.loads((tmp_path / "out" / "parity.json").read_text())
    assert tree["passed"] is True
    assert tree["examples"] == len(PAIRS.texts)
    assert tree["largest_difference"] == found.largest_difference
    assert tree["layout"] == "Pegasus"
    card = (tmp_path / "out" / "README.md").read_text()
    assert card.startswith("# out\n")
    assert "AutoModelForSeq2SeqLM.from_pretrained" in card
    assert "5 held-out examples" in card


@pytest.mark.parametrize("wrong", [0.5, float("nan")])
def test_an_export_that_computes_something_else_is_not_kept(
    wrong: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = HuggingFace.__init__

    def damaged(self: HuggingFace, *given: Any) -> None:
        load(self, *given)
        self.model.model.decoder.layers[0].fc1.weight.data[0, 0] += wrong

    monkeypatch.setattr(HuggingFace, "__init__", damaged)
    with pytest.raises(Failure, match="failed its check and was not kept: logits differ"):
        export_model(pair(), PAIRS, "huggingface", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("exported", "path", "words"),
    [
        (lambda: pair(position="rotary"), "model.position.kind", "the Pegasus layout needs 'sinusoidal' or 'learned'"),
        (
            lambda: pair(decoder_attention={"kind": "window", "reach": 3}),
            "model.decoder_attention",
            "the Pegasus layout needs nothing or 'full', got 'window', reach=3;",
        ),
        (lambda: pair(norm="rms"), "model.norm.kind", "needs 'layer', got 'rms'"),
        (lambda: pair(norm={"kind": "layer", "epsilon": 1e-6}), "model.norm.epsilon", "needs 1e-05, got 1e-06"),
        (lambda: pair(attention={"kind": "window", "reach": 3}), "model.attention.kind", "needs 'full', got 'window'"),
        (lambda: pair(False, embedding={"share": "none"}), "model.embedding.share", "needs 'all'"),
        (lambda: decoder(position="alibi"), "model.position.kind", "export to onnx"),
        (lambda: decoder(head={"kind": "vocabulary", "bias": True}), "model.head.bias", "needs false, got true"),
        (lambda: decoder(norm={"kind": "layer", "epsilon": 0}), "model.norm.epsilon", "needs a number above 0, got 0"),
        (
            lambda: decoder(norm={"kind": "layer", "epsilon_inside": False, "root_deviation": True}),
            "model.norm.epsilon_inside",
            "needs true, got false",
        ),
        (
            lambda: pair(attention={"kind": "full", "value_width": 6}),
            "model.attention.value_width",
            "needs nothing, got 6",
        ),
        (
            lambda: pair(attention={"kind": "full", "output_projection": False}),
            "model.attention.output_projection",
            "needs true, got",
        ),
        (lambda: decoder(position={"kind": "sinusoidal", "combine": "qkv"}), "model.position.combine", "needs 'add'"),
        (lambda: encoder(), "model.norm_place", "'before'; model.final_norm needs false, got true; model.embedding"),
        (lambda: encoder(**{**BERT, "head": "pooled"}), "model.head.pooling", "needs 'first', got 'mean'"),
    ],
)  # fmt: skip
def test_what_no_layout_can_say_is_refused_by_name(exported: Any, path: str, words: str, tmp_path: Path) -> None:
    made = exported()
    with pytest.raises(ConfigError) as error:
        export_model(made, held_out(made), "huggingface", tmp_path / "out")
    assert words in str(error.value)
    assert path in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_wrong_wishes_are_refused(tmp_path: Path) -> None:
    exported = pair()
    with pytest.raises(ConfigError, match="--to: expected one of huggingface"):
        export_model(exported, PAIRS, "pickle", tmp_path / "out")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="--int8: only ctranslate2"):
        export_model(exported, PAIRS, "huggingface", tmp_path / "out", int8=True)
    with pytest.raises(RunError, match="exists already"):
        export_model(exported, PAIRS, "huggingface", tmp_path)


@pytest.fixture(scope="module")
def both_tokenizers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder, exported = tmp_path_factory.mktemp("export") / "out", pair()
    export_model(exported, PAIRS, "huggingface", folder)
    return exported.source, AutoTokenizer.from_pretrained(folder)


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.sampled_from(ODD), st.text()))
def test_both_tokenizers_cut_every_text_alike(both_tokenizers: Any, text: str) -> None:
    ours, theirs = both_tokenizers
    ids = theirs(text)["input_ids"]
    assert ids == [*ours.encode(text), EOS]
    assert theirs.decode(ids, skip_special_tokens=True) == ours.decode(ids)


def test_documents_begin_with_their_token(tmp_path: Path) -> None:
    exported = decoder()
    export_model(exported, TEXTS, "huggingface", tmp_path / "out")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert theirs("The cat")["input_ids"] == [BOS, *exported.target.encode("The cat")]
    assert theirs.padding_side == "left"
