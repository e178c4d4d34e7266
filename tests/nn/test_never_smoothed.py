"""Label smoothing where some tokens are never written: as if the vocabulary had only the others."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import regard.nn.head as heads
from regard.models import DecoderConfig
from regard.nn.head import VocabularyHeadConfig
from regard.nn.layout import Sequences
from regard.tasks.base import GenerationTask, Inputs
from regard.tasks.regularisation import consistent_losses
from regard.text.special_tokens import BOS, EOS

NEVER, VOCAB = (1, 4, 4), 11
KEPT = [token for token in range(VOCAB) if token not in NEVER]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("sliced", [False, True])
def test_nothing_is_spread_over_them(bias: bool, sliced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(heads, "LARGE_ON_CPU", 0 if sliced else 1 << 20)
    head = VocabularyHeadConfig(bias=bias, never=NEVER).build(8, VOCAB)
    x, answers = torch.randn(2, 5, 8, requires_grad=True), torch.randint(len(KEPT), (2, 5))
    answers[0, 1] = -100
    targets = torch.where(answers < 0, -100, torch.tensor(KEPT)[answers.clamp(min=0)])
    learned = [x, *head.parameters()]
    found = head.loss(x, targets, 0.1)
    weight, shift = head.linear.weight[KEPT], head.bias[KEPT] if bias else None  # type: ignore[union-attr, index]
    expected = F.cross_entropy(F.linear(x, weight, shift).flatten(0, 1), answers.flatten(), reduction="sum",
                               label_smoothing=0.1)  # fmt: skip
    torch.testing.assert_close(found, expected)
    gradients = torch.autograd.grad(found, learned), torch.autograd.grad(expected, learned)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_two_readings_are_smoothed_alike() -> None:
    torch.manual_seed(0)
    config = DecoderConfig(width=16, depth=1, heads=2, dropout=0.0, head={"kind": "vocabulary", "never": NEVER})  # type: ignore[arg-type]
    model, text = config.build(VOCAB), Sequences.padded([[BOS, 7, 8]])
    targets = torch.tensor([[7, 8, EOS]])
    logits: Tensor = model(text)
    once = consistent_losses(logits, logits, targets, 0.1, 1.0, model.head.spread).objective
    torch.testing.assert_close(once, model.head.loss(model.hidden(text), targets, 0.1))
    task: Any = SimpleNamespace(config=SimpleNamespace(smoothing=0.1, consistency=1.0))
    torch.testing.assert_close(GenerationTask.losses(task, model, Inputs((text,), targets, 3, 3, 0.0)).objective, once)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_in_one_kernel_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    head = VocabularyHeadConfig(bias=True, never=(3, 6)).build(64, 1003).cuda()
    x, targets = torch.randn(2, 150, 64, device="cuda", requires_grad=True), torch.randint(7, 1003, (2, 150)).cuda()
    whole = head.loss(x, targets, 0.1)
    monkeypatch.setattr(heads, "LARGE", 0)
    found = head.loss(x, targets, 0.1)
    assert found.item() == pytest.approx(whole.item(), rel=1e-5)
    for one, other in zip(torch.autograd.grad(found, x), torch.autograd.grad(whole, x), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_without_them_nothing_changes() -> None:
    head = VocabularyHeadConfig().build(8, VOCAB)
    assert head.spread is None
    assert set(head.state_dict()) == set(VocabularyHeadConfig(never=NEVER).build(8, VOCAB).state_dict())
