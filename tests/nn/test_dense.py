"""Plain products in place of torch's fused kernel: the same outputs and gradients, and only where they pay."""

import pytest
import torch
import torch.nn.functional as F

from regard.nn.fast import sdpa as dense_module
from regard.nn.fast.sdpa import MOST, QUERIES, _ByProducts, dense, products_pay

WIDTH = 8


def tensors(queries, keys, heads=3, kv_heads=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(queries + keys)
    shapes = [(2, queries, heads, WIDTH), (2, keys, kv_heads, WIDTH), (2, keys, kv_heads, WIDTH)]
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]
    return [x.transpose(1, 2).requires_grad_() for x in drawn]


def masked(queries, keys):
    lengths = torch.tensor([keys, max(1, keys // 2)])
    padding = (torch.arange(keys) < lengths[:, None])[:, None, None, :]
    window = (torch.arange(queries)[:, None] - torch.arange(keys)).abs() <= keys
    return {"none": None, "padding": padding, "full": padding & window}


CASES = [("none", 5, 5, True), ("none", QUERIES, QUERIES, True), ("none", 2 * QUERIES + 7, 2 * QUERIES + 7, True)]
CASES += [(kind, *sizes, False) for kind in ("none", "padding", "full") for sizes in ((6, 6), (4, 9), (150, 140))]


@pytest.mark.parametrize(("kind", "queries", "keys", "causal"), CASES)
def test_outputs_and_gradients_are_those_of_torchs_kernel(kind, queries, keys, causal):
    given, mask = tensors(queries, keys), masked(queries, keys)[kind]
    expected = F.scaled_dot_product_attention(*given, mask, is_causal=causal, scale=0.3)
    found = _ByProducts.apply(*given, mask, causal, 0.3)
    torch.testing.assert_close(found, expected)
    slope = torch.randn_like(expected)
    for one, two in zip(
        torch.autograd.grad(found, given, slope), torch.autograd.grad(expected, given, slope), strict=True
    ):
        torch.testing.assert_close(one, two)


def test_gradients_are_those_of_finite_differences():
    given = tensors(4, 4)
    assert torch.autograd.gradcheck(lambda *x: _ByProducts.apply(*x, None, True, 0.5), given)


@pytest.mark.parametrize("causal", [False, True])
def test_heads_may_share_keys(causal, monkeypatch):
    given = tensors(6, 6, heads=4, kv_heads=2)
    expected = dense(*given, None, 0.0, causal, 0.4)
    monkeypatch.setattr(dense_module, "products_pay", lambda *_: True)
    found = dense(*given, None, 0.0, causal, 0.4)
    torch.testing.assert_close(found, expected)
    for one, two in zip(
        torch.autograd.grad(found.sum(), given), torch.autograd.grad(expected.sum(), given), strict=True
    ):
        torch.testing.assert_close(one, two)


def test_bfloat16_rounds_about_as_torchs_kernel_does():
    exact = tensors(200, 200)
    given = [x.detach().bfloat16() for x in exact]
    right = F.scaled_dot_product_attention(*exact, is_causal=True)
    far, farther = (
        (y.double() - right).norm() / right.norm()
        for y in (
            F.scaled_dot_product_attention(*given, is_causal=True),
            _ByProducts.apply(*given, None, True, WIDTH**-0.5),
        )
    )
    assert farther < 2 * far


@pytest.mark.parametrize("within", [False, True], ids=["backward outside", "backward within"])
def test_formats_may_differ_under_autocast(within, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    query, key, value = tensors(6, 6, dtype=torch.float32)
    asked = query.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = dense(asked, key, value, None, 0.0, True, 0.4)
        assert y.dtype == torch.bfloat16
        if within:
            y.sum().backward()
    if not within:
        y.sum().backward()
    assert (asked.grad.dtype, key.grad.dtype, value.grad.dtype) == (torch.bfloat16, torch.float32, torch.float32)
    torch.testing.assert_close(value.grad.sum(), torch.tensor(float(y.numel())), rtol=1e-2, atol=0)


def test_where_they_pay(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    half, single = (tensors(6, 6, dtype=dtype)[0] for dtype in (torch.bfloat16, torch.float32))
    assert products_pay(half, half, None, 0.0)
    assert products_pay(half, half, torch.ones(6, 6, dtype=torch.bool), 0.0)
    assert not products_pay(single, single, None, 0.0)
    assert not products_pay(half, half, None, 0.1)
    assert not products_pay(half, half, torch.zeros(6, 6, dtype=torch.bfloat16), 0.0)
    assert not products_pay(half[:, :, :1], half, None, 0.0)
    assert not products_pay(half.to("meta"), half.to("meta"), None, 0.0)
    long = torch.empty(1, 1, 1, WIDTH, dtype=torch.bfloat16).expand(1, 1, int(MOST**0.5) + 1, WIDTH)
    assert not products_pay(long, long, None, 0.0)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    assert not products_pay(half, half, None, 0.0)
