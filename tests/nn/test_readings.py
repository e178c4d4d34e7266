"""Readings of the lectures' equations, each against a few lines of numpy or torch, in value and gradient."""

import math

import numpy as np
import pytest
import torch
from attention_cases import assert_close, make_layout, self_context
from torch import Tensor

from regard.errors import ConfigError
from regard.models import DecoderConfig, EncoderConfig, EncoderDecoderConfig
from regard.nn.attention.module import Attention, attend
from regard.nn.attention.reference import reference_attention
from regard.nn.context import AttentionContext
from regard.nn.fast.plan import plan
from regard.nn.norm import LayerNorm
from regard.nn.pattern import Causal, Pattern, Window
from regard.nn.position import Learned, Position, Sinusoidal, SinusoidalConfig

DIVISORS = {
    "√(σ² + ε)": ({}, lambda sigma, epsilon: math.sqrt(sigma**2 + epsilon)),
    "σ + ε": ({"epsilon_inside": False}, lambda sigma, epsilon: sigma + epsilon),
    "√σ + ε": (
        {"epsilon_inside": False, "root_deviation": True},
        lambda sigma, epsilon: math.sqrt(sigma) + epsilon,
    ),
}


@pytest.mark.parametrize("epsilon", [0.0, 1e-5, 0.3])
@pytest.mark.parametrize("reading", DIVISORS)
def test_layer_norm_divides_as_each_lecture_writes_it(reading: str, epsilon: float):
    settings, divisor = DIVISORS[reading]
    rows = np.random.default_rng(0).normal(2.0, 3.0, (4, 7))
    norm = LayerNorm(7, epsilon, **settings).double()
    norm.gain.data.copy_(torch.linspace(0.5, 2, 7))
    norm.shift.data.copy_(torch.linspace(-1, 1, 7))
    expected = [
        (row - row.mean()) / divisor(row.std(), epsilon) * np.linspace(0.5, 2, 7) + np.linspace(-1, 1, 7)
        for row in rows
    ]
    x = torch.from_numpy(rows).requires_grad_()
    assert_close(norm(x), torch.from_numpy(np.stack(expected)), 1e-6)
    assert torch.autograd.gradcheck(norm, (x,))
    constant = torch.full((2, 7), 3.0, dtype=torch.float64, requires_grad=True)
    y = norm(constant)
    assert_close(y, norm.shift.expand(2, 7), 1e-12)  # 0/σ is zero where σ = 0, whatever ε
    (gradient,) = torch.autograd.grad((y * torch.arange(7.0)).sum(), constant)
    assert torch.isfinite(gradient).all()


