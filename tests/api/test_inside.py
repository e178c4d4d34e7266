"""What a model computes inside: exact weights, patches that act alike on whole passes and on decoding."""

from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.errors import ConfigError, RegardError
from regard.look.model_input import input_builder
from regard.look.replay import replay, without_heads
from regard.look.trace import model_input
from regard.nn.attention.reference import record_attention

SOURCE, TARGET = "The dog sleeps because it is tired.", "Der Hund schläft, weil er müde ist."


@pytest.fixture(scope="module")
def pairs(tour: Path) -> regard.Run:
    return regard.load(tour / "runs" / "pairs")


@pytest.fixture(scope="module")
def text(tour: Path) -> regard.Run:
    return regard.load(tour / "runs" / "text")


def test_weights_are_the_reference_attentions_own(pairs: regard.Run):
    attention = pairs.attention(SOURCE, TARGET)
    inputs = model_input(input_builder(pairs.opened, SOURCE), SOURCE, TARGET, pairs.recipe.usual_search)
    with torch.no_grad(), record_attention(pairs.model) as recorded:
        pairs.model(*inputs.arguments)
    names = {"encoder": "encoder.blocks.{}.attention", "decoder": "decoder.blocks.{}.attention"}
    for part, name in {**names, "cross": "decoder.blocks.{}.cross"}.items():
        weights = attention.parts[part].weights
        assert weights.dtype == np.float32
        for layer, array in enumerate(weights):
            assert np.array_equal(array, recorded[name.format(layer)][0].weights[0].numpy())
        assert weights.shape[2:] == (len(attention.parts[part].queries), len(attention.parts[part].keys))
    assert attention.output == TARGET
    assert attention.cross.queries[0] == "<bos>"
    assert np.array_equal(np.asarray(attention.cross), attention.cross.weights)
    assert len(repr(attention.cross)) < 300


def test_parts_that_a_model_lacks_are_named(text: regard.Run):
    attention = text.attention("the dog", " sees")
    assert list(attention.parts) == ["decoder"]
    with pytest.raises(RegardError, match="has no attention called cross; it has decoder"):
        _ = attention.cross
    with pytest.raises(RegardError, match="hidden: this model has no encoder; it has decoder"):
        _ = text.hidden("the dog").encoder


def test_logits_and_hidden_vectors_belong_together(pairs: regard.Run):
    logits, hidden = pairs.logits(SOURCE, TARGET), pairs.hidden(SOURCE, TARGET)
    assert hidden.tokens["decoder"] == logits.tokens
    last = torch.from_numpy(hidden.decoder[-1])[None]
    with torch.no_grad():
        expected = pairs.model.head(pairs.model.decoder.final_norm(last))[0]  # type: ignore[operator, union-attr]
    assert np.allclose(logits.values, expected.numpy(), atol=1e-5)
    assert len(logits.names) == logits.values.shape[1]
    assert np.allclose(logits.probabilities.sum(-1), 1, atol=1e-5)


def test_an_ablated_head_is_that_of_the_page(pairs: regard.Run):
    inputs = model_input(input_builder(pairs.opened, SOURCE), SOURCE, TARGET, pairs.recipe.usual_search)
    for part, layer, module in (("encoder", 1, "encoder.blocks.1.attention"), ("cross", 0, "decoder.blocks.0.cross")):
        with without_heads(pairs.model, [(module, 2)]):
            expected = replay(pairs.model, inputs.arguments)[0][0].numpy()
        with pairs.patch(part, layer, head=2):  # type: ignore[arg-type]
            assert np.allclose(pairs.logits(SOURCE, TARGET).values, expected, atol=1e-5)
            assert (pairs.opened.backend.stepper is pairs.model) == (part == "cross")


@pytest.mark.parametrize("change", [{"head": 1}, {"head": 1, "position": 3}, {"position": [2, 4]}])
def test_a_patch_acts_alike_on_decoding_and_on_a_whole_pass(text: regard.Run, change: dict):
    prompt = "the dog"
    plain = text.generate(prompt, max_length=12, temperature=0)
    with text.patch("decoder", 0, **change):
        generated = text.generate(prompt, max_length=12, temperature=0)
        logits = text.logits(prompt, generated)
    greedy = [logits.names[int(row.argmax())] for row in logits.values[len(prompt) - 1 : -1]]
    assert greedy == logits.tokens[len(prompt) :]
    assert text.generate(prompt, max_length=12, temperature=0) == plain


def test_a_position_of_one_text_replaced_by_that_of_another(text: regard.Run):
    clean, corrupt = text.hidden("the dog sees", ""), text.hidden("the cat sees", "")
    with text.patch("decoder", 0, position=[4, 5, 6], value=clean.decoder[1]):
        mixed = text.hidden("the cat sees", "").decoder
    assert np.array_equal(mixed[1][4:7], clean.decoder[1][4:7])
    assert np.array_equal(mixed[1][:4], corrupt.decoder[1][:4])
    assert np.array_equal(mixed[1][7:], corrupt.decoder[1][7:])
    assert not np.array_equal(mixed[2][7:], corrupt.decoder[2][7:])
    with text.patch("decoder", 1, position=-1, value=np.zeros(128)):  # no such position: nothing is replaced
        assert np.array_equal(text.hidden("the cat sees", "").decoder, corrupt.decoder)


@pytest.mark.parametrize(("arguments", "said"), [
    ({"part": "encoder", "layer": 0}, "part: expected one of decoder, got 'encoder'"),
    ({"part": "decoder", "layer": 2}, "layer: the decoder has 2 layers, from 0; got 2"),
    ({"part": "decoder", "layer": 0, "head": 9}, "head: expected 0 to 3, got 9"),
    ({"part": "decoder", "layer": 0, "value": [1, 2]}, r"value: expected 128 numbers, .*; got shape \(2,\)"),
    ({"part": "decoder", "layer": 0, "head": 1, "value": 3}, r"value: expected 32 numbers, .*; got shape \(\)"),
])  # fmt: skip
def test_patches_of_what_there_is_not_are_refused(text: regard.Run, arguments: dict, said: str):
    with pytest.raises(ConfigError, match=said), text.patch(**arguments):
        pass


def test_a_page_for_notebooks(text: regard.Run, tmp_path: Path):
    page = text.look("the dog")
    file = page.save(tmp_path / "page.html")
    assert file.read_text(encoding="utf-8") == page.html
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert shown.count('"') == 4


def test_a_short_repr_and_readable_metrics(text: regard.Run):
    assert repr(text).endswith(": language_model, decoder, 437,248 parameters, step 4)")
    assert [line["step"] for line in text.metrics if line["split"] == "train"] == [1, 2, 3, 4]


def test_the_scores_of_a_translator_have_a_short_repr(pairs: regard.Run):
    report = pairs.evaluate([(SOURCE, TARGET)] * 30)
    assert len(report.details["written"]) == 30
    assert len(repr(report)) < 1200
