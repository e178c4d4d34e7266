"""The likeliest token in few steps is that of torch: on a CPU, and by one kernel, interpreted and on a GPU."""

from itertools import product

import pytest
import torch

from regard.decode.constraints import Constraints
from regard.decode.stepwise import greedy_tokens

CASES = list(product((1, 5), (7, 20000), ([], [2], [0, 3, 5])))
"""Rows, tokens of the vocabulary, what is forbidden."""


def agrees(likeliest, rows, vocab, forbidden, device="cpu", dtype=torch.float32):
    torch.manual_seed(vocab)
    logits = torch.randn(rows, vocab, device=device).mul(8).round().div(4).to(dtype)  # many are equally likely
    tokens, chosen = likeliest(logits, torch.tensor(forbidden, dtype=torch.long, device=device))
    logprobs = logits.double().log_softmax(-1)
    allowed = Constraints(eos=None, forbidden=forbidden, device=device).apply(
        logprobs, torch.empty(rows, 0, dtype=torch.long), 0
    )
    assert tokens.tolist() == allowed.argmax(-1).tolist()
    torch.testing.assert_close(chosen.double(), logprobs.gather(1, tokens[:, None])[:, 0], rtol=1e-5, atol=1e-5)
    for bad in (1, slice(None)):  # a token that exists, as it is fed on before anybody can look
        logits[0, bad] = torch.nan
        tokens, chosen = likeliest(logits, torch.tensor(forbidden, dtype=torch.long, device=device))
        assert 0 <= tokens[0] < vocab
        assert chosen[0].isnan()


def by_one_kernel(logits, forbidden):
    from regard.nn.fast.logits_triton import argmax_logprob

    return argmax_logprob(logits, forbidden)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equal_on_a_cpu(case):
    agrees(greedy_tokens, *case)


def test_equal_in_the_interpreter(interpret):
    interpret()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_equal_on_a_gpu(case, dtype):
    agrees(greedy_tokens, *case, "cuda", dtype)


if __name__ == "__main__":
    for one in CASES:
        agrees(by_one_kernel, *one)
