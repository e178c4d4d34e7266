"""Output layers: over the vocabulary (shared or not), over classes of a sequence, over classes of each token."""

import pytest
import torch
from attention_cases import assert_close
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.errors import ConfigError
from regard.models import EncoderConfig
from regard.nn import head as heads
from regard.nn.embedding import Embedding
from regard.nn.head import (
    HeadConfig,
    PooledHead,
    PooledHeadConfig,
    TokenHeadConfig,
    VocabularyHead,
    VocabularyHeadConfig,
    pool,
)
from regard.nn.loss import IGNORED

POOLINGS = ("mean", "max", "first", "last")


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 3), st.sampled_from(POOLINGS))
def test_pooling_ignores_padding(lengths: list[int], extra: int, pooling):
    time = max(lengths) + extra
    x, valid = torch.randn(len(lengths), time, 3), torch.arange(time) < torch.tensor(lengths)[:, None]
    by_hand = {
        "mean": lambda row: row.sum(0) / len(row),
        "max": lambda row: row.max(0).values,
        "first": lambda row: row[0],
        "last": lambda row: row[-1],
    }[pooling]
    for got, row, length in zip(pool(x, valid, pooling), x, lengths, strict=True):
        assert_close(got, by_hand(row[:length]), 1e-6)
    assert torch.equal(pool(x.masked_fill(~valid[..., None], 99.0), valid, pooling), pool(x, valid, pooling))


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("hidden", [None, 5])
def test_a_pooled_head_maps_what_it_pooled(pooling, hidden: int | None):
    part, x, valid = PooledHead(4, 3, pooling, hidden), torch.randn(2, 6, 4), torch.ones(2, 6, dtype=torch.bool)
    pooled = pool(x, valid, pooling)
    if part.hidden is not None:
        pooled = torch.tanh(pooled @ part.hidden.weight.T + part.hidden.bias)
    assert_close(part(x, valid), pooled @ part.linear.weight.T + part.linear.bias, 1e-5)


@pytest.mark.parametrize("factor", [None, 3])
def test_a_shared_head_owns_no_matrix(factor: int | None):
    embedding, x = Embedding(10, 4, factor=factor), torch.randn(2, 3, 4)
    part = VocabularyHead(4, 10, shared=embedding, bias=True)
    assert [name for name, _ in part.named_parameters()] == ["bias"]
    part.bias.data.normal_()
    vectors = embedding(torch.arange(10)[None])[0] / embedding.scale
    assert_close(part(x), x @ vectors.T + part.bias, 1e-5)


@pytest.mark.parametrize("bias", [False, True])
def test_a_vocabulary_head_of_its_own(bias: bool):
    part, x = VocabularyHead(4, 10, bias=bias), torch.randn(2, 3, 4)
    assert part.linear is not None
    assert_close(part(x), x @ part.linear.weight.T + (part.bias if bias else 0), 1e-6)


def test_a_head_may_transform_and_scale_first():
    x = torch.randn(2, 3, 4)
    part = VocabularyHead(4, 10, transform="gelu", scale=True)
    assert part.transform is not None
    bent = torch.nn.functional.gelu(x @ part.transform.weight.T + part.transform.bias)
    normed = torch.nn.functional.layer_norm(bent, (4,), eps=1e-5)
    assert_close(part(x), normed / 2 @ part.linear.weight.T, 1e-5)


@pytest.mark.parametrize("factor", [None, 3])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("more", [{}, {"bias": True, "transform": "gelu"}, {"scale": True}])
def test_the_loss_in_slices_equals_the_loss_at_once(monkeypatch: pytest.MonkeyPatch, shared, factor, more):
    torch.manual_seed(0)
    embedding = Embedding(10, 4, factor=factor) if shared else None
    part = VocabularyHead(4, 10, embedding, **more)
    x, targets = torch.randn(2, 6, 4, requires_grad=True), torch.randint(10, (2, 6))
    targets[0, 3:] = IGNORED
    learned = [x, *part.parameters(), *(embedding.parameters() if embedding else ())]

    def loss_and_slopes() -> list[Tensor]:
        loss = part.loss(x, targets, smoothing=0.1)
        return [loss.detach(), *torch.autograd.grad(loss, learned)]

    at_once = loss_and_slopes()
    monkeypatch.setattr(heads, "LARGE", 0)
    for got, wanted in zip(loss_and_slopes(), at_once, strict=True):
        assert_close(got, wanted, 1e-5)


@pytest.mark.parametrize("more", [{}, {"bias": True}, {"transform": "gelu"}, {"scale": True, "bias": True}])
@pytest.mark.parametrize("factor", [None, 3])
@pytest.mark.parametrize("shared", [False, True])
def test_vocabulary_config_counts_what_the_built_part_has_and_costs(more, factor: int | None, shared: bool):
    config = VocabularyHeadConfig(**more)
    part = config.build(4, 10, Embedding(10, 4, factor=factor) if shared else None)
    assert config.num_params(4, 10, shared) == sum(p.numel() for p in part.parameters())
    with FlopCounterMode(display=False) as counted:
        part(torch.randn(2, 5, 4))
    assert counted.get_total_flops() == config.flops(4, 10, tokens=10, factor=factor if shared else None)


@pytest.mark.parametrize("config", [PooledHeadConfig(), PooledHeadConfig(hidden=6, pooling="max"), TokenHeadConfig()])
def test_class_configs_count_what_the_built_part_has_and_costs(config):
    part, x = config.build(4, 3), torch.randn(2, 5, 4)
    assert config.num_params(4, 3) == sum(p.numel() for p in part.parameters())
    pooled = isinstance(config, PooledHeadConfig)
    with FlopCounterMode(display=False) as counted:
        y = part(x, torch.ones(2, 5, dtype=torch.bool)) if pooled else part(x)
    assert y.shape == ((2, 3) if pooled else (2, 5, 3))
    assert counted.get_total_flops() == config.flops(4, 3, 2 if pooled else 10)


@pytest.mark.parametrize("kind", ["vocabulary", "pooled", "token"])
def test_every_kind_survives_the_way_through_a_tree(kind: str):
    family = TypeAdapter(HeadConfig)
    config = family.validate_python(kind)
    assert family.validate_python(config.tree()) == config


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (
            lambda: PooledHeadConfig(pooling="median"),
            "pooling: expected 'mean', 'max', 'first' or 'last', got 'median'",
        ),
        (lambda: EncoderConfig(head="vocab"), "head: unknown kind 'vocab'"),
        (lambda: EncoderConfig(head=TokenHeadConfig()).build(10), "model.head: a token head cannot give tokens"),
        (lambda: EncoderConfig(head=VocabularyHeadConfig()).build(10, 2), "model.head: a vocabulary head cannot give"),
    ],
)
def test_what_cannot_be_is_refused(ask, sentence: str):
    with pytest.raises(ConfigError) as refused:
        ask()
    assert str(refused.value).startswith(sentence)
