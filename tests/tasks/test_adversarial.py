"""Adversarial training: where words are moved to, and what the second reading adds."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.data.settings import DataConfig
from regard.errors import ConfigError
from regard.models import DecoderConfig, EncoderConfig
from regard.nn.layout import Sequences
from regard.nn.loss import cross_entropy
from regard.tasks.base import Inputs, Vocabularies
from regard.tasks.classification import Classification, ClassificationConfig
from regard.tasks.regularisation import adversarial_loss, adversarial_perturbation
from regard.text.tokenizer import Tokenizer, WordConfig

ROWS = [[5, 6, 7], [8, 9], [4, 4, 4, 4]]


def inputs_of(targets: list[int]) -> Inputs:
    return Inputs((Sequences.padded(ROWS),), torch.tensor(targets), len(targets), 9, 0.0)


def task_of(**settings: Any) -> Classification:
    words = Tokenizer.train(["a b c d e"], WordConfig())
    return ClassificationConfig(**settings).task(Vocabularies({"text": words}, ["no", "yes"]))


def test_a_linear_model_loses_as_much_as_its_margin_can():
    # −log σ(w·x) grows fastest along −w, so a step of s‖x‖ takes s‖x‖‖w‖ from the margin w·x
    x, w = torch.tensor([3.0, 4.0]), torch.tensor([2.0, -1.0])
    table = nn.Embedding.from_pretrained(x[None], freeze=False)

    def read() -> Tensor:
        return F.softplus(-(table(torch.zeros(1, 1, dtype=torch.long)) @ w)).sum()

    loss = adversarial_loss(table, read, torch.ones(1, 1, dtype=torch.bool), share=0.1)
    clean, moved = 3 * 2 - 4, 3 * 2 - 4 - 0.1 * 5 * math.sqrt(5)
    expected = (math.log1p(math.exp(-clean)) + math.log1p(math.exp(-moved))) / 2
    assert float(loss.detach()) == pytest.approx(expected)
    loss.backward()
    # the move itself is taken as given: d/dx of either reading is −σ(−margin)·w
    slope = (1 / (1 + math.exp(clean)) + 1 / (1 + math.exp(moved))) / 2
    assert table.weight.grad is not None
    torch.testing.assert_close(table.weight.grad[0], -slope * w)


@given(share=st.floats(0.0, 4.0), seed=st.integers(0, 999))
def test_a_text_moves_by_its_share_along_its_slope(share: float, seed: int):
    draw = torch.Generator().manual_seed(seed)
    x, slope = torch.randn(3, 4, 5, generator=draw), torch.randn(3, 4, 5, generator=draw)
    valid = Sequences.padded(ROWS).layout.valid
    move = adversarial_perturbation(x, slope, valid, share)
    assert (move[~valid] == 0).all()
    for row in range(3):
        real, own = valid[row], move[row].flatten()
        length = share * x[row][real].norm()
        torch.testing.assert_close(own.norm(), length)
        torch.testing.assert_close(own @ slope[row].flatten(), length * slope[row][real].norm(), rtol=1e-4, atol=1e-5)


def test_a_flat_loss_moves_nothing():
    x = torch.randn(3, 4, 5)
    assert (adversarial_perturbation(x, torch.zeros_like(x), Sequences.padded(ROWS).layout.valid, 1.0) == 0).all()


@pytest.mark.parametrize("shape", [EncoderConfig, DecoderConfig])
def test_the_second_reading_is_harder_and_leaves_the_model_as_it_was(shape: type[EncoderConfig | DecoderConfig]):
    task, inputs = task_of(adversarial=0.1, smoothing=0.1), inputs_of([0, 1, 1])
    model = shape(width=16, depth=1, heads=2, dropout=0.0).build(10, 2)
    clean = cross_entropy(model(*inputs.arguments), inputs.targets, 0.1)
    assert float(task.loss(model, inputs).detach()) > float(clean.detach())
    torch.testing.assert_close(cross_entropy(model(*inputs.arguments), inputs.targets, 0.1), clean)


def test_no_share_is_the_plain_loss():
    task, inputs = task_of(smoothing=0.1), inputs_of([0, 1, 1])
    model = EncoderConfig(width=16, depth=1, heads=2, dropout=0.0).build(10, 2)
    torch.testing.assert_close(
        task.loss(model, inputs), cross_entropy(model(*inputs.arguments), inputs.targets, 0.1), rtol=0, atol=0
    )
    assert task.passes == 1.0
    assert task_of(adversarial=0.1).passes > 2


def test_frozen_word_vectors_can_be_moved_too():
    task, inputs = task_of(adversarial=0.1), inputs_of([0, 1, 1])
    model = EncoderConfig(width=16, depth=1, heads=2).build(10, 2)
    model.embedding.requires_grad_(False)
    task.loss(model, inputs).backward()
    assert model.embedding.table.weight.grad is None
    assert model.head.linear.weight.grad is not None  # type: ignore[union-attr]


def test_it_is_refused_beside_consistency():
    with pytest.raises(ConfigError, match=r"task.adversarial: it does not go together with task.consistency"):
        ClassificationConfig(adversarial=0.1, consistency=1.0).check(EncoderConfig(), DataConfig())
