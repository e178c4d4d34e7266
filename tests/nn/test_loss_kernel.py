"""Losses and slopes by one kernel equal those by torch: in Triton's interpreter, and on a GPU."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F

from regard.nn.loss import IGNORED, losses_and_gradients, uniform_smoothing

CASES = list(product((5, 9000), (0, 55), (0.0, 0.1), (False, True)))
"""Tokens of the vocabulary, columns that fill it up, smoothing, and whether some tokens have no share of it."""


def agrees(vocab, extra, smoothing, uneven, device="cpu", dtype=torch.float32):
    from regard.nn.fast.logits_triton import cross_entropy_with_gradient as kernel

    torch.manual_seed(vocab)
    logits = F.pad(4 * torch.randn(7, vocab, device=device), (0, extra), value=-torch.inf).to(dtype)
    targets = torch.randint(vocab, (7,), device=device)
    targets[3] = IGNORED
    spread = uniform_smoothing(vocab, [0]).to(device) if uneven else None
    losses, plain, gradients = losses_and_gradients(logits.clone(), targets, vocab, smoothing, spread)
    found, unsmoothed, written = kernel(logits, targets, vocab, smoothing, spread)
    assert written.data_ptr() == logits.data_ptr()
    torch.testing.assert_close(found, losses, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(unsmoothed, plain, rtol=1e-5, atol=1e-5)
    close = 1e-6 if dtype == torch.float32 else 1e-3
    wide = 8e-3 if dtype == torch.bfloat16 else 1e-4
    torch.testing.assert_close(written[:, :vocab], gradients[:, :vocab], rtol=wide, atol=close)
    assert not written[:, vocab:].any()


def test_equal_in_the_interpreter(interpret):
    interpret()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_equal_on_a_gpu(case, dtype):
    agrees(*case, "cuda", dtype)


if __name__ == "__main__":
    for one in CASES:
        agrees(*one)
