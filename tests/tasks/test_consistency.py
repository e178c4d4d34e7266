"""R-Drop: what two readings of a batch cost and add."""

import pytest
import torch
from torch.distributions import Categorical, kl_divergence

from regard.models import DecoderConfig, EncoderConfig
from regard.nn.layout import Sequences
from regard.nn.loss import IGNORED, cross_entropy
from regard.tasks.regularisation import consistent_losses, divergence, twice

ROWS = [[5, 6, 7], [8, 9], [4, 4, 4, 4]]


def test_disagreement_is_the_mean_of_both_divergences():
    first, second = torch.randn(4, 3, 7), torch.randn(4, 3, 7)
    counted = torch.rand(4, 3) < 0.7
    p, q = Categorical(logits=first), Categorical(logits=second)
    expected = (kl_divergence(p, q) + kl_divergence(q, p)) / 2
    torch.testing.assert_close(divergence(first, second, counted), expected[counted].sum())


def test_answers_that_agree_cost_their_cross_entropy_only():
    logits, targets = torch.randn(4, 3, 7), torch.randint(7, (4, 3))
    targets[0, 1] = IGNORED
    loss = consistent_losses(logits, logits, targets, smoothing=0.1, weight=3.0).objective
    torch.testing.assert_close(loss, cross_entropy(logits, targets, 0.1))


@pytest.mark.parametrize("lay", [Sequences.padded, Sequences.packed])
def test_twice_repeats_every_sequence(lay):
    model = DecoderConfig(width=16, depth=1, heads=2).build(10).eval()
    once = lay(ROWS)
    (both,) = twice((once,))
    first, second = model(both).chunk(2, 1 if once.layout.packed else 0)
    valid = once.layout.valid
    torch.testing.assert_close(first[valid], model(once)[valid])
    torch.testing.assert_close(second[valid], model(once)[valid])


@pytest.mark.parametrize("lay", [Sequences.padded, Sequences.packed])
def test_twice_repeats_trees(lay):
    once = lay([[5, 6], [7, 8]])
    heads = torch.tensor([[0, 0], [1, 1]]) if not once.layout.packed else torch.tensor([[0, 0, 3, 3]])
    once = Sequences(once.tokens, once.layout.with_tree(heads))
    tree = once.twice().layout.tree
    assert tree is not None
    expected = [[0, 0, 3, 3, 4, 4, 7, 7]] if once.layout.packed else [[0, 0], [1, 1], [0, 0], [1, 1]]
    assert tree.tolist() == expected


def test_dropout_makes_two_readings_differ():
    model = EncoderConfig(width=16, depth=1, heads=2, dropout=0.5).build(10, 2)
    first, second = model(*twice((Sequences.padded(ROWS),))).chunk(2)
    assert divergence(first, second, torch.ones(3, dtype=torch.bool)) > 0
