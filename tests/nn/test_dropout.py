"""Dropout: whole tokens, whole sub-layers, and the settings that name each kind."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import ConfigError
from regard.models import EncoderConfig
from regard.nn.dropout import DropLayers, Dropout, DropoutSettings, DropWords, keep_mask
from regard.nn.layout import Sequences

RATES = st.floats(0.05, 0.9)


@given(RATES, st.integers(0, 99))
def test_words_are_dropped_whole(rate: float, seed: int):
    torch.manual_seed(seed)
    x = torch.rand(40, 50, 3) + 1
    y = DropWords(rate)(x)
    gone = (y == 0).all(-1)
    assert torch.equal(y[~gone], x[~gone])
    assert gone.float().mean().item() == pytest.approx(rate, abs=0.05)


@given(RATES, st.integers(0, 99))
def test_layers_are_dropped_for_whole_rows_and_the_mean_is_kept(rate: float, seed: int):
    torch.manual_seed(seed)
    x = torch.ones(4000, 2, 3)
    y = DropLayers(rate)(x)
    gone = (y == 0).all(2).all(1)
    torch.testing.assert_close(y[~gone], x[~gone] / (1 - rate))
    assert gone.float().mean().item() == pytest.approx(rate, abs=0.05)


@pytest.mark.parametrize("kind", [DropWords, DropLayers])
def test_nothing_is_dropped_outside_training_or_at_rate_zero(kind):
    x = torch.randn(3, 4, 5)
    assert kind(0.9).eval()(x) is x
    assert kind(0.0)(x) is x


def test_one_number_sets_embedding_and_residual():
    assert EncoderConfig(dropout=0.3).dropout == DropoutSettings(embedding=0.3, residual=0.3)
    assert EncoderConfig(dropout=0).dropout == DropoutSettings()


@pytest.mark.parametrize("kind", list(DropoutSettings.model_fields))
def test_each_kind_acts_while_training_only(kind: str):
    torch.manual_seed(0)
    config = EncoderConfig(width=8, heads=2, depth=2, dropout=DropoutSettings(**{kind: 0.5}))
    model = config.build(vocab=20)
    sentence = Sequences.padded([[1, 2, 3, 4, 5]] * 4)
    assert not torch.equal(model(sentence), model(sentence))
    model.eval()
    assert torch.equal(model(sentence), model(sentence))


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: DropoutSettings(word=1.0), "word: expected less than 1, got 1.0"),
        (lambda: DropoutSettings(attention=-0.1), "attention: expected greater than or equal to 0, got -0.1"),
        (lambda: DropoutSettings(words=0.1), "words: unknown setting; did you mean 'word'?"),
        (lambda: EncoderConfig(dropout=1.5), "dropout.embedding: expected less than 1, got 1.5"),
    ],
)
def test_what_cannot_be_is_refused(ask, sentence: str):
    with pytest.raises(ConfigError) as refused:
        ask()
    assert str(refused.value) == sentence


@given(rate=st.floats(0.01, 0.95), seed=st.integers(0, 99))
def test_dropout_keeps_the_mean_and_its_gradient_is_its_mask(rate: float, seed: int):
    torch.manual_seed(seed)
    x = torch.ones(301, 67, requires_grad=True)
    y = Dropout(rate)(x)
    values = y.detach().unique().tolist()
    assert values == pytest.approx([0, 1 / (1 - rate)])
    dropped = float((y == 0).float().mean())
    assert abs(dropped - rate) < 5 * (rate * (1 - rate) / x.numel()) ** 0.5 + 1 / 65536
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_neighbours_that_share_a_draw_are_dropped_independently():
    torch.manual_seed(0)
    mask = keep_mask(torch.Size([200_000]), 0.3).view(-1, 4).float()
    assert torch.corrcoef(mask.T).fill_diagonal_(0).abs().max() < 0.02


@pytest.mark.parametrize("rate", [0.99999, 1 - 1e-9])
def test_a_rate_close_to_one_drops_nearly_all(rate: float):
    torch.manual_seed(0)
    assert keep_mask(torch.Size([20_000]), rate).sum() <= 20


def test_dropout_follows_the_seed_and_rests_outside_training():
    dropout, x = Dropout(0.5), torch.randn(7, 5)
    torch.manual_seed(3)
    first = dropout(x)
    torch.manual_seed(3)
    assert torch.equal(dropout(x), first)
    assert torch.equal(dropout.eval()(x), x)
