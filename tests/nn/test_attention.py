"""Attention: the lectures' formulas by plain loops, the shapes of heads, what is laid open, and what is refused."""

import math

import pytest
import torch
from attention_cases import assert_close, make_layout, make_pattern, self_context
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.errors import ConfigError, RegardError, ShapeError
from regard.models import EncoderConfig
from regard.nn.attention.kinds import AttentionConfig, BigBirdConfig, FullConfig, WindowConfig
from regard.nn.attention.module import Attention, CrossAttention
from regard.nn.attention.reference import record_attention, reference_attention, self_attention
from regard.nn.cache import CacheLengths, KVCache
from regard.nn.context import AttentionContext
from regard.nn.pattern import Causal, Global, Random, Shifted, Window
from regard.nn.position import Alibi, Position, Relative, Rotary, T5Bias

SEEDS = st.integers(0, 2**16)


def softmax(scores: list[float]) -> list[float]:
    top = [math.exp(score - max(scores)) for score in scores]
    return [each / sum(top) for each in top]


def full_context(queries: int, keys: int | None = None) -> AttentionContext:
    return AttentionContext(None, torch.arange(queries)[None], torch.arange(keys or queries)[None])


@given(st.integers(1, 5), st.integers(1, 4), SEEDS)
@settings(max_examples=15)
def test_plain_self_attention_is_the_lectures_formula(time: int, width: int, seed: int):
    x = torch.randn(1, time, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    rows = x[0].tolist()
    expected = []
    for one in rows:
        weights = softmax([sum(a * b for a, b in zip(one, other, strict=True)) for other in rows])
        expected.append([sum(w * other[d] for w, other in zip(weights, rows, strict=True)) for d in range(width)])
    assert_close(self_attention(x)[0], torch.tensor(expected, dtype=torch.float64), 1e-12)
    plain = Attention(width, 1, projections=False, scaled=False)
    assert not list(plain.parameters())
    assert_close(plain(x, full_context(time)), self_attention(x), 1e-12)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 3), SEEDS)
@settings(max_examples=15)
def test_queries_and_keys_may_differ_in_number(queries: int, keys: int, width: int, seed: int):
    torch.manual_seed(seed)
    q, k, v = (torch.randn(1, 1, n, width, dtype=torch.float64) for n in (queries, keys, keys))
    output = reference_attention(q, k, v).output[0, 0]
    for i, one in enumerate(q[0, 0].tolist()):
        scores = [sum(a * b for a, b in zip(one, other, strict=True)) / math.sqrt(width) for other in k[0, 0].tolist()]
        for d in range(width):
            expected = sum(w * float(v[0, 0, j, d]) for j, w in enumerate(softmax(scores)))
            assert output[i, d].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("width", [16, 64, 256])
def test_scaling_brings_the_variance_of_scores_to_one(width: int):
    torch.manual_seed(0)
    q, k, v = (torch.randn(4, 4, 64, width) for _ in range(3))
    steps = reference_attention(q, k, v)
    assert steps.scores.var().item() == pytest.approx(width, rel=0.1)
    assert steps.scaled.var().item() == pytest.approx(1, rel=0.1)
    unscaled = reference_attention(q, k, v, scale=1.0)
    assert unscaled.weights.amax(-1).mean() > steps.weights.amax(-1).mean() + 0.2, "without scaling softmax saturates"


def test_scaling_can_be_switched_off():
    assert Attention(64, 4).scale == 0.25
    assert Attention(64, 4, scaled=False).scale == 1.0
    assert FullConfig(scaled=False).build(64, 4).scale == 1.0


def one_head(x: Tensor, source: Tensor, maps: list[tuple[Tensor, Tensor]]) -> Tensor:
    """A single head with its own three matrices and biases, scaled."""
    q, k, v = (data @ w.T + b for data, (w, b) in zip((x, source, source), maps, strict=True))
    return (q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])).softmax(-1) @ v


