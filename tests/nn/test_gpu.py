"""On a GPU: each path is really taken, equals the reference in value and gradient, and models of all shapes train."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from attention_cases import Case, make_case, make_cross_case, make_layout, reference, without_shape_checks
from torch import Tensor
from torch.nn.attention.flex_attention import noop_mask

from regard.models import DecoderConfig, EncoderConfig, EncoderDecoderConfig, VisionConfig
from regard.nn.attention.kinds import BigBirdConfig
from regard.nn.attention.module import attend
from regard.nn.experts import Experts, ExpertsConfig
from regard.nn.fast.flex import block_mask
from regard.nn.fast.plan import FAST_PATHS, Plan, plan
from regard.nn.fast.sdpa import cudnn_attention, disable_cudnn_attention, sdpa
from regard.nn.layout import Layout, Sequences
from regard.nn.loss import IGNORED, cross_entropy, linear_cross_entropy
from regard.nn.pattern import Causal, Global, Random, Window
from regard.nn.position import RotaryConfig, T5Config

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),  # torch 2.11, of what it compiles itself
]

DEVICE = "cuda"
SINGLE, HALF = torch.float32, torch.bfloat16
TOLERANCE = {SINGLE: 1e-4, HALF: 2e-2}
LONG = 2048


@pytest.fixture(scope="module", autouse=True)
def plain_functions() -> Iterator[None]:
    disable_cudnn_attention()
    with without_shape_checks():
        yield


@pytest.fixture(autouse=True)
def no_silent_way_out() -> Iterator[None]:
    """FlexAttention that is compiled too often would go on unfused; here it fails instead."""
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        yield


def on_gpu(kind: str, lengths: list[int], time: int | None = None) -> Layout:
    return make_layout(kind, lengths, time or max(lengths)).to(DEVICE)


def by_plan(query: Tensor, key: Tensor, value: Tensor, pattern, bias, scale: float, dropout: float) -> Tensor:
    return attend(query, key, value, pattern, bias, scale, dropout)


def planned(case: Case) -> Plan:
    bias = case.position.bias(case.query * case.scale, case.context)
    return plan(case.query, case.key, case.pattern, bias, False, 0.0)


def assert_equals_reference(case: Case, dtype: torch.dtype) -> None:
    """What the planner chooses, in this precision, against the reference in single, in the norm of the difference."""
    rounded = case.cast(dtype)
    y, slopes = rounded.run(by_plan)
    expected, expected_slopes = rounded.cast(SINGLE).run(reference)
    for got, wanted in zip([y, *slopes], [expected, *expected_slopes], strict=True):
        assert got.dtype == dtype
        assert (got.float() - wanted).norm() <= TOLERANCE[dtype] * wanted.norm() + 1e-6


@pytest.mark.parametrize("dtype", [SINGLE, HALF])
@pytest.mark.parametrize("position", ["none", "alibi", "t5", "shaw", "tree"])
@pytest.mark.parametrize("pattern", ["full", "causal", "strict", "window", "bigbird+causal"])
@pytest.mark.parametrize("layout", ["full", "padded", "packed"])
def test_short_sequences_equal_the_reference(layout: str, pattern: str, position: str, dtype: torch.dtype):
    case = make_case(on_gpu(layout, [70, 33, 51], 72), pattern, position, heads=(4, 2), head_width=24).cast(dtype)
    assert planned(case).path in ("sdpa", "key_range_attention", "unpacked_sdpa", "reference")
    assert_equals_reference(case, dtype)


@pytest.mark.parametrize("dtype", [SINGLE, HALF])
@pytest.mark.parametrize("position", ["alibi", "t5", "shaw"])
def test_packed_sequences_with_a_bias_take_flex(position: str, dtype: torch.dtype):
    layout = on_gpu("packed", [170, 33, 251], 260)
    case = make_case(layout, "causal", position, heads=(4, 2), head_width=32).cast(dtype)
    assert planned(case).path == "flex_attention"
    assert_equals_reference(case, dtype)


SPARSE = {
    "window": lambda: Window(100),
    "window+causal": lambda: Window(100) & Causal(),
    "bigbird": lambda: Window(1, 64) | Global(64) | Random(2, 64, 4, LONG, device=DEVICE),
}


@pytest.mark.parametrize(
    ("pattern", "position", "dtype"),
    [
        ("window", "none", SINGLE),
        ("window", "none", HALF),
        ("window+causal", "t5", HALF),
        ("bigbird", "none", SINGLE),
        ("bigbird", "none", HALF),
        ("bigbird", "shaw", SINGLE),
    ],
)
def test_long_sparse_sequences_take_flex(pattern: str, position: str, dtype: torch.dtype):
    case = make_case(on_gpu("padded", [LONG, LONG - 300]), "full", position, heads=(4, 2), head_width=64).cast(dtype)
    case.context = replace(case.context, pattern=SPARSE[pattern]() & case.pattern)
    chosen = planned(case)
    assert chosen.path == "flex_attention"
    assert "blocks are skipped" in chosen.reason
    assert_equals_reference(case, dtype)


@pytest.mark.parametrize("dtype", [SINGLE, HALF])
@pytest.mark.parametrize("layout", ["full", "padded", "packed"])
@pytest.mark.parametrize("position", ["none", "t5"])
def test_long_sparse_sequences_that_flex_cannot_take_go_block_by_block(position: str, layout: str, dtype: torch.dtype):
    case = make_case(on_gpu(layout, [LONG, LONG - 300]), "bigbird", position, heads=(4, 2), head_width=24).cast(dtype)
    assert planned(case).path == "block_sparse_attention"
    assert_equals_reference(case, dtype)


def test_a_block_mask_of_a_long_sequence_needs_no_square():
    """Asked pair by pair, 65,536 tokens in 16 heads would be 64 GiB of truth values."""
    pattern = BigBirdConfig(block=128, global_tokens=128).pattern(16, 65536, False, DEVICE)
    assert pattern is not None
    torch.cuda.reset_peak_memory_stats()
    mask = block_mask(pattern, 1, 16, 65536, 65536, DEVICE)
    assert torch.cuda.max_memory_allocated() < 2**30
    assert int(mask.kv_num_blocks.sum()) == 0, "blocks of this size are seen whole or not at all"
    assert mask.mask_mod is noop_mask


@torch.no_grad()
@pytest.mark.parametrize("attention", [{"kind": "window", "reach": 64}, {"kind": "local", "block": 128}], ids=str)
def test_what_is_written_behind_a_long_text_sees_its_window(attention: dict):
    torch.manual_seed(0)
    shape = {"width": 64, "depth": 1, "heads": 2, "dropout": 0.0, "position": "rotary", "attention": attention}
    model = DecoderConfig.from_tree(shape).build(50).to(DEVICE).eval()
    lengths = torch.tensor([LONG, LONG - 700], device=DEVICE)
    tokens, newest = torch.randint(50, (2, LONG), device=DEVICE), torch.randint(50, (2, 1), device=DEVICE)
    _, state = model.step(tokens, model.start(None, rows=2, capacity=LONG + 1), lengths)
    found, _ = model.step(newest, state)
    for row, length in enumerate(lengths.tolist()):
        whole = torch.cat([tokens[row, :length], newest[row]])[None]
        wanted = model(Sequences.full(whole))[0, -1]
        torch.testing.assert_close(found[row, 0], wanted, rtol=5e-3, atol=5e-3)


def test_flex_goes_on_compiled_however_lengths_change():
    for length in range(LONG, LONG + 12 * 37, 37):
        case = make_case(on_gpu("padded", [length, 1000]), "window", heads=(2, 2), head_width=32).cast(HALF)
        assert planned(case).path == "flex_attention"
        assert_equals_reference(case, HALF)


@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)])
@pytest.mark.parametrize("extra", [0, 40])
@pytest.mark.parametrize("pattern", ["full", "causal"])
def test_packed_sequences_in_half_precision_take_the_fused_kernel(
    pattern: str, extra: int, heads: tuple[int, int], monkeypatch: pytest.MonkeyPatch
):
    varlen_attention, calls = FAST_PATHS["varlen_attention"], []
    monkeypatch.setitem(FAST_PATHS, "varlen_attention", lambda *given: calls.append(1) or varlen_attention(*given))
    layout = on_gpu("packed", [570, 1, 533, 251], 570 + extra)
    case = make_case(layout, pattern, heads=heads, head_width=64).cast(HALF)
    chosen = planned(case)
    assert chosen.path == "varlen_attention"
    assert "fused kernel" in chosen.reason
    assert_equals_reference(case, HALF)
    assert calls


@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)])
@pytest.mark.parametrize("extra", [0, 40])
@pytest.mark.parametrize("pattern", ["full", "causal"])
def test_short_packed_sequences_in_half_precision_share_tiles(pattern: str, extra: int, heads: tuple[int, int]):
    case = make_case(on_gpu("packed", [70, 1, 33, 12, 151], 151 + extra), pattern, heads=heads, head_width=40)
    assert planned(case.cast(HALF)).path == "key_range_attention"
    assert_equals_reference(case.cast(HALF), HALF)


@pytest.mark.parametrize("extra", [0, 40])
@pytest.mark.parametrize(("longer", "path"), [(1, "key_range_attention"), (9, "varlen_attention")])
def test_packed_sequences_across_take_a_fused_kernel(extra: int, longer: int, path: str):
    target = on_gpu("packed", [longer * n for n in (30, 71, 5)], longer * 71 + extra)
    source = on_gpu("packed", [longer * n for n in (44, 20, 60)])
    case = make_cross_case(target, source, heads=(4, 2), head_width=64).cast(HALF)
    assert planned(case).path == path
    assert_equals_reference(case, HALF)


@pytest.mark.parametrize(("dtype", "head_width"), [(SINGLE, 64), (HALF, 132)])
@pytest.mark.parametrize("pattern", ["full", "causal"])
def test_packed_sequences_that_the_fused_kernel_does_not_take(pattern: str, dtype: torch.dtype, head_width: int):
    layout = on_gpu("packed", [170, 1, 33], 180)
    case = make_case(layout, pattern, heads=(4, 2), head_width=head_width).cast(dtype)
    chosen = planned(case)
    assert chosen.path == "unpacked_sdpa"
    assert "one a row" in chosen.reason
    assert_equals_reference(case, dtype)


@pytest.mark.parametrize("sizes", [(32, 64), (30, 50)])
@pytest.mark.parametrize("dtype", [SINGLE, HALF])
def test_experts_equal_those_on_the_cpu(sizes: tuple[int, int], dtype: torch.dtype):
    torch.manual_seed(0)
    part, x = Experts(*sizes, experts=6, chosen=2), torch.randn(3, 20, sizes[0])
    expected = part(x)
    expected.square().sum().backward()
    slope = part.up.grad.clone()
    part.zero_grad()
    with torch.autocast(DEVICE, dtype, enabled=dtype == HALF):
        y = part.to(DEVICE)(x.to(DEVICE))
    y.float().square().sum().backward()
    assert (y.cpu().float() - expected).norm() <= 3 * TOLERANCE[dtype] * expected.norm()
    assert (part.up.grad.cpu() - slope).norm() <= 5 * TOLERANCE[dtype] * slope.norm()


Trained = tuple[torch.nn.Module, Callable[[], Tensor]]
"""A model, and its loss on some batch."""
SMALL = {"width": 32, "heads": 2, "depth": 2}
ROWS = [[3, 4, 5, 6, 7], [8, 9], [1, 2, 3]]


def token_loss(logits: Tensor, sequences: Sequences) -> Tensor:
    return cross_entropy(logits[sequences.layout.valid], sequences.tokens[sequences.layout.valid])


def encoder() -> Trained:
    model = EncoderConfig(**SMALL).build(vocab=20, classes=3)
    labels = torch.tensor([0, 1, 2], device=DEVICE)
    return model, lambda: F.cross_entropy(model(Sequences.padded(ROWS, device=DEVICE)).float(), labels)


def decoder() -> Trained:
    model = DecoderConfig(**SMALL, position=RotaryConfig(), attention=BigBirdConfig(block=2, global_tokens=1)).build(20)
    packed = Sequences.packed(ROWS, device=DEVICE)
    return model, lambda: token_loss(model(packed), packed)


def mixture() -> Trained:
    model = DecoderConfig(**SMALL, position=T5Config(), feedforward=ExpertsConfig(experts=4)).build(20)
    packed = Sequences.packed(ROWS, device=DEVICE)
    return model, lambda: token_loss(model(packed), packed)


def encoder_decoder() -> Trained:
    model = EncoderDecoderConfig(**SMALL).build(20)
    source, target = Sequences.packed(ROWS, device=DEVICE), Sequences.packed(ROWS[::-1], device=DEVICE)
    return model, lambda: token_loss(model(source, target), target)


def vision() -> Trained:
    model = VisionConfig(**SMALL).build(classes=3)
    images, labels = torch.randn(3, 3, 32, 32, device=DEVICE), torch.tensor([0, 1, 2], device=DEVICE)
    return model, lambda: F.cross_entropy(model(images).float(), labels)


@pytest.mark.parametrize("dtype", [SINGLE, HALF])
@pytest.mark.parametrize("shape", [encoder, decoder, mixture, encoder_decoder, vision])
def test_a_model_of_each_shape_trains(shape, dtype: torch.dtype):
    torch.manual_seed(0)
    model, loss_of = shape()
    model.to(DEVICE)
    optimiser, losses = torch.optim.Adam(model.parameters(), lr=1e-3), []
    for _ in range(8):
        with torch.autocast(DEVICE, dtype, enabled=dtype == HALF):
            loss = loss_of()
        optimiser.zero_grad()
        loss.backward()
        assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_of_many_logits_in_one_kernel(smoothing: float):
    torch.manual_seed(0)
    x, weight = (torch.randn(size, 64, device=DEVICE, requires_grad=True) for size in (300, 1003))
    targets = torch.randint(1003, (300,), device=DEVICE).masked_fill(torch.rand(300, device=DEVICE) < 0.2, IGNORED)
    got = linear_cross_entropy(x, weight, None, targets, smoothing, rows=128)
    wanted = cross_entropy(F.linear(x, weight), targets, smoothing)
    assert got.item() == pytest.approx(wanted.item(), rel=1e-5)
    pairs = zip(torch.autograd.grad(got, [x, weight]), torch.autograd.grad(wanted, [x, weight]), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_cudnn_attends_as_the_others_do_where_shapes_are_known():
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 4, 256, 64, device=DEVICE, dtype=HALF, requires_grad=True) for _ in range(3))
    found = []
    for enabled in (True, False):
        with cudnn_attention(enabled):
            y = sdpa(query, key, value, Causal(), None, 0.125, 0.0)
        found.append([y, *torch.autograd.grad(y.float().square().sum(), [query, key, value])])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one.float(), other.float(), rtol=0.05, atol=0.05)