def test_sinusoids_of_cs224n_begin_at_position_and_exponent_one():
    width, length = 8, 5
    expected = np.array(
        [
            [wave(i / 10_000 ** (2 * j / width)) for j in range(1, width // 2 + 1) for wave in (np.sin, np.cos)]
            for i in range(1, length + 1)
        ]
    )
    config = SinusoidalConfig(exponents_from=1, positions_from=1)
    position = config.build(width=width, heads=2, head_width=4, causal=False)
    index = torch.arange(length)[None]
    context = AttentionContext(None, index, index)
    x = torch.zeros(1, length, width, requires_grad=True)
    y = position.embed(x, context)
    assert_close(y[0], torch.from_numpy(expected).float(), 1e-6)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert (gradient == 1).all()
    usual = Sinusoidal(width)
    assert_close(usual.vectors(index + 1), SinusoidalConfig(positions_from=1).build(
        width=width, heads=2, head_width=4, causal=False).vectors(index), 1e-6)  # fmt: skip
    assert (usual.vectors(index) - position.vectors(index)).abs().max() > 0.1


def one_head(attention: Attention, x: Tensor, head: int, p: Tensor | float = 0.0) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)) V of one head, with p added to all of its queries, keys and values."""
    d_k, d_v = attention.head_width, attention.value_width

    def project(part: torch.nn.Module, width: int) -> Tensor:
        rows = slice(head * width, (head + 1) * width)
        mine = p[:, rows] if isinstance(p, Tensor) else p
        return x @ part.weight[rows].T + part.bias[rows] + mine

    q, k, v = project(attention.query, d_k), project(attention.key, d_k), project(attention.value, d_v)
    return torch.softmax(q @ k.T / math.sqrt(d_k), -1) @ v


def same_gradients(outputs: tuple[Tensor, Tensor], parameters: list[Tensor]) -> None:
    probe = torch.linspace(-1, 1, outputs[0].numel(), dtype=outputs[0].dtype).view_as(outputs[0])
    ours, expected = (torch.autograd.grad((y * probe).sum(), parameters, retain_graph=True) for y in outputs)
    for one, other in zip(ours, expected, strict=True):
        assert_close(one, other, 1e-10)


@pytest.mark.parametrize(("d_k", "d_v"), [(3, 4), (4, 4), (2, 4)])
def test_heads_concatenated_without_an_output_projection(d_k: int, d_v: int):
    torch.manual_seed(0)
    attention = Attention(8, 2, head_width=d_k, value_width=d_v, output_projection=False).double()
    x = torch.randn(1, 6, 8, dtype=torch.float64)
    index = torch.arange(6)[None]
    y = attention(x, AttentionContext(None, index, index))
    expected = torch.cat([one_head(attention, x[0], 0), one_head(attention, x[0], 1)], -1)
    assert_close(y[0], expected, 1e-10)
    assert not list(attention.output.parameters())
    same_gradients((y[0], expected), list(attention.parameters()))


@pytest.mark.parametrize("d_v", [1, 5, 16])
def test_values_have_a_width_of_their_own(d_v: int):
    torch.manual_seed(0)
    attention = Attention(8, 2, value_width=d_v).double()
    x = torch.randn(1, 6, 8, dtype=torch.float64)
    index = torch.arange(6)[None]
    y = attention(x, AttentionContext(None, index, index))
    heads = torch.cat([one_head(attention, x[0], 0), one_head(attention, x[0], 1)], -1)
    expected = heads @ attention.output.weight.T + attention.output.bias
    assert_close(y[0], expected, 1e-10)
    same_gradients((y[0], expected), list(attention.parameters()))


@pytest.mark.parametrize("position", [Sinusoidal(8, combine="qkv"), Learned(8, 9, combine="qkv")])
def test_positions_added_to_queries_keys_and_values(position: Position):
    torch.manual_seed(0)
    attention = Attention(8, 2, position=position.double()).double()
    x = torch.randn(1, 6, 8, dtype=torch.float64)
    index = torch.arange(6)[None]
    context = AttentionContext(None, index, index)
    assert position.embed(x, context) is x
    y = attention(x, context)
    p = position.vectors(index)[0].double()
    heads = torch.cat([one_head(attention, x[0], 0, p), one_head(attention, x[0], 1, p)], -1)
    expected = heads @ attention.output.weight.T + attention.output.bias
    assert_close(y[0], expected, 1e-10)
    same_gradients((y[0], expected), [*attention.parameters(), *position.parameters()])


@pytest.mark.parametrize("layers", ["first", "every"])
def test_positions_of_queries_keys_and_values_at_the_first_layer_or_at_every_one(layers: str):
    config = EncoderConfig(
        width=8, heads=2, depth=2, position={"kind": "learned", "length": 9, "combine": "qkv", "layers": layers}
    )
    blocks = config.build(10).stack.blocks
    assert [block.attention.position.combine if hasattr(block.attention.position, "combine") else None
            for block in blocks] == ["qkv", "qkv" if layers == "every" else None]  # fmt: skip


CASES: dict[str, tuple[str, Pattern | None, int]] = {
    "full": ("full", None, 9),
    "causal": ("full", Causal(), 9),
    "strict": ("full", Causal(strict=True), 9),
    "padded": ("padded", None, 9),
    "packed": ("packed", None, 9),
    "packed, causal": ("packed", Causal(), 9),
    "long, sparse": ("full", Window(1, 64), 1024),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kv_heads", [2, 1])
@pytest.mark.parametrize("name", CASES)
def test_every_path_takes_values_of_another_width(name: str, kv_heads: int, dtype: torch.dtype):
    kind, pattern, time = CASES[name]
    layout = make_layout(kind, [time, time - 2], time)
    context = self_context(layout, pattern)
    torch.manual_seed(0)
    batch, time = layout.segment.shape
    q, k, v = (
        torch.randn(batch, heads, time, width).to(dtype).requires_grad_()
        for heads, width in ((2, 4), (kv_heads, 4), (kv_heads, 6))
    )
    y = attend(q, k, v, context.pattern)
    copies = [x.detach().float().requires_grad_() for x in (q, k, v)]
    expected = reference_attention(*copies, context.pattern).output
    outputs = [x.transpose(1, 2)[layout.valid] for x in (y, expected)]
    tolerance = 4e-2 if dtype == torch.bfloat16 else 2e-5
    assert outputs[0].shape[-1] == 6
    assert_close(outputs[0].float(), outputs[1], tolerance)
    ours = torch.autograd.grad(outputs[0].float().square().sum(), [q, k, v])
    for one, other in zip(ours, torch.autograd.grad(outputs[1].square().sum(), copies), strict=True):
        assert_close(one.float(), other, tolerance)


def test_kernels_for_one_width_are_not_planned_for_two(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regard.nn.fast.plan.HAS_TRITON", True)
    layout = make_layout("packed", [5, 3], 5)
    q = torch.empty(1, 2, 8, 16, dtype=torch.bfloat16, device="meta")

    class OnGPU(torch.Tensor):
        device = torch.device("cuda")

    q = q.as_subclass(OnGPU)
    for pattern in (layout.pattern(), Causal() & layout.pattern()):
        assert plan(q, q, pattern, None, False, 0.0).path == "key_range_attention"
        assert plan(q, q, pattern, None, False, 0.0, 16).path == "key_range_attention"
        assert plan(q, q, pattern, None, False, 0.0, 24).path == "unpacked_sdpa"
        assert plan(q, q, pattern, None, False, 0.1, 24).path == "sdpa"


QKV = {"kind": "sinusoidal", "combine": "qkv"}


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (
            lambda: EncoderConfig(
                width=8, heads=2, attention={"kind": "full", "output_projection": False, "value_width": 3}
            ),
            "attention.output_projection: without an output projection heads · value width must be the model's width "
            "8, got 2 · 3",
        ),
        (
            lambda: DecoderConfig(width=8, heads=2, attention={"kind": "full", "value_width": 3}, position="relative"),
            "attention.value_width: relative positions add vectors of the head's width 4 to the values, which have 3; "
            "leave value_width out",
        ),
        (
            lambda: DecoderConfig(width=8, heads=2, attention={"kind": "full", "kv_heads": 1}, position=QKV),
            "position.combine: qkv adds a vector of the model's width 8 to queries, keys and values, so each of them "
            "must have that width; got 4",
        ),
        (
            lambda: EncoderDecoderConfig(
                width=8, heads=2, decoder_attention={"kind": "full", "output_projection": False, "value_width": 5}
            ),
            "decoder_attention.output_projection: without an output projection heads · value width must be the "
            "model's width 8, got 2 · 5",
        ),
        (
            lambda: EncoderConfig(width=8, heads=2, attention="memory-compressed", position=QKV),
            "position.combine: a slot of compressed memory holds the keys of several positions; add",
        ),
        (
            lambda: EncoderConfig(attention={"kind": "full", "projections": False, "output_projection": False}),
            "attention.output_projection: without projections there is none of the values or the output; "
            "leave output_projection out",
        ),
        (
            lambda: EncoderConfig(attention={"kind": "full", "shape": "narrow", "value_width": 4}),
            "attention.value_width: narrow heads project a chunk of the input each; leave value_width out",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(ask, sentence: str):
    with pytest.raises(ConfigError) as refused:
        ask()
    assert str(refused.value) == sentence