@pytest.mark.parametrize("shape", ["standard", "narrow", "wide"])
def test_shapes_of_heads_equal_a_loop_over_heads(shape):
    torch.manual_seed(1)
    width, heads = 12, 3
    attention = Attention(width, heads, shape=shape).double()
    x = torch.randn(2, 5, width, dtype=torch.float64)
    parts = (attention.query, attention.key, attention.value)
    outputs = []
    for head in range(heads):
        if shape == "narrow":
            chunk = slice(head * 4, head * 4 + 4)
            maps = [(part.weight[head], part.bias[head, 0]) for part in parts]
            outputs.append(one_head(x[..., chunk], x[..., chunk], maps))
        else:
            rows = slice(head * attention.head_width, (head + 1) * attention.head_width)
            maps = [(part.weight[rows], part.bias[rows]) for part in parts]
            outputs.append(one_head(x, x, maps))
    assert attention.head_width == (width if shape == "wide" else width // heads)
    expected = torch.cat(outputs, -1) @ attention.output.weight.T + attention.output.bias
    assert_close(attention(x, full_context(5)), expected, 1e-12)


def test_cross_attention_is_softmax_of_zq_hk_times_hv():
    torch.manual_seed(2)
    attention = CrossAttention(8, 2).double()
    z, h = torch.randn(2, 3, 8, dtype=torch.float64), torch.randn(2, 6, 8, dtype=torch.float64)
    parts = (attention.query, attention.key, attention.value)
    heads = [one_head(z, h, [(p.weight[r], p.bias[r]) for p in parts]) for r in (slice(0, 4), slice(4, 8))]
    expected = attention.output(torch.cat(heads, -1))
    assert_close(attention(z, full_context(3, 6), attention.project_source(h)), expected, 1e-12)


@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("shape", ["standard", "wide"])
def test_grouped_heads_equal_full_heads_with_repeated_weights(kv_heads: int, shape):
    torch.manual_seed(3)
    width, heads, x = 8, 4, torch.randn(2, 5, 8, dtype=torch.float64)
    grouped = Attention(width, heads, kv_heads=kv_heads, shape=shape).double()
    full = Attention(width, heads, shape=shape).double()
    full.query.load_state_dict(grouped.query.state_dict())
    full.output.load_state_dict(grouped.output.state_dict())
    for name in ("key", "value"):
        few, many = getattr(grouped, name), getattr(full, name)
        for parameter in ("weight", "bias"):
            blocks = getattr(few, parameter).data.unflatten(0, (kv_heads, -1))
            getattr(many, parameter).data = blocks.repeat_interleave(heads // kv_heads, 0).flatten(0, 1)
    context = self_context(make_layout("full", [5, 5], 5), Causal())
    y, expected = grouped(x, context), full(x, context)
    assert_close(y, expected, 1e-12)
    y.square().sum().backward()
    expected.square().sum().backward()
    for name in ("key", "value"):
        summed = getattr(full, name).weight.grad.unflatten(0, (kv_heads, heads // kv_heads, -1)).sum(1).flatten(0, 1)
        assert_close(getattr(grouped, name).weight.grad, summed, 1e-12)
    assert_close(grouped.query.weight.grad, full.query.weight.grad, 1e-12)


@pytest.mark.parametrize("pattern", ["full", "causal", "strict", "bigbird"])
@pytest.mark.parametrize("position", [Position(), Alibi(2), T5Bias(2), Relative(4)])
def test_steps_follow_from_one_another(pattern: str, position: Position):
    torch.manual_seed(4)
    attention = Attention(8, 2, position=position)
    context = self_context(make_layout("padded", [6, 4], 6), make_pattern(pattern, 2, 8))
    with record_attention(attention) as seen:
        attention(torch.randn(2, 6, 8), context)
    (steps,) = seen[""]
    allowed = torch.ones(2, 2, 6, 6, dtype=torch.bool)
    if context.pattern is not None:
        allowed &= context.pattern.dense(2, 2, 6, 6)
    blind = ~allowed.any(-1)
    assert blind.any() == (pattern == "strict")
    assert torch.equal(steps.masked == -torch.inf, ~allowed)
    assert torch.equal(steps.masked[allowed], steps.scaled[allowed])
    if type(position) is Position:
        assert_close(steps.scaled, steps.scores / 2, 1e-6)
    assert (steps.weights[~allowed] == 0).all()
    assert_close(steps.weights.sum(-1), (~blind).float(), 1e-6)
    assert_close(steps.weights[~blind], steps.masked[~blind].softmax(-1), 1e-6)
    if not position.needs_weights:
        assert (steps.output[blind] == 0).all()


class Two(nn.Module):
    """Two attentions, one above the other, or one that breaks."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Attention(8, 2), Attention(8, 2, kv_heads=1, position=Rotary(4))

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        return self.second(self.first(x, context), context)


@pytest.mark.parametrize("layout", ["full", "padded", "packed"])
def test_recording_changes_nothing(layout: str):
    torch.manual_seed(5)
    model = Two()
    placed = make_layout(layout, [4, 6, 3], 6)
    batch, time = placed.segment.shape
    x, context = torch.randn(batch, time, 8), self_context(placed, Causal())
    plain = model(x, context)
    with record_attention(model) as seen:
        recorded = model(x, context)
        model(x, context)
    assert_close(recorded[placed.valid], plain[placed.valid], 1e-5)
    assert {name: len(steps) for name, steps in seen.items()} == {"first": 2, "second": 2}
    assert seen["second"][0].weights.shape == (batch, 2, time, time)


def test_recording_ends_with_its_context_also_after_an_exception(monkeypatch: pytest.MonkeyPatch):
    model, x = Two(), torch.randn(1, 4, 8)

    def record_and_break() -> None:
        with record_attention(model):
            assert model.first.recorder is not None
            raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        record_and_break()
    assert model.first.recorder is None
    assert model.second.recorder is None
    monkeypatch.setattr("regard.nn.attention.module.reference_attention", lambda *a: pytest.fail("still the slow path"))
    model(x, full_context(4))


@pytest.mark.parametrize("position", [Position(), Alibi(2), T5Bias(2, both_sides=False), Rotary(4), Relative(4)])
@pytest.mark.parametrize("kind", ["causal", "strict", "window+causal", "bigbird+causal"])
def test_attention_step_by_step_with_a_cache_equals_the_whole(kind: str, position: Position):
    torch.manual_seed(6)
    attention = Attention(8, 2, kv_heads=1, position=position)
    x, pattern = torch.randn(2, 6, 8), make_pattern(kind, 2, 8)
    assert pattern is not None
    whole = attention(x, AttentionContext(pattern, torch.arange(6)[None], torch.arange(6)[None]))
    cache, cache_lengths, parts = KVCache.allocate(2, 1, 6, 4, x), CacheLengths.empty(2, 6, "cpu"), []
    with torch.no_grad():
        for start, end in ((0, 3), (3, 4), (4, 6)):
            queries, keys = cache_lengths.next_positions(end - start), torch.arange(end)[None]
            context = AttentionContext(Shifted(pattern, queries, keys), queries, keys)
            parts.append(attention(x[:, start:end], context, cache, cache_lengths))
            cache_lengths = cache_lengths.advance(end - start)
    assert_close(torch.cat(parts, 1), whole, 1e-5)


@pytest.mark.parametrize("maps", [FullConfig(), FullConfig(bias=False), FullConfig(projections=False)])
@pytest.mark.parametrize("change", [{}, {"shape": "narrow"}, {"shape": "wide"}, {"kv_heads": 2}, {"head_width": 5}])
def test_config_counts_what_the_built_part_has_and_costs(maps: FullConfig, change: dict[str, object]):
    if not maps.projections and change:
        with pytest.raises(ConfigError, match="projections: without projections"):
            maps.but(**change)
        return
    config = maps.but(**change)
    attention = config.build(16, 4)
    assert config.num_params(16, 4) == sum(p.numel() for p in attention.parameters())
    with record_attention(attention), FlopCounterMode(display=False) as counted:
        attention(torch.randn(2, 7, 16), full_context(7))
    assert counted.get_total_flops() == config.flops(16, 4, 2, 7, 7)
    cross = config.build_cross(16, 4)
    with record_attention(cross), FlopCounterMode(display=False) as counted:
        cross(torch.randn(2, 3, 16), full_context(3, 7), cross.project_source(torch.randn(2, 7, 16)))
    assert counted.get_total_flops() == config.flops(16, 4, 2, 3, 7)


def test_kinds_name_their_patterns():
    full = FullConfig()
    assert full.pattern(2, 16, causal=False, device="cpu") is None
    expected = {
        (full, True): Causal(),
        (FullConfig(strict=True), True): Causal(strict=True),
        (WindowConfig(reach=2), False): Window(2),
        (WindowConfig(reach=2), True): Window(2) & Causal(),
        (BigBirdConfig(block=2, global_tokens=1, random=0), False): Window(1, 2) | Global(1),
        (BigBirdConfig(block=2, reach=0, global_tokens=3, random=1, seed=4), True): (
            Window(0, 2) | Global(3) | Random(1, 2, 2, 16, seed=4)
        )
        & Causal(),
    }
    for (config, causal), pattern in expected.items():
        built = config.pattern(2, 16, causal, "cpu")
        assert built is not None
        assert torch.equal(built.dense(1, 2, 16, 16), pattern.dense(1, 2, 16, 16))
        assert built.may_mask_all_keys == config.strict


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: Attention(10, 4), "model.heads: expected a divisor of width = 10, got 4"),
        (lambda: Attention(8, 4, kv_heads=3), "model.attention.kv_heads: expected a divisor of heads = 4, got 3"),
        (lambda: EncoderConfig(width=10, heads=4), "heads: expected a divisor of width = 10, got 4"),
        (
            lambda: EncoderConfig(width=8, heads=4, attention=FullConfig(kv_heads=3)),
            "attention.kv_heads: expected a divisor of heads = 4, got 3",
        ),
        (lambda: FullConfig(shape="wide", head_width=4), "head_width: wide heads have a width of their own"),
        (lambda: FullConfig(shape="narrow", kv_heads=2), "kv_heads: narrow heads project a chunk"),
        (lambda: FullConfig(kv_heads=0), "kv_heads: expected greater than 0, got 0"),
        (lambda: FullConfig(shape="broad"), "shape: expected 'standard', 'narrow' or 'wide', got 'broad'"),
        (lambda: EncoderConfig(attention="ful"), "attention: unknown kind 'ful'; did you mean 'full'?"),
        (lambda: WindowConfig(reach=0), "reach: expected greater than 0, got 0"),
        (lambda: WindowConfig(rech=3), "rech: unknown setting of kind 'window'; did you mean 'reach'?"),
    ],
)
def test_what_cannot_be_is_refused_with_the_setting_expected_and_got(ask, sentence: str):
    with pytest.raises(RegardError) as refused:
        ask()
    assert str(refused.value).startswith(sentence)


def test_vectors_of_another_width_are_refused():
    for shape in ("standard", "narrow", "wide"):
        attention = Attention(8, 2, shape=shape)
        with pytest.raises(ShapeError, match="width: expected 8, got 6"):
            attention(torch.randn(1, 3, 6), full_context(3))
        with pytest.raises(ShapeError, match="width: expected 8, got 6"):
            CrossAttention(8, 2, shape=shape).project_source(torch.randn(1, 3, 6))


@pytest.mark.parametrize("kind", ["full", "window", "bigbird"])
def test_every_kind_survives_the_way_through_a_tree(kind: str):
    family = TypeAdapter(AttentionConfig)
    config = family.validate_python(kind)
    assert config.kind == kind
    assert family.validate_python(config.tree()) == config
