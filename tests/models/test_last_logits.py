"""Only the logits after a prompt's last token: those that the step gives there, by every stepper."""

import pytest
import torch

from regard.models import DecoderConfig
from regard.models.decoding.cpu import CPUDecoder
from regard.models.decoding.cuda_graph import CUDAGraphDecoder
from regard.models.stepper import PrefixDecoder, last_logits
from regard.nn.layout import Sequences

VOCAB = 23


class OnlySteps:
    """A stepper that has no shorter way."""

    def __init__(self, model):
        self.start, self.step, self.reorder = model.start, model.step, model.reorder


@pytest.fixture
def model():
    torch.manual_seed(0)
    return DecoderConfig(width=16, depth=2, heads=2, dropout=0.0).build(VOCAB).eval()


@pytest.mark.parametrize(
    "kind", [lambda model: model, OnlySteps, CPUDecoder, CUDAGraphDecoder], ids=["own", "any", "cpu", "cuda graph"]
)
@pytest.mark.parametrize("lengths", [None, [5, 2, 1]], ids=["even", "ragged"])
def test_what_follows_the_last_token_of_each_row(model, kind, lengths):
    stepper, tokens = kind(model), torch.randint(4, VOCAB, (3, 5))
    given = None if lengths is None else torch.tensor(lengths)
    logits, _ = model.step(tokens, model.start(None, rows=3, capacity=8), given)
    expected = logits[torch.arange(3), torch.tensor(lengths or [5, 5, 5]) - 1]
    found, state = last_logits(stepper, tokens, stepper.start(None, rows=3, capacity=8), given)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    more, _ = stepper.step(tokens[:, :1], state)
    assert more.shape == (3, 1, VOCAB)


@pytest.mark.parametrize("kind", [CPUDecoder, CUDAGraphDecoder])
def test_one_token_more(model, kind):
    stepper, tokens = kind(model), torch.randint(4, VOCAB, (3, 5))
    _, state = last_logits(stepper, tokens, stepper.start(None, rows=3, capacity=8))
    found, _ = last_logits(stepper, tokens[:, :1], state)
    longer = torch.cat([tokens, tokens[:, :1]], 1)
    expected, _ = last_logits(model, longer, model.start(None, rows=3, capacity=8))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_a_source_is_read_without_logits(model, monkeypatch):
    heard = []
    head = model.head.forward
    monkeypatch.setattr(model.head, "forward", lambda x: heard.append(x.shape[1]) or head(x))
    stepper = PrefixDecoder(model, begin=1, separator=3)
    source = Sequences.padded([[5, 6, 7, 8, 2], [9, 2]])
    stepper.start(source, rows=2, capacity=4)
    assert heard == [1]
