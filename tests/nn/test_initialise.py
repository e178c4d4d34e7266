"""Initialisation: the deviations that each scheme states, for every kind of matrix a model has."""

import math

import pytest
import torch
from pydantic import TypeAdapter
from torch import nn

from regard.errors import ConfigError
from regard.models import DecoderConfig, EncoderConfig
from regard.nn.attention.heads import HeadProjection, NarrowHeadProjection
from regard.nn.attention.kinds import FullConfig
from regard.nn.attention.module import Attention
from regard.nn.embedding import EmbeddingConfig
from regard.nn.experts import Experts, ExpertsConfig
from regard.nn.feedforward import FeedForwardConfig, GatedConfig
from regard.nn.initialise import InitialiseConfig, KeepConfig, NormalConfig, XavierConfig
from regard.nn.position import LearnedConfig

FEEDFORWARDS = [FeedForwardConfig(), GatedConfig(bias=True), ExpertsConfig(experts=4)]
SHAPES = ["standard", "narrow", "wide"]


def model(initialise, shape="standard", feedforward=FEEDFORWARDS[0]) -> nn.Module:
    torch.manual_seed(0)
    return DecoderConfig(
        width=64,
        heads=2,
        depth=2,
        attention=FullConfig(shape=shape),
        position=LearnedConfig(length=100),
        feedforward=feedforward,
        embedding=EmbeddingConfig(share="none"),
        initialise=initialise,
    ).build(vocab=200)


def assert_deviation(weight: torch.Tensor, expected: float):
    assert weight.std().item() == pytest.approx(expected, rel=0.08)
    assert abs(weight.mean().item()) < expected / 5


def assert_biases_are_zero(built: nn.Module):
    for part in built.modules():
        if isinstance(part, nn.Linear | HeadProjection | NarrowHeadProjection) and part.bias is not None:
            assert (part.bias == 0).all()


@pytest.mark.parametrize("gain", [1.0, 0.5])
@pytest.mark.parametrize("feedforward", FEEDFORWARDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_xavier_scales_by_fan_in_and_fan_out(shape, feedforward, gain: float):
    built = model(XavierConfig(gain=gain), shape, feedforward)
    for part in built.modules():
        if isinstance(part, nn.Linear):
            assert_deviation(part.weight, gain * math.sqrt(2 / sum(part.weight.shape)))
            assert part.weight.abs().max() <= gain * math.sqrt(6 / sum(part.weight.shape)) + 1e-6, "uniform"
        elif isinstance(part, nn.Embedding):
            assert_deviation(part.weight, part.embedding_dim**-0.5)
        elif isinstance(part, NarrowHeadProjection):
            assert_deviation(part.weight, gain * math.sqrt(2 / (2 * part.weight.shape[-1])))
        elif isinstance(part, Experts):
            for weight in (part.up, part.down):
                assert_deviation(weight, gain * math.sqrt(2 / sum(weight.shape[1:])))
    assert_biases_are_zero(built)


@pytest.mark.parametrize("shrink", [True, False])
@pytest.mark.parametrize("feedforward", FEEDFORWARDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_normal_has_one_deviation_and_shrinks_what_enters_the_stream(shape, feedforward, shrink: bool):
    built = model(NormalConfig(deviation=0.1, shrink=shrink), shape, feedforward)
    into_stream = 0.1 / math.sqrt(2 * 2) if shrink else 0.1
    seen = 0
    for name, weight in built.named_parameters():
        if weight.dim() < 2 or name.endswith("bias"):
            continue
        enters = name.endswith(("attention.output.weight", "down.weight", "feedforward.down"))
        assert_deviation(weight, into_stream if enters else 0.1)
        seen += enters
    assert seen == 4, "attention and feed-forward of two blocks"
    assert_biases_are_zero(built)


def test_keep_leaves_everything_as_it_is():
    torch.manual_seed(0)
    part = Attention(8, 2)
    before = {name: weight.clone() for name, weight in part.named_parameters()}
    KeepConfig().apply(part, depth=1)
    assert all(torch.equal(weight, before[name]) for name, weight in part.named_parameters())


@pytest.mark.parametrize("kind", ["xavier", "normal", "torch"])
def test_the_same_seed_draws_the_same_numbers(kind: str):
    scheme = TypeAdapter(InitialiseConfig).validate_python(kind)
    one, other = model(scheme), model(scheme)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("kind", ["xavier", "normal", "torch"])
def test_every_kind_survives_the_way_through_a_tree(kind: str):
    family = TypeAdapter(InitialiseConfig)
    config = family.validate_python(kind)
    assert family.validate_python(config.tree()) == config


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: NormalConfig(deviation=0), "deviation: expected greater than 0, got 0"),
        (lambda: XavierConfig(gain=-1), "gain: expected greater than 0, got -1"),
        (lambda: EncoderConfig(initialise="javier"), "initialise: unknown kind 'javier'; did you mean 'xavier'?"),
    ],
)
def test_what_cannot_be_is_refused(ask, sentence: str):
    with pytest.raises(ConfigError) as refused:
        ask()
    assert str(refused.value) == sentence
