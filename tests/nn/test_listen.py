"""Attention of recurrent decoders: against sums over pairs, with padding, recorded and counted."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.errors import ConfigError
from regard.nn.attention.reference import AttentionSteps
from regard.nn.attention.seq2seq import (
    AdditiveAttention,
    AdditiveConfig,
    DotAttention,
    DotConfig,
    GeneralAttention,
    GeneralConfig,
    Seq2SeqAttention,
)

CONFIGS = [DotConfig(), DotConfig(scaled=True), GeneralConfig(), GeneralConfig(scaled=True), AdditiveConfig(hidden=5)]
KINDS = [(config, 4, 4) for config in CONFIGS] + [(config, 4, 6) for config in CONFIGS[2:]]


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def score(listen: Seq2SeqAttention, s: Tensor, h: Tensor) -> Tensor:
    """e of one pair, as the module docstring writes it."""
    if isinstance(listen, DotAttention):
        return s @ h * listen.scale
    if isinstance(listen, GeneralAttention):
        return s @ (listen.map.weight @ h) * listen.scale
    assert isinstance(listen, AdditiveAttention)
    inner = torch.tanh(listen.query.weight @ s + listen.key.weight @ h + listen.key.bias)
    return listen.vector.weight[0] @ inner


@pytest.mark.parametrize(("config", "width", "source_width"), KINDS, ids=str)
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3), queries=st.integers(1, 4), seed=st.integers(0, 99))
def test_equals_sums_over_pairs(config, width: int, source_width: int, lengths: list[int], queries: int, seed: int):
    torch.manual_seed(seed)
    listen = config.build(width, source_width)
    x, source = torch.randn(len(lengths), queries, width), torch.randn(len(lengths), max(lengths), source_width)
    valid = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    c = listen(x, listen.project_source(source, valid))
    for row, length in enumerate(lengths):
        for query in range(queries):
            e = [score(listen, x[row, query], h).exp().item() for h in source[row, :length]]
            expected = sum(weight / sum(e) * h for weight, h in zip(e, source[row, :length], strict=True))
            close(c[row, query], expected, 1e-4)


@pytest.mark.parametrize(("config", "width", "source_width"), KINDS, ids=str)
def test_weights_sum_to_one_and_ignore_padding(config, width: int, source_width: int):
    listen, steps = config.build(width, source_width), list[AttentionSteps]()
    listen.recorder = steps.append
    source = torch.randn(2, 5, source_width, requires_grad=True)
    valid = torch.tensor([[True] * 3 + [False] * 2, [True] * 5])
    x = torch.randn(2, 4, width)
    c = listen(x, listen.project_source(source, valid))
    [step] = steps
    assert step.weights.shape == (2, 1, 4, 5)
    close(step.weights.sum(-1), torch.ones(2, 1, 4))
    assert (step.weights[0, :, :, 3:] == 0).all()
    assert (step.masked[0, :, :, 3:] == -torch.inf).all()
    close(step.output[:, 0], c)
    close(step.scaled, step.scores * listen.scale)
    (slope,) = torch.autograd.grad(c.sum(), source)
    assert (slope[0, 3:] == 0).all()
    listen.recorder = None
    close(listen(x, listen.project_source(source, valid)), c)


def test_an_empty_source_is_heard_as_zero():
    listen = DotAttention(4, 4)
    source = torch.randn(2, 3, 4, requires_grad=True)
    c = listen(torch.randn(2, 2, 4), listen.project_source(source, torch.tensor([[False] * 3, [True] * 3])))
    assert (c[0] == 0).all()
    (slope,) = torch.autograd.grad(c.sum(), source)
    assert slope.isfinite().all()


def test_values_may_differ_from_what_is_scored():
    listen = DotAttention(4, 4)
    x, source, values = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 4)
    expected = (x @ source.transpose(1, 2)).softmax(-1) @ values
    close(listen(x, listen.project_source(source, values=values)), expected)


def test_rows_can_be_chosen():
    listen = GeneralAttention(4, 6)
    x, source = torch.randn(3, 2, 4), torch.randn(3, 5, 6)
    heard = listen.project_source(source, torch.arange(5) < torch.tensor([2, 5, 3])[:, None])
    rows = torch.tensor([2, 0, 0])
    close(listen(x[rows], heard.reorder(rows)), listen(x, heard)[rows])


def test_dropout_drops_weights_while_training_only():
    torch.manual_seed(0)
    listen = DotAttention(4, 4, dropout=0.5)
    x, heard = torch.randn(2, 3, 4), listen.project_source(torch.randn(2, 9, 4))
    assert not torch.equal(listen(x, heard), listen(x, heard))
    listen.eval()
    assert torch.equal(listen(x, heard), listen(x, heard))


@pytest.mark.parametrize(("config", "width", "source_width"), KINDS, ids=str)
def test_config_counts_what_the_built_part_has_and_costs(config, width: int, source_width: int):
    listen = config.build(width, source_width)
    assert config.num_params(width, source_width) == sum(weight.numel() for weight in listen.parameters())
    with FlopCounterMode(display=False) as counted:
        listen(torch.randn(2, 3, width), listen.project_source(torch.randn(2, 5, source_width)))
    assert counted.get_total_flops() == config.flops(width, source_width, batch=2, queries=3, keys=5)


def test_a_dot_product_needs_one_width():
    with pytest.raises(ConfigError, match=r"model\.attention: 'dot' needs one width on both sides, got 4 and 6"):
        DotAttention(4, 6)
