"""What the page says is what the model does: weights, scores, vectors, measures, each against something else."""

import base64
import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from looked_at import TEXT, by_hand, classifier, translator, writer

from regard.config.tree import help_texts
from regard.data.street import LECTURE_SENTENCES
from regard.decode import GreedyConfig
from regard.errors import ConfigError, RegardError
from regard.look import TraceConfig, trace
from regard.look.coreference import SentenceTrace
from regard.look.groups import alignment, distance, entropy, previous, rollout
from regard.look.model_input import InputBuilder
from regard.look.pattern_figure import patterns
from regard.look.replay import replay, without_heads
from regard.models.convolutional import ByteNetConfig, ConvS2SConfig
from regard.models.recurrent import Seq2SeqConfig
from regard.nn.attention.reference import record_attention
from regard.nn.layout import Sequences
from regard.text.special_tokens import BOS, EOS

QUICK: dict[str, Any] = {"shuffles": 0, "coreference": False, "paths": False, "length": 6, "beam": 2}
TARGET = "Das Tier überquerte die Straße nicht."
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rotary": {"position": "rotary"},
    "alibi": {"position": "alibi"},
    "relative": {"position": "relative"},
    "t5 with shared keys": {"position": "t5", "attention": {"kind": "full", "kv_heads": 2}},
    "narrow heads": {"attention": {"kind": "full", "shape": "narrow"}},
    "no maps": {"attention": {"kind": "full", "projections": False}},
    "window": {"attention": {"kind": "window", "reach": 2}},
    "unscaled": {"attention": {"kind": "full", "scaled": False}},
}


def floats(packed: str, *shape: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed), "<f4").reshape(shape)


def weights(packed: str, *shape: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed), np.uint8).reshape(shape) / 255


def layers_of(tree: dict[str, Any]) -> list[dict[str, Any]]:
    return [layer for group in tree["groups"] for layer in group["layers"]]


