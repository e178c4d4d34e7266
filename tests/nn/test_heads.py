"""Maps from vectors of the model to heads and back."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import ShapeError
from regard.nn.attention.heads import HeadProjection, NarrowHeadProjection, NoHeadProjection, join_heads, split_heads

SIZES = st.integers(1, 4)


@given(SIZES, SIZES, SIZES, SIZES)
def test_joining_undoes_splitting(batch: int, time: int, heads: int, head_width: int):
    x = torch.randn(batch, time, heads * head_width)
    parts = split_heads(x, heads)
    assert parts.shape == (batch, heads, time, head_width)
    for head in range(heads):
        assert torch.equal(parts[:, head], x[..., head * head_width : (head + 1) * head_width])
    assert torch.equal(join_heads(parts), x)
    assert torch.equal(NoHeadProjection(heads)(x), parts)


@pytest.mark.parametrize("bias", [True, False])
@given(SIZES, SIZES, SIZES)
def test_each_head_has_its_own_rows_of_the_matrix(bias: bool, width: int, heads: int, head_width: int):
    x, maps = torch.randn(2, 3, width), HeadProjection(width, heads, head_width, bias)
    for head in range(heads):
        rows = slice(head * head_width, (head + 1) * head_width)
        expected = x @ maps.weight[rows].T + (maps.bias[rows] if bias else 0)
        torch.testing.assert_close(maps(x)[:, head], expected)


@pytest.mark.parametrize("bias", [True, False])
@given(SIZES, SIZES)
def test_each_narrow_head_maps_its_own_chunk(bias: bool, heads: int, chunk: int):
    x, maps = torch.randn(2, 3, heads * chunk), NarrowHeadProjection(heads * chunk, heads, bias)
    assert sum(p.numel() for p in maps.parameters()) == heads * chunk * (chunk + bias)
    for head in range(heads):
        own = x[..., head * chunk : (head + 1) * chunk]
        expected = own @ maps.weight[head].T + (maps.bias[head, 0] if maps.bias is not None else 0)
        torch.testing.assert_close(maps(x)[:, head], expected)


@pytest.mark.parametrize("maps", [HeadProjection(8, 2, 4), NarrowHeadProjection(8, 2)])
def test_another_width_is_refused(maps: torch.nn.Module):
    with pytest.raises(ShapeError, match="width: expected 8, got 4"):
        maps(torch.randn(1, 3, 4))
