"""Plain matmuls in place of torch's fused kernel: the same outputs and gradients, and only where they are faster."""

import pytest
import torch
import torch.nn.functional as F

from regard.nn.fast.sdpa import (
    BLOCK_M,
    MAX_PAIRS,
    MatmulAttention,
    masked_matmul_attention,
    masked_sdpa,
    matmul_is_faster,
)

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


CASES = [("none", 5, 5, True), ("none", BLOCK_M, BLOCK_M, True), ("none", 2 * BLOCK_M + 7, 2 * BLOCK_M + 7, True)]
CASES += [(kind, *sizes, False) for kind in ("none", "padding", "full") for sizes in ((6, 6), (4, 9), (150, 140))]


@pytest.mark.parametrize(("kind", "queries", "keys", "causal"), CASES)
def test_outputs_and_gradients_are_those_of_torchs_kernel(kind, queries, keys, causal):
    given, mask = tensors(queries, keys), masked(queries, keys)[kind]
    expected = F.scaled_dot_product_attention(*given, mask, is_causal=causal, scale=0.3)
    found = MatmulAttention.apply(*given, mask, causal, 0.3)
    torch.testing.assert_close(found, expected)
    grad_output = torch.randn_like(expected)
    for one, two in zip(
        torch.autograd.grad(found, given, grad_output), torch.autograd.grad(expected, given, grad_output), strict=True
    ):
        torch.testing.assert_close(one, two)


def test_gradients_are_those_of_finite_differences():
    given = tensors(4, 4)
    assert torch.autograd.gradcheck(lambda *x: MatmulAttention.apply(*x, None, True, 0.5), given)


@pytest.mark.parametrize("causal", [False, True])
def test_heads_may_share_keys(causal):
    given = tensors(6, 6, heads=4, kv_heads=2)
    expected = masked_sdpa(*given, None, causal, 0.4, 0.0)
    found = masked_matmul_attention(*given, None, causal, 0.4, 0.0)
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
            MatmulAttention.apply(*given, None, True, WIDTH**-0.5),
        )
    )
    assert farther < 2 * far


@pytest.mark.parametrize("within", [False, True], ids=["backward outside", "backward within"])
def test_dtypes_may_differ_under_autocast(within):
    query, key, value = tensors(6, 6, dtype=torch.float32)
    q = query.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = masked_matmul_attention(q, key, value, None, True, 0.4, 0.0)
        assert y.dtype == torch.bfloat16
        if within:
            y.sum().backward()
    if not within:
        y.sum().backward()
    assert (q.grad.dtype, key.grad.dtype, value.grad.dtype) == (torch.bfloat16, torch.float32, torch.float32)
    torch.testing.assert_close(value.grad.sum(), torch.tensor(float(y.numel())), rtol=1e-2, atol=0)


def test_where_they_are_faster(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    half, single = (tensors(6, 6, dtype=dtype)[0] for dtype in (torch.bfloat16, torch.float32))
    assert matmul_is_faster(half, 2, 6, 6, 0.0)
    assert not matmul_is_faster(single, 2, 6, 6, 0.0)
    assert not matmul_is_faster(half, 2, 6, 6, 0.1)
    assert not matmul_is_faster(half, 2, 1, 6, 0.0)
    assert not matmul_is_faster(half.to("meta"), 2, 6, 6, 0.0)
    long = int(MAX_PAIRS**0.5) + 1
    assert not matmul_is_faster(half, 1, long, long, 0.0)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    assert not matmul_is_faster(half, 2, 6, 6, 0.0)