def softmax(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(-1, keepdims=True)) * allowed
    return raised / raised.sum(-1, keepdims=True)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_those_of_record_attention(kind: str):
    model, task = translator(**KINDS[kind])
    tree = trace(by_hand(model, task), TEXT, TARGET, **QUICK)
    source = Sequences.padded([[*task.source.encode(TEXT), EOS]])
    target = Sequences.padded([[BOS, *task.target.encode(TARGET)]])
    with record_attention(model) as seen, torch.no_grad():
        model(source, target)
    assert {layer["module"] for layer in layers_of(tree)} == set(seen)
    for layer in layers_of(tree):
        steps = seen[layer["module"]][0]
        shape = (layer["heads"], layer["queries"], layer["keys"])
        true = steps.weights[0].numpy()
        assert np.abs(weights(layer["weights"], *shape) - true).max() <= 1 / 255
        assert layer["steps"]["queries"] == list(range(layer["queries"]))
        scaled, allowed = floats(layer["steps"]["scaled"], *shape), weights(layer["steps"]["allowed"], *shape)
        np.testing.assert_allclose(floats(layer["steps"]["scores"], *shape), steps.scores[0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(softmax(scaled, allowed), true, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_those_that_made_the_scores(kind: str):
    model, task = translator(**KINDS[kind])
    for layer in layers_of(trace(by_hand(model, task), TEXT, TARGET, **QUICK)):
        width, heads = layer["vectors"]["shown"], layer["heads"]
        query = floats(layer["vectors"]["query"], heads, layer["queries"], width)
        key = floats(layer["vectors"]["key"], heads, layer["keys"], width)
        scores = floats(layer["steps"]["scores"], heads, layer["queries"], layer["keys"])
        assert width == layer["vectors"]["width"]
        np.testing.assert_allclose(query @ key.swapaxes(1, 2), scores, rtol=1e-4, atol=1e-4)


def test_value_norms_are_the_lengths_of_what_a_key_adds():
    model, task = translator()
    layer = layers_of(trace(by_hand(model, task), TEXT, TARGET, **QUICK))[0]
    attention: Any = model.get_submodule(layer["module"])
    value = floats(layer["vectors"]["value"], layer["heads"], layer["keys"], layer["vectors"]["shown"])
    for head in range(layer["heads"]):
        alone = torch.zeros(layer["keys"], layer["heads"], value.shape[2])
        alone[:, head] = torch.from_numpy(value[head].copy())
        added = attention.output(alone.flatten(1)) - attention.output.bias
        np.testing.assert_allclose(layer["norms"][head], added.detach().norm(dim=-1), atol=1e-3)


def test_measures_of_heads_whose_answer_is_known():
    one_back = torch.diag(torch.ones(4), -1)
    one_back[0, 0] = 1
    heads = torch.stack([torch.eye(5), one_back, torch.full((5, 5), 0.2)])
    assert entropy(heads).tolist() == pytest.approx([0, 0, math.log2(5)])
    assert distance(heads).tolist() == pytest.approx([0, 0.8, 1.6])
    assert previous(heads).tolist() == pytest.approx([0, 1, 0.2])
    assert alignment(heads).tolist() == pytest.approx([1, 0.8, 0.2])


def test_rollout_of_heads_that_look_at_themselves_stays_put():
    still = torch.eye(4).expand(2, 4, 4)
    mixing = torch.full((2, 4, 4), 0.25)
    assert torch.allclose(rollout([still, still])[-1], torch.eye(4))
    assert torch.allclose(rollout([mixing])[0], 0.5 * torch.eye(4) + 0.125)
    assert torch.allclose(rollout([mixing, mixing, still])[-1].sum(-1), torch.ones(4))


def test_a_language_model_writes_on_and_every_step_has_its_probability():
    model, task = writer()
    tree = trace(by_hand(model, task), "The dog", **QUICK)
    ids = task.tokenizer.encode("The dog")
    assert tree["prompt_length"] == len(ids)
    with torch.no_grad():
        true = model(Sequences.padded([ids])).log_softmax(-1)[0]
    first = tree["generation"]["steps"][0]
    assert first["logprob"] == pytest.approx(float(true[0, ids[1]]), abs=1e-4)
    assert first["prompted"]
    assert first["top"][0][1] == pytest.approx(float(true[0].max()), abs=1e-4)
    assert tree["generation"]["steps"][-1]["token"] is None


def test_the_tail_keeps_the_whole_probability():
    model, task = translator()
    for step in trace(by_hand(model, task), TEXT, TARGET, **QUICK)["generation"]["steps"]:
        total = sum(math.exp(p) for _, p in step["top"]) + sum(n * math.exp(p) for n, p in step["tail"])
        assert total == pytest.approx(1, abs=1e-3)
        assert len(step["top"]) + sum(n for n, _ in step["tail"]) == task.target.vocab_size


def test_a_classifier_has_labels_and_refuses_a_target():
    model, task = classifier()
    tree = trace(by_hand(model, task), "a good film", **QUICK)
    assert {label for label, _ in tree["generation"]["classes"]} == {"bad", "good"}
    assert [group["name"] for group in tree["groups"]] == ["encoder"]
    with pytest.raises(ConfigError, match="target"):
        trace(by_hand(model, task), "a good film", "good")


def test_the_beam_tree_is_whole():
    model, task = translator()
    beam = trace(by_hand(model, task), TEXT, **{**QUICK, "beam": 3, "length": 5})["generation"]["beam"]
    assert beam["branches"]
    for place, (parent, step, _, logprob, total, _) in enumerate(beam["branches"]):
        before = beam["branches"][parent] if parent >= 0 else None
        assert parent < place
        assert (before[1] if before else -1) == step - 1
        assert total == pytest.approx((before[4] if before else 0) + logprob, abs=1e-3)


@pytest.mark.parametrize(("position", "blind"), [("none", True), ("sinusoidal", False), ("rotary", False)])
def test_shuffling_moves_vectors_unless_there_are_no_positions(position: str, blind: bool):
    model, task = classifier(position=position)
    shuffle = trace(by_hand(model, task), "the dog saw the old cat", **{**QUICK, "shuffles": 1})["shuffles"][0]
    assert sorted(shuffle["order"]) == list(range(len(shuffle["tokens"])))
    assert (min(shuffle["similarity"]) > 0.99999) == blind


def test_paths_are_measured_on_the_model():
    model, task = writer(attention={"kind": "window", "reach": 2}, depth=3)
    tree = trace(by_hand(model, task), "The dog sees the cat", **{**QUICK, "paths": True})["paths"]
    graph = np.array(tree["graph"])
    for query, key in np.ndindex(*graph.shape):
        steps = math.ceil((query - key) / 2)
        assert graph[query, key] == (steps if 0 <= steps <= 3 and key <= query else -1)
    influence = floats(tree["influence"], len(tree["queries"]), len(graph))
    for row, query in enumerate(tree["queries"]):
        assert not influence[row][graph[query] < 0].any()
        assert influence[row][graph[query] >= 0].all()


def test_biases_by_distance_are_those_of_the_kind():
    model, task = translator(position="alibi")
    tree = trace(by_hand(model, task), TEXT, TARGET, **QUICK)["positions"]
    first = np.array(tree["bias"][0]["heads"])
    apart = np.abs(np.arange(first.shape[1]) - first.shape[1] // 2)
    slopes = 2.0 ** (-8 * np.arange(1, 5) / 4)
    np.testing.assert_allclose(first, -slopes[:, None] * apart, atol=1e-3)


def test_switching_heads_off_is_the_model_with_their_output_rows_at_zero():
    model, _ = translator()
    arguments = (Sequences.padded([[8, 9, 10, EOS]]), Sequences.padded([[BOS, 9, 8]]))
    name, width = "encoder.blocks.1.attention", 8
    with without_heads(model, [(name, 2)]):
        off, _ = replay(model, arguments)
    plain, _ = replay(model, arguments)
    attention: Any = model.get_submodule(name)
    with torch.no_grad():
        attention.output.weight[:, 2 * width : 3 * width] = 0
    cut, _ = replay(model, arguments)
    assert torch.allclose(off, cut, atol=1e-6)
    assert not torch.allclose(off, plain, atol=1e-4)


def test_a_batch_that_lacks_a_head_a_row_is_each_lack_alone():
    model, task = translator()
    builder = InputBuilder(by_hand(model, task))
    side = SentenceTrace(builder, *LECTURE_SENTENCES[0], GreedyConfig(max_length=48))
    off = [(attention.name, head) for _, _, head, attention in side.heads]
    together = side._without(off)
    for name, head in (off[0], off[9], off[-1]):
        with without_heads(model, [(name, head)]):
            alone, _ = replay(model, side.inputs.arguments)
        expected = side._pronoun_probabilities(alone)[0]
        assert together[off.index((name, head))] == pytest.approx(expected.tolist(), abs=1e-4)


def test_an_untrained_model_fails_the_lectures_sentences_and_the_tree_says_so():
    model, task = translator()
    tree = trace(by_hand(model, task), TEXT, TARGET, **{**QUICK, "coreference": True})["coreference"]
    assert tree["right"] is False
    assert len(tree["heads"]) == 3 * 2 * 4
    for sentence in tree["sentences"]:
        assert len(sentence["without"]) == len(tree["heads"])
        assert sentence["words"]["source"][sentence["it"]] == "it"
        assert sum(sentence["attention"][0]) == pytest.approx(1, abs=1e-3)


def test_snapshots_hold_the_weights_of_other_checkpoints():
    (model, task), (other, _) = translator(), translator(initialise={"kind": "normal"})
    tree = trace(
        by_hand(model, task),
        TEXT,
        TARGET,
        snapshots=[by_hand(other, task, step=3), by_hand(model, task, step=9)],
        **QUICK,
    )
    layer = tree["groups"][0]["layers"][0]
    assert [shot["step"] for shot in tree["snapshots"]] == [3, 9]
    assert tree["snapshots"][1]["weights"]["encoder"][0] == layer["weights"]
    assert tree["snapshots"][0]["weights"]["encoder"][0] != layer["weights"]


def test_a_tree_is_strict_json():
    model, task = writer(attention={"kind": "full", "strict": True})
    json.dumps(trace(by_hand(model, task), "The dog", length=4), allow_nan=False)


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("  ", {}, "text: expected something to look at"),
        ("a " * 2000, {}, "at most 1,024 tokens"),
        ("dog", {"beem": 3}, "unknown setting; did you mean 'beam'"),
        ("dog", {"off": [["encoder.blocks.0.atention", 0]]}, "did you mean 'encoder.blocks.0.attention'"),
        ("dog", {"off": [["encoder.blocks.0.attention", 9]]}, "has heads 0 to 3, got 9"),
    ],
)
def test_mistakes_are_one_sentence(text: str, options: dict[str, Any], sentence: str):
    model, task = translator()
    with pytest.raises(RegardError, match=sentence):
        trace(by_hand(model, task), text, **options)


def test_options_have_help():
    assert help_texts(TraceConfig).keys() == TraceConfig.model_fields.keys()


def test_patterns_show_who_may_attend():
    model, task = writer()
    ((name, rows, columns, allowed),) = patterns(by_hand(model, task), "The dog", "sleeps")
    assert name == "decoder"
    assert rows == columns
    assert np.array_equal(np.array(allowed), np.tri(len(rows), dtype=bool))


@pytest.mark.parametrize(
    ("config", "layers"),
    [
        (Seq2SeqConfig(width=16, depth=1, dropout=0.0), {"cross": 1}),
        (ConvS2SConfig(width=16), {"cross": 6}),
        (ByteNetConfig(width=16), {}),
    ],
    ids=["recurrent", "convolutional", "without attention"],
)
def test_baselines_get_what_applies_to_them(config: Any, layers: dict[str, int]):
    _, task = translator()
    model = task.build(config).eval()
    tree = trace(by_hand(model, task), TEXT, TARGET, **{**QUICK, "paths": True, "coreference": True, "shuffles": 1})
    json.dumps(tree, allow_nan=False)
    assert {group["name"]: len(group["layers"]) for group in tree["groups"]} == layers
    assert len(tree["coreference"]["heads"]) == sum(layers.values())
    assert len(tree["generation"]["steps"]) == len(tree["sentences"]["target"]["tokens"])
    assert tree["generation"]["beam"]["branches"]
    assert sum(tree["paths"]["by_distance"]) > 0
    for layer in layers_of(tree):
        shape = (1, len(tree["sentences"]["target"]["tokens"]), len(tree["sentences"]["source"]["tokens"]))
        assert weights(layer["weights"], *shape).sum(-1) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("kind", ["linformer", "memory-compressed"])
def test_compressed_keys_show_weights_and_no_vectors(kind: str):
    model, task = translator(attention={"kind": kind}, decoder_attention={"kind": "full"})
    encoder, decoder, _ = trace(by_hand(model, task), TEXT, TARGET, **QUICK)["groups"]
    assert "vectors" not in encoder["layers"][0]
    assert "vectors" in decoder["layers"][0]
    assert encoder["rollout"] == []
