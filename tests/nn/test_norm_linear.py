"""Fused norm–linear layers: against torch's modules, and their kernels in Triton's interpreter."""

from itertools import product as every

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.nn.fast.linear import FoldedLinear, foldable, linear_residual, norm_linear
from regard.nn.norm import LayerNorm, RMSNorm

ACTIVATIONS = {
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
"""Norm, activation, gate, residual, bias."""


def norm_of(kind, width):
    norm = {"none": nn.Identity, "layer": lambda: LayerNorm(width), "rms": lambda: RMSNorm(width)}[kind]()
    for parameter in norm.parameters():
        nn.init.uniform_(parameter, 0.5, 1.5)
    return norm


def case(rows, width, outputs, kinds, dtype=torch.float32, device="cpu"):
    """What the operator is given, and what torch's own modules make of it in float64."""
    kind, activation, gated, adds, biased = kinds
    torch.manual_seed(rows + width)
    linear = nn.Linear(width, outputs * (2 if gated else 1), bias=biased).to(dtype)
    norm = norm_of(kind, width).to(dtype)
    x = (torch.randn(rows, width) + 0.3).to(dtype)
    added = torch.randn(rows, outputs).to(dtype) if adds else None
    given = (x.to(device), FoldedLinear.of(*_on(device, linear), norm.to(device)), activation, gated)
    given = (*given, None if added is None else added.to(device))
    with torch.no_grad():
        y = linear.cpu().double()(norm.cpu().double()(x.double()))
    gate, up = y.chunk(2, -1) if gated else (y, torch.ones(1))
    y = ACTIVATIONS[activation](gate) * up
    return given, y if added is None else y + added.double()


def _on(device, linear):
    bias = linear.bias
    return linear.weight.detach().to(device), None if bias is None else bias.detach().to(device)


@pytest.mark.parametrize("kinds", KINDS, ids=str)
@pytest.mark.parametrize("rows", [1, 5])
def test_equal_to_torchs_modules(kinds, rows):
    given, expected = case(rows, 100, 33, kinds)
    torch.testing.assert_close(norm_linear(*given).double(), expected, atol=1e-5, rtol=1e-5)


def test_a_linear_layer_with_residual():
    (x, folded, *_), expected = case(5, 100, 33, ("none", "none", False, False, True))
    added = torch.randn(5, 33)
    y, statistics = linear_residual(added, x, folded)
    assert statistics is None  # on a CPU they are computed where they are needed
    torch.testing.assert_close(y.double(), expected + added, atol=1e-5, rtol=1e-5)


def test_which_norms_are_foldable():
    assert foldable(nn.Identity())
    assert foldable(RMSNorm(4))
    assert foldable(LayerNorm(4))
    assert not foldable(LayerNorm(4, epsilon_inside=False))
    assert not foldable(nn.LayerNorm(4))


def test_only_weights_behind_a_gain_are_copied():
    weight = torch.randn(3, 4)
    assert FoldedLinear.of(weight, None, nn.Identity()).weight.data_ptr() == weight.data_ptr()
    assert FoldedLinear.of(weight, None, RMSNorm(4, gain=False)).weight.data_ptr() == weight.data_ptr()
    assert FoldedLinear.of(weight, None, RMSNorm(4)).weight.data_ptr() != weight.data_ptr()


def interpreted():
    """In a process of its own: the kernels folded Triton's interpreter, which is asked for before they are read."""
    from regard.nn.fast.linear_triton import fused_norm_linear

    for rows, (width, outputs), kinds in every((1, 2, 5, 64), ((100, 33), (768, 17)), KINDS):
        (x, folded, activation, gated, added), expected = case(rows, width, outputs, kinds)
        found, nothing = fused_norm_linear(x, *folded, activation, gated, added)
        torch.testing.assert_close(found.double(), expected, atol=2e-5, rtol=2e-5)
        assert not nothing.numel()


def interpreted_with_statistics():
    """A layer stores the row statistics of its output, and the next one reads them for its norm."""
    from regard.nn.fast.linear_triton import fused_norm_linear

    for rows, width, kinds in every((2, 5, 64), (16, 100, 768), KINDS):
        (x, folded, *_), _ = case(rows, 40, width, ("none", "none", False, True, True))
        added = torch.randn(rows, width)
        y, statistics = fused_norm_linear(x, *folded, "none", False, added, store_statistics=True)
        torch.testing.assert_close(statistics.sum(1), torch.stack([y.sum(1), y.square().sum(1)]), atol=1e-3, rtol=1e-5)
        (_, folded, activation, gated, added), _ = case(rows, width, 33, kinds)
        given = (y, *folded, activation, gated, added)
        torch.testing.assert_close(
            fused_norm_linear(*given, statistics)[0], fused_norm_linear(*given)[0], atol=1e-5, rtol=1e-5
        )


def blocks_fit_into_shared_memory():
    from regard.nn.fast.linear_triton import choose_launch, fit_shared_memory

    sizes = ((768, 2304), (3072, 768), (768, 50257))
    for limit, size, rows, gated in every((228_000, 96_000, 48_000), (2, 4), (2, 16, 64), (False, True)):
        for width, outputs in sizes:
            launch = fit_shared_memory(choose_launch(rows, width, outputs, size, gated), size, gated, limit)
            block = launch.block_m + launch.block_n * (1 + gated)
            assert block * launch.block_k * size * launch.stages <= limit
            assert launch.block_k >= 16


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
    error = (norm_linear(*given).cpu().double() - expected).norm() / expected.norm()
    assert error < {torch.bfloat16: 2e-2, torch.float16: 2e-3, torch.float32: 1e-5}[dtype]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [1, 2, 64])
@pytest.mark.parametrize("width", [768, 100])
def test_stored_statistics_equal_computed_ones_on_a_gpu(rows, width, dtype):
    (x, folded, *_), _ = case(rows, 40, width, ("none", "none", False, True, True), dtype, "cuda")
    y, statistics = linear_residual(torch.randn(rows, width, device="cuda", dtype=dtype), x, folded)
    (_, folded, *_), _ = case(rows, width, 50257, ("layer", "none", False, False, True), dtype, "cuda")
    assert (statistics is None) == (rows == 1)
    close = {"atol": 2e-2, "rtol": 2e-2} if dtype == torch.bfloat16 else {"atol": 1e-4, "rtol": 1e-4}
    torch.testing.assert_close(norm_linear(y, folded, statistics=statistics), norm_linear(y, folded), **close)


if __name__ == "__main__":
    blocks_fit_into_shared_memory()
    interpreted()
    interpreted_with_statistics()
