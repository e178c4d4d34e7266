"""FLOPs of a training step as budgets count them, beside torch's own count of forward and backward together."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.models import kinds_of
from regard.nn.attention.reference import record_attention
from regard.nn.layout import Sequences
from regard.run.recipe import resolve_recipe

VOCAB = 300
KINDS = [(shape, kind) for shape in ("encoder-decoder", "decoder", "encoder") for kind in kinds_of(shape)]


def tokens(batch: int, time: int) -> Sequences:
    return Sequences.full(torch.ones(batch, time, dtype=torch.long))


@pytest.mark.parametrize(("shape", "kind"), KINDS, ids=[kind for _, kind in KINDS])
def test_every_kind_counts_as_torch_does(shape: str, kind: str):
    config = resolve_recipe({"model": {"kind": kind, "width": 32, "depth": 4, "dropout": 0.0}}).model
    both = shape == "encoder-decoder"
    sizes = {"source": 24, "target": 28} if both else {"time": 28}
    model = config.build(VOCAB).double()  # type: ignore[call-arg, union-attr]
    # in double precision torch counts recurrent layers too, and in the attention reference all of attention
    with record_attention(model), FlopCounterMode(display=False) as counter:
        model(*(tokens(3, time) for time in sizes.values())).sum().backward()
    expected = 3 * config.flops(batch=3, **sizes, vocab=VOCAB)  # type: ignore[call-arg]
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.02)
