"""Positions on the inputs: none, sinusoidal, learned; added or concatenated; at the first layer or at every one."""

import math

import pytest
import torch
from attention_cases import assert_close
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from regard.errors import ConfigError, RegardError
from regard.models import EncoderConfig
from regard.nn.context import AttentionContext
from regard.nn.layout import Layout, Sequences
from regard.nn.position import Learned, LearnedConfig, NoPositionConfig, Position, Sinusoidal, SinusoidalConfig
from regard.nn.position.absolute import waves

STACK = {"width": 8, "heads": 2, "head_width": 4}


def at(places: list[list[int]]) -> AttentionContext:
    index = torch.tensor(places)
    return AttentionContext(None, index, index)


@given(st.integers(1, 20), st.lists(st.integers(0, 300), min_size=1, max_size=5), st.sampled_from([100.0, 10_000.0]))
def test_sinusoids_equal_the_formula_number_by_number(width: int, places: list[int], base: float):
    table = waves(torch.tensor([places]), width, base)[0]
    halves = waves(torch.tensor([places]), width, base, interleaved=False)[0]
    for row, place in enumerate(places):
        for i in range(width):
            angle = place / base ** ((i - i % 2) / width)
            expected = math.cos(angle) if i % 2 else math.sin(angle)
            assert table[row, i].item() == pytest.approx(expected, abs=2e-4)
            column = (width + 1) // 2 * (i % 2) + i // 2
            assert halves[row, column].item() == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("width", [4, 16, 64])
def test_each_place_has_waves_of_its_own(width: int):
    table = waves(torch.arange(1000)[None], width)[0].double()
    apart = torch.cdist(table, table) + torch.eye(1000) * 9
    assert apart.min() > 1e-3


@pytest.mark.parametrize("position", [Sinusoidal(8), Learned(8, 12)])
def test_positions_are_added_by_place_not_by_column(position: Sinusoidal | Learned):
    x = torch.randn(2, 4, 8)
    y = position.embed(x, at([[0, 1, 0, 1], [5, 6, 7, 8]]))
    vectors = position.vectors(torch.arange(12)[None])[0]
    for row, places in enumerate([[0, 1, 0, 1], [5, 6, 7, 8]]):
        for column, place in enumerate(places):
            assert_close(y[row, column], x[row, column] + vectors[place], 1e-6)


@pytest.mark.parametrize("position", [Sinusoidal(8, combine="concat"), Learned(8, 12, combine="concat")])
def test_concatenated_positions_are_mapped_back(position: Sinusoidal | Learned):
    x = torch.randn(3, 4, 8)
    y = position.embed(x, at([[0, 1, 2, 3]]))
    assert position.mix is not None
    vectors = position.vectors(torch.arange(4)[None])[0]
    for row in range(3):
        expected = torch.cat([x[row], vectors], -1) @ position.mix.weight.T
        assert_close(y[row], expected, 1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_positions_take_the_precision_of_the_inputs(dtype: torch.dtype):
    assert Sinusoidal(8).embed(torch.zeros(1, 3, 8, dtype=dtype), at([[0, 1, 2]])).dtype == dtype


def test_none_does_nothing_anywhere():
    position = NoPositionConfig().build(**STACK, causal=False)
    x, heads, context = torch.randn(1, 3, 8), torch.randn(1, 2, 3, 4), at([[0, 1, 2]])
    assert type(position) is Position
    assert position.embed(x, context) is x
    assert position.rotate(heads, context.query_positions) is heads
    assert position.bias(heads, context) is None
    assert position.values(torch.randn(1, 2, 3, 3), context) is None
    assert not position.needs_weights


def test_a_learned_table_refuses_what_lies_beyond_it():
    position = Learned(8, 4)
    position.embed(torch.randn(1, 4, 8), at([[0, 1, 2, 3]]))
    position.embed(torch.randn(1, 6, 8), at([[0, 1, 2, 0, 1, 2]]))  # packed: no sequence is longer than the table
    with pytest.raises(ConfigError, match=r"model\.position\.length: .*reach 4 tokens, got a sequence of 6; train"):
        position.embed(torch.randn(1, 6, 8), at([[0, 1, 2, 3, 4, 5]]))


@pytest.mark.parametrize("combine", ["add", "concat"])
def test_a_model_refuses_a_sentence_beyond_its_table(combine):
    config = EncoderConfig(width=8, heads=2, depth=1, position=LearnedConfig(length=4, combine=combine))
    model = config.build(vocab=10)
    model(Sequences.padded([[1, 2, 3, 4], [1]]))
    with pytest.raises(RegardError, match="reach 4 tokens, got a sequence of 5"):
        model(Sequences.padded([[1, 2, 3, 4, 5], [1]]))
    packed = Sequences.packed([[1, 2, 3, 4], [1, 2, 3, 4], [5]])
    assert model(packed).shape == (1, 9, 10)


@pytest.mark.parametrize("combine", ["add", "concat"])
@pytest.mark.parametrize("kind", [SinusoidalConfig, LearnedConfig])
def test_config_counts_what_the_built_part_has_and_costs(kind, combine: str):
    config = kind(combine=combine)
    position = config.build(**STACK, causal=False)
    assert config.num_params(**STACK) == sum(p.numel() for p in position.parameters())
    with FlopCounterMode(display=False) as counted:
        position.embed(torch.randn(2, 5, 8), at([[0, 1, 2, 3, 4]]))
    assert counted.get_total_flops() == config.input_flops(width=8, batch=2, time=5)
    assert config.flops(**STACK, batch=2, queries=5, keys=5) == 0
    assert config.longest == getattr(config, "length", None)


@pytest.mark.parametrize("combine", ["add", "concat"])
@pytest.mark.parametrize("layers", ["first", "every"])
def test_at_the_first_layer_or_at_every_one(layers, combine, monkeypatch: pytest.MonkeyPatch):
    calls = []
    embed = Sinusoidal.embed
    monkeypatch.setattr(Sinusoidal, "embed", lambda self, x, context: calls.append(1) or embed(self, x, context))
    position = SinusoidalConfig(layers=layers, combine=combine)
    model = EncoderConfig(width=8, heads=2, depth=3, position=position).build(vocab=10)
    model(Sequences.padded([[1, 2, 3]]))
    assert len(calls) == (3 if layers == "every" else 1)
    assert position.every_layer == (layers == "every")


def test_every_layer_matters():
    torch.manual_seed(0)
    shape = {"width": 8, "heads": 2, "depth": 2, "dropout": 0.0}
    once, often = (EncoderConfig(**shape, position=SinusoidalConfig(layers=k)) for k in ("first", "every"))
    models = [config.build(vocab=10) for config in (once, often)]
    models[1].load_state_dict(models[0].state_dict())
    sentence = Sequences(torch.tensor([[1, 2, 3]]), Layout.full(1, 3))
    assert (models[0](sentence) - models[1](sentence)).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: LearnedConfig(length=0), "length: expected greater than 0, got 0"),
        (lambda: SinusoidalConfig(combine="multiply"), "combine: expected 'add', 'concat' or 'qkv', got 'multiply'"),
        (lambda: SinusoidalConfig(base=-1.0), "base: expected greater than 0, got -1.0"),
        (lambda: EncoderConfig(position="sinusoid"), "position: unknown kind 'sinusoid'; that is 'sinusoidal' here"),
    ],
)
def test_what_cannot_be_is_refused(ask, sentence: str):
    with pytest.raises(ConfigError) as refused:
        ask()
    assert str(refused.value) == sentence
