"""Norm, product, bend and sum as one operator: against torch's modules, and its kernels in Triton's interpreter."""

from itertools import product as every

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.nn.fast.linear import Folded, fused, fused_onto, known
from regard.nn.norm import LayerNorm, RMSNorm

BENDS = {
    "none": lambda x: x,
    "gelu": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
}
KINDS = [
    ("none", "none", False, False, False),
    ("layer", "none", False, False, True),
    ("layer", "gelu", False, True, True),
    ("rms", "silu", True, False, False),
    ("layer", "relu", True, True, True),
    ("rms", "tanh", False, True, False),
    ("layer", "gelu-tanh", False, False, True),
]
"""Norm, bend, gate, residual sum, bias."""


def norm_of(kind, width):
    norm = {"none": nn.Identity, "layer": lambda: LayerNorm(width), "rms": lambda: RMSNorm(width)}[kind]()
    for parameter in norm.parameters():
        nn.init.uniform_(parameter, 0.5, 1.5)
    return norm


def case(rows, width, outputs, kinds, dtype=torch.float32, device="cpu"):
    """What the operator is given, and what torch's own modules make of it in float64."""
    kind, bend, gated, adds, biased = kinds
    torch.manual_seed(rows + width)
    linear = nn.Linear(width, outputs * (2 if gated else 1), bias=biased).to(dtype)
    norm = norm_of(kind, width).to(dtype)
    x = (torch.randn(rows, width) + 0.3).to(dtype)
    added = torch.randn(rows, outputs).to(dtype) if adds else None
    given = (x.to(device), Folded.of(*_on(device, linear), norm.to(device)), bend, gated)
    given = (*given, None if added is None else added.to(device))
    with torch.no_grad():
        y = linear.cpu().double()(norm.cpu().double()(x.double()))
    gate, up = y.chunk(2, -1) if gated else (y, torch.ones(1))
    y = BENDS[bend](gate) * up
    return given, y if added is None else y + added.double()


def _on(device, linear):
    bias = linear.bias
    return linear.weight.detach().to(device), None if bias is None else bias.detach().to(device)


@pytest.mark.parametrize("kinds", KINDS, ids=str)
@pytest.mark.parametrize("rows", [1, 5])
def test_equal_to_torchs_modules(kinds, rows):
    given, expected = case(rows, 100, 33, kinds)
    torch.testing.assert_close(fused(*given).double(), expected, atol=1e-5, rtol=1e-5)


def test_a_sum_onto_a_stream_is_a_product_and_a_sum():
    (x, by, *_), expected = case(5, 100, 33, ("none", "none", False, False, True))
    added = torch.randn(5, 33)
    y, moments = fused_onto(added, x, by)
    assert moments is None  # a processor counts them where they are needed
    torch.testing.assert_close(y.double(), expected + added, atol=1e-5, rtol=1e-5)


def test_which_norms_are_known():
    assert known(nn.Identity())
    assert known(RMSNorm(4))
    assert known(LayerNorm(4))
    assert not known(LayerNorm(4, epsilon_inside=False))
    assert not known(nn.LayerNorm(4))


def test_only_matrices_behind_a_gain_are_copied():
    weight = torch.randn(3, 4)
    assert Folded.of(weight, None, nn.Identity()).weight.data_ptr() == weight.data_ptr()
    assert Folded.of(weight, None, RMSNorm(4, gain=False)).weight.data_ptr() == weight.data_ptr()
    assert Folded.of(weight, None, RMSNorm(4)).weight.data_ptr() != weight.data_ptr()


def interpreted():
    """In a process of its own: the kernels by Triton's interpreter, which is asked for before they are read."""
    from regard.nn.fast.linear_triton import product

    for rows, (width, outputs), kinds in every((1, 2, 5, 64), ((100, 33), (768, 17)), KINDS):
        (x, by, bend, gated, added), expected = case(rows, width, outputs, kinds)
        found, nothing = product(x, by.weight, by.sums, by.offset, by.norm, by.epsilon, bend, gated, added)
        torch.testing.assert_close(found.double(), expected, atol=2e-5, rtol=2e-5)
        assert not nothing.numel()


def interpreted_with_moments():
    """A product tells the moments of what it wrote, and the one behind it takes them for its norm's."""
    from regard.nn.fast.linear_triton import product

    for rows, width, kinds in every((2, 5, 64), (16, 100, 768), KINDS):
        (x, by, *_), _ = case(rows, 40, width, ("none", "none", False, True, True))
        added = torch.randn(rows, width)
        y, moments = product(x, *by[:3], by.norm, by.epsilon, "none", False, added, tells=True)
        torch.testing.assert_close(moments.sum(1), torch.stack([y.sum(1), y.square().sum(1)]), atol=1e-3, rtol=1e-5)
        (_, by, bend, gated, added), _ = case(rows, width, 33, kinds)
        given = (y, *by[:3], by.norm, by.epsilon, bend, gated, added)
        torch.testing.assert_close(product(*given, moments)[0], product(*given)[0], atol=1e-5, rtol=1e-5)


def tiles_fit_into_fast_memory():
    from regard.nn.fast.linear_triton import fitting, tile

    sizes = ((768, 2304), (3072, 768), (768, 50257))
    for room, size, rows, gated in every((228_000, 96_000, 48_000), (2, 4), (2, 16, 64), (False, True)):
        for width, outputs in sizes:
            found = fitting(tile(rows, width, outputs, size, gated), size, gated, room)
            assert (found.rows + found.outputs * (1 + gated)) * found.columns * size * found.stages <= room
            assert found.columns >= 16


def test_kernels_equal_torchs_modules_in_the_interpreter(interpret):
    interpret()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kinds", KINDS, ids=str)
@pytest.mark.parametrize("rows", [1, 2, 5, 64])
@pytest.mark.parametrize(("width", "outputs"), [(768, 2304), (3072, 768), (100, 33), (768, 50257)])
def test_kernels_equal_torchs_modules_on_a_gpu(rows, width, outputs, kinds, dtype):
    given, expected = case(rows, width, outputs, kinds, dtype, "cuda")
    error = (fused(*given).cpu().double() - expected).norm() / expected.norm()
    assert error < {torch.bfloat16: 2e-2, torch.float16: 2e-3, torch.float32: 1e-5}[dtype]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [1, 2, 64])
@pytest.mark.parametrize("width", [768, 100])
def test_moments_that_are_told_give_what_counting_gives_on_a_gpu(rows, width, dtype):
    (x, by, *_), _ = case(rows, 40, width, ("none", "none", False, True, True), dtype, "cuda")
    y, moments = fused_onto(torch.randn(rows, width, device="cuda", dtype=dtype), x, by)
    (_, by, *_), _ = case(rows, width, 50257, ("layer", "none", False, False, True), dtype, "cuda")
    assert (moments is None) == (rows == 1)
    close = {"atol": 2e-2, "rtol": 2e-2} if dtype == torch.bfloat16 else {"atol": 1e-4, "rtol": 1e-4}
    torch.testing.assert_close(fused(y, by, moments=moments), fused(y, by), **close)


if __name__ == "__main__":
    tiles_fit_into_fast_memory()
    interpreted()
    interpreted_with_moments()
