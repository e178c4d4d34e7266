"""Linformer against full attention where the two must agree, and against a plain product of matrices."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import ConfigError
from regard.nn.attention.kinds import LinformerConfig
from regard.nn.attention.linformer import LengthProjection, Linformer
from regard.nn.attention.module import Attention
from regard.nn.context import AttentionContext
from regard.nn.layout import Layout
from regard.nn.position import Rotary

SHARES = ("none", "headwise", "keyvalue", "layerwise")


def context(layout: Layout) -> AttentionContext:
    return AttentionContext(layout.pattern(), layout.positions, layout.positions)


def made(share: str, length: int, projected: int, heads: int = 2, **more: object) -> Linformer:
    torch.manual_seed(0)
    config = LinformerConfig(length=length, projected=projected, share=share)  # type: ignore[arg-type]
    built = config.build(8, heads, shared=config.build_shared(heads), **more)  # type: ignore[arg-type]
    assert isinstance(built, Linformer)
    return built


@pytest.mark.parametrize("share", SHARES)
@given(st.integers(1, 9))
def test_with_identity_projections_it_is_full_attention(share: str, length: int):
    layer = made(share, length, length)
    for projection in layer.projections():
        with torch.no_grad():
            projection.weight.copy_(torch.eye(length).expand_as(projection.weight))
    full = Attention(8, 2)
    full.load_state_dict({name: weight for name, weight in layer.state_dict().items() if "project" not in name})
    x, seen = torch.randn(3, length, 8), context(Layout.full(3, length))
    torch.testing.assert_close(layer(x, seen), full(x, seen))


@pytest.mark.parametrize("share", SHARES)
def test_against_the_paper(share: str):
    layer, x = made(share, 9, 4), torch.randn(2, 7, 8)
    rows = []
    for row in x:
        heads = []
        for head in range(2):
            own = slice(4 * head, 4 * head + 4)
            q, k, v = (
                F.linear(row, part.weight[own], part.bias[own]) for part in (layer.query, layer.key, layer.value)
            )
            e, f = (p.weight[head % len(p.weight), :, :7] for p in layer.projections())
            heads.append(torch.softmax(q @ (e @ k).T / 2, -1) @ (f @ v))
        rows.append(layer.output(torch.cat(heads, -1)))
    torch.testing.assert_close(layer(x, context(Layout.full(2, 7))), torch.stack(rows))


@pytest.mark.parametrize("share", SHARES)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.booleans())
def test_a_sequence_never_depends_on_its_neighbours_or_padding(share: str, lengths: list[int], turned: bool):
    layer = made(share, 9, 3, position=Rotary(4) if turned else None)
    rows = [torch.randn(n, 8) for n in lengths]
    alone = [layer(row[None], context(Layout.full(1, len(row))))[0] for row in rows]
    packed = layer(torch.cat(rows)[None], context(Layout.packing(torch.tensor(lengths))))[0].split(lengths)
    grid = torch.randn(len(rows), 9, 8) * 100
    for row, x in enumerate(rows):
        grid[row, : len(x)] = x
    padded = layer(grid, context(Layout.padded(torch.tensor(lengths), 9)))
    for row, wanted in enumerate(alone):
        torch.testing.assert_close(packed[row], wanted)
        torch.testing.assert_close(padded[row, : len(wanted)], wanted)


def test_padding_gets_no_slope():
    layer, x = made("headwise", 9, 3), torch.randn(2, 9, 8, requires_grad=True)
    y = layer(x, context(Layout.padded(torch.tensor([4, 9]), 9)))
    (slope,) = torch.autograd.grad(y[0, :4].square().sum() + y[1].square().sum(), x)
    assert slope[0, 4:].abs().max() == 0
    assert slope[0, :4].abs().max() > 0


def test_longer_sequences_are_refused():
    with pytest.raises(ConfigError, match=r"model\.attention\.length: linformer was built for 8 tokens, got .* of 9;"):
        made("headwise", 8, 3)(torch.randn(1, 9, 8), context(Layout.full(1, 9)))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("kv_heads", [None, 1])
def test_parameters(share: str, kv_heads: int | None):
    config = LinformerConfig(length=9, projected=3, share=share, kv_heads=kv_heads)  # type: ignore[arg-type]
    shared = config.build_shared(2)
    layer = config.build(8, 2, shared=shared)
    assert sum(weight.numel() for weight in layer.parameters()) == config.num_params(8, 2)
    together = sum(weight.numel() for weight in shared.parameters()) if shared is not None else 0
    assert together == config.shared_params(2)
    assert len(dict(layer.named_parameters())) == 8 + {"none": 2, "headwise": 2, "keyvalue": 1, "layerwise": 0}[share]


def test_by_hand():
    projection = LengthProjection(6, 2)
    one, other = (Linformer(8, 2, length=6, projection=projection, share="layerwise") for _ in range(2))
    assert one.projections()[0] is other.projections()[1]
    assert not any("project" in name for name in one.state_dict())
