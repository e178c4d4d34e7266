"""On a GPU: the kernel equals the plain steps, a captured step the model's own, and searches write the same text."""

import copy
from collections.abc import Iterator

import jaxtyping
import pytest
import torch
from test_cuda_graph import (
    BOS,
    EOS,
    FUSED,
    KINDS,
    PAD,
    SEARCHES,
    SOURCES,
    VOCAB,
    logits_of,
    name,
    tokens_of,
    translator,
    writer,
)

from regard.decode import GreedyConfig, search
from regard.decode.steppers import choose_backend
from regard.models.decoding.cuda_graph import CUDAGraphDecoder
from regard.nn.fast.decode import decode_attention, shared_cache_attention
from regard.nn.layout import Sequences

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

DEVICE = "cuda"


@pytest.fixture(scope="module", autouse=True)
def plain_functions() -> Iterator[None]:
    """torch cannot trace the wrappers that check shapes in tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("rows", "heads", "kv_heads", "capacity", "width"), [(3, 4, 2, 300, 24), (1, 12, 12, 512, 64), (5, 2, 2, 64, 128)]
)
def test_the_kernel_equals_the_plain_steps(rows, heads, kv_heads, capacity, width, dtype):
    draw = lambda *shape: torch.randn(*shape, dtype=dtype)  # noqa: E731
    query, key, value = draw(rows, heads, width), draw(rows, kv_heads, width), draw(rows, kv_heads, width)
    keys, values = draw(rows, kv_heads, capacity, width), draw(rows, kv_heads, capacity, width)
    lengths = torch.tensor([0, capacity - 1, 17, 40, 1])[:rows]
    for bias in (None, draw(rows, heads, capacity), draw(1, 1, capacity).expand(rows, heads, capacity)):
        both = []
        for device in ("cpu", DEVICE):
            given = [part.clone().to(device) for part in (query, key, value, keys, values, lengths)]
            answer = decode_attention(*given, None if bias is None else bias.to(device), 0.2)
            both.append([part.cpu().float() for part in (answer, *given[3:5])])
        for one, two in zip(*both, strict=True):
            torch.testing.assert_close(one, two, atol=3e-2 if dtype == torch.bfloat16 else 1e-5, rtol=1e-2)
    cache_rows = torch.tensor([rows - 1, 0, 0, 1, 2])[:rows]
    given = (query, keys, values, lengths + 1, cache_rows)
    one = shared_cache_attention(*given, 0.2)
    two = shared_cache_attention(*(part.to(DEVICE) for part in given), 0.2)
    torch.testing.assert_close(one, two.cpu(), atol=3e-2 if dtype == torch.bfloat16 else 1e-5, rtol=1e-2)


@pytest.mark.parametrize("kinds", KINDS, ids=name)
@pytest.mark.parametrize("ragged", [False, True], ids=["even", "ragged"])
def test_captured_equals_the_models_own_step(kinds, ragged):
    model = writer(**kinds).double().to(DEVICE)
    prompt, tokens = torch.randint(3, VOCAB, (3, 5), device=DEVICE), torch.randint(3, VOCAB, (6, 4), device=DEVICE)
    lengths = torch.tensor([2, 5, 1], device=DEVICE) if ragged else None
    stepper = CUDAGraphDecoder(model)
    for rows in ([2, 0], [1, 1, 0, 2, 2, 0]):
        own, other = (
            logits_of(one, None, prompt, lengths, tokens, torch.tensor(rows, device=DEVICE)) for one in (model, stepper)
        )
        for one, two in zip(own, other, strict=True):
            torch.testing.assert_close(one, two, atol=1e-4, rtol=1e-4)  # the kernel sums in float32


@pytest.mark.parametrize("kinds", FUSED, ids=name)
@pytest.mark.parametrize("rows", [1, 5, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_fused_blocks_equal_the_models_own_step(kinds, rows, dtype):
    exact = writer(**kinds).to(DEVICE)
    model = copy.deepcopy(exact).to(dtype)
    prompt, tokens = (
        torch.randint(3, VOCAB, (rows, 5), device=DEVICE),
        torch.randint(3, VOCAB, (rows, 4), device=DEVICE),
    )
    wanted, own, fused = (
        logits_of(one, None, prompt, None, tokens, torch.arange(rows, device=DEVICE))
        for one in (exact, model, CUDAGraphDecoder(model))
    )
    right = torch.cat(wanted)
    far, farther = ((torch.cat(one).float() - right).norm(dim=1) / right.norm(dim=1) for one in (own, fused))
    if dtype == torch.float32:
        assert farther.max() < 1e-4
    else:  # rounding tips the balance of some tokens, by either way
        assert farther.median() < 1.5 * far.median() + 1e-2


@pytest.mark.parametrize("config", SEARCHES, ids=lambda config: config.kind)
def test_the_same_text(config):
    model, prompts = writer(position="rotary").to(DEVICE), [[4], [5, 6, 7], [7, 8, 9], [4, 4]]
    own, other = (
        search(one, None, prompts, config, eos=EOS, bos=BOS, device=DEVICE) for one in (model, CUDAGraphDecoder(model))
    )
    assert tokens_of(own) == tokens_of(other)
    model, source = translator().to(DEVICE), Sequences.padded(SOURCES, device=DEVICE)
    own, other = (
        search(one, source, None, config, eos=EOS, bos=BOS, pad=PAD) for one in (model, CUDAGraphDecoder(model))
    )
    assert tokens_of(own) == tokens_of(other)


def test_the_choice_is_said_and_used_again_and_again():
    model = writer(position="learned").to(DEVICE)
    chosen = choose_backend(model, torch.device(DEVICE))
    assert isinstance(chosen.stepper, CUDAGraphDecoder)
    assert "CUDA graph" in chosen.reason
    for prompts in ([[5, 6]], [[7]], [[5, 6], [7, 8], [9, 4]]):
        own, other = (
            search(one, None, prompts, GreedyConfig(max_length=20), eos=None, bos=None, device=DEVICE)
            for one in (model, chosen.stepper)
        )
        assert tokens_of(own) == tokens_of(other)
