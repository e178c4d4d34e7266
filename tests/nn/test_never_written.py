"""Tokens that an imported model does not have, and those that are two names of one of its tokens."""

import pytest
import torch

import regard.nn.head as heads
from regard.errors import ConfigError
from regard.nn.embedding import EmbeddingConfig
from regard.nn.head import NEVER, VocabularyHeadConfig


@pytest.mark.parametrize("bias", [False, True])
def test_tokens_that_are_never_written_take_no_probability(bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    head = VocabularyHeadConfig(bias=bias, never=(1, 4)).build(8, 11)
    x, targets = torch.randn(2, 5, 8, requires_grad=True), torch.tensor([[0, 2, 3, 5, 6], [7, 8, 9, 10, 0]])
    logits = head(x)
    assert (logits[..., [1, 4]] == NEVER).all()
    kept = [token for token in range(11) if token not in (1, 4)]
    torch.testing.assert_close(logits.softmax(-1)[..., kept], logits[..., kept].softmax(-1))
    held = head.loss(x, targets)
    monkeypatch.setattr(heads, "LARGE_ON_CPU", 0)
    sliced = head.loss(x, targets)
    torch.testing.assert_close(sliced, held)
    for one, other in zip(torch.autograd.grad(held, x), torch.autograd.grad(sliced, x), strict=True):
        torch.testing.assert_close(one, other)
    assert {name for name, _ in head.named_parameters()} == {"linear.weight", *(["bias"] if bias else [])}


def test_two_names_of_one_token_share_its_row() -> None:
    table = EmbeddingConfig(same=((2, 0), (5, 3))).build(7, 4)
    x = table(torch.tensor([[2, 0, 5, 3, 1]]))[0]
    assert torch.equal(x[0], x[1])
    assert torch.equal(x[2], x[3])
    x.sum().backward()
    gradient = table.table.weight.grad
    assert gradient is not None
    assert not gradient[[2, 5]].any()


def test_tokens_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model.head.never: expected tokens below 7, got 9"):
        VocabularyHeadConfig(never=(9,)).build(8, 7)
    with pytest.raises(ConfigError, match=r"model.embedding.same: expected tokens below 7, got 8"):
        EmbeddingConfig(same=((8, 0),)).build(7, 8)
