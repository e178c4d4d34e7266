"""Memory-compressed attention against loops over its definition, and torch's own convolution."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import ConfigError
from regard.nn.attention import memory_compressed
from regard.nn.attention.memory_compressed import Compressed, Compression, MemoryCompressed
from regard.nn.context import AttentionContext
from regard.nn.layout import Layout
from regard.nn.pattern import Causal
from regard.nn.position import Alibi, Position, Relative, Rotary, T5Bias


def context(layout: Layout, causal: bool) -> AttentionContext:
    own, inner = layout.pattern(), Causal() if causal else None
    return AttentionContext(own if inner is None else inner & own, layout.positions, layout.positions)


def made(causal: bool, stride: int = 3, block: int = 6, position: Position | None = None) -> MemoryCompressed:
    torch.manual_seed(0)
    layer = MemoryCompressed(8, 2, stride=stride, block=block, causal=causal, position=position).double()
    for part in (layer.compress_keys, layer.compress_values):
        torch.nn.init.normal_(part.weight)
    return layer


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.integers(1, 17))
def test_compression_is_a_strided_convolution(heads, width, stride, time):
    torch.manual_seed(0)
    part = Compression(heads, width, stride)
    torch.nn.init.normal_(part.weight)
    x = torch.randn(2, heads, time, width)
    channels = F.pad(x.transpose(2, 3).flatten(1, 2), (0, -time % stride))
    kernel = part.weight.view(heads, stride, width, width).permute(0, 3, 2, 1).flatten(0, 1)
    y = F.conv1d(channels, kernel, stride=stride, groups=heads).unflatten(1, (heads, width)).transpose(2, 3)
    torch.testing.assert_close(part(x), y)


def test_it_starts_as_the_mean():
    x = torch.randn(1, 2, 6, 4)
    torch.testing.assert_close(Compression(2, 4, 3)(x), x.unflatten(2, (2, 3)).mean(3))


@given(st.integers(1, 20), st.integers(1, 5), st.integers(1, 3), st.booleans())
def test_against_a_loop_over_queries(time, stride, spans, causal):
    block = spans * stride
    layer = made(causal, stride, block)
    x = torch.randn(1, time, 8, dtype=torch.float64)
    q, k, v = layer.query(x)[0], layer.key(x)[0], layer.value(x)[0]
    slots, slot_values = layer.compress_keys(k[None])[0], layer.compress_values(v[None])[0]
    rows = []
    for i in range(time):
        over = [s for s in range(slots.shape[1]) if not causal or (s + 1) * stride - 1 < i]
        near = [j for j in range(i + 1) if causal and j // block == i // block]
        keys, values = torch.cat([slots[:, over], k[:, near]], 1), torch.cat([slot_values[:, over], v[:, near]], 1)
        weights = torch.softmax((q[:, i : i + 1] @ keys.transpose(1, 2)) / 2, -1)
        rows.append((weights @ values)[:, 0].flatten())
    wanted = layer.output(torch.stack(rows))[None]
    torch.testing.assert_close(layer(x, context(Layout.full(1, time), causal)), wanted)


@given(st.integers(1, 30), st.integers(1, 5), st.integers(1, 3))
def test_every_query_sees_a_key_and_none_the_future(time, stride, spans):
    block = spans * stride
    places = torch.arange(time)[None]
    slots = time // stride
    seen = Compressed(stride, block, slots, places).dense(1, 1, time, slots + time)[0, 0]
    assert seen.any(-1).all()
    assert seen[:, slots:].diagonal().all()
    assert not seen[:, slots:].triu(1).any()
    ends = (torch.arange(slots) + 1) * stride - 1
    assert (seen[:, :slots] == (ends < places.T)).all()


@pytest.mark.parametrize("at_once", [1024, 8])
def test_nothing_from_the_future(at_once: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory_compressed, "QUERIES_AT_ONCE", at_once)
    layer, x = made(causal=True), torch.randn(1, 21, 8, dtype=torch.float64, requires_grad=True)
    y = layer(x, context(Layout.full(1, 21), True))
    for place in range(21):
        (slope,) = torch.autograd.grad(y[0, place].square().sum(), x, retain_graph=True)
        assert slope[0, place + 1 :].abs().sum() == 0
        assert (slope[0, : place + 1].abs().sum(-1) > 0).all(), "and all of the past is seen, near or compressed"


@pytest.mark.parametrize(
    "position",
    [Position(), Rotary(4), Alibi(2), T5Bias(2, 8, 16), Relative(4, clip=3)],
    ids=lambda kind: type(kind).__name__,
)
def test_queries_in_turn_give_what_they_give_at_once(position: Position, monkeypatch: pytest.MonkeyPatch):
    layer = made(True, position=position.double())
    x, seen = torch.randn(2, 30, 8, dtype=torch.float64), context(Layout.full(2, 30), True)
    whole = layer(x, seen)
    monkeypatch.setattr(memory_compressed, "QUERIES_AT_ONCE", 8)
    torch.testing.assert_close(layer(x, seen), whole)


def test_a_block_that_would_leave_tokens_out_is_refused():
    with pytest.raises(ConfigError, match=r"model\.attention\.block: expected a multiple of stride = 3, got 4"):
        MemoryCompressed(8, 2, stride=3, block=4)


@pytest.mark.parametrize("causal", [False, True])
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_a_sequence_never_depends_on_its_neighbours_or_padding(causal: bool, lengths: list[int]):
    layer = made(causal, position=Rotary(4))
    rows = [torch.randn(n, 8, dtype=torch.float64) for n in lengths]
    alone = [layer(row[None], context(Layout.full(1, len(row)), causal))[0] for row in rows]
    packed = layer(torch.cat(rows)[None], context(Layout.packing(torch.tensor(lengths)), causal))[0].split(lengths)
    grid = torch.randn(len(rows), 9, 8, dtype=torch.float64) * 100
    for row, x in enumerate(rows):
        grid[row, : len(x)] = x
    padded = layer(grid, context(Layout.padded(torch.tensor(lengths), 9), causal))
    for row, wanted in enumerate(alone):
        torch.testing.assert_close(packed[row], wanted)
        torch.testing.assert_close(padded[row, : len(wanted)], wanted)
