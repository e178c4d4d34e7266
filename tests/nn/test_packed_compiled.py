"""Blocks compiled for packed rows of any length: one graph a kind of block, and the same numbers."""

import subprocess
import sys
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor
from torch._dynamo.utils import counters

import regard.nn.fast.packed as packed_attention
import regard.nn.fast.plan as planning
from regard.models import EncoderDecoder, EncoderDecoderConfig
from regard.nn.dropout import DropoutSettings
from regard.nn.layout import Sequences
from regard.train.compilation import compile_blocks


def test_in_a_process_of_its_own():
    """torch cannot follow the wrappers that check shapes in tests."""
    subprocess.run([sys.executable, "-W", "ignore", __file__], check=True, timeout=300)


def packed(seed: int, sequences: int) -> tuple[Sequences, Sequences]:
    torch.manual_seed(seed)
    lengths = torch.randint(2, 9, (2, sequences)).tolist()
    source, target = ([torch.randint(4, 30, (length,)).tolist() for length in side] for side in lengths)
    return Sequences.packed(source), Sequences.packed(target)


def gradients(model: EncoderDecoder, y: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(y.square().mean(), list(model.parameters()))


def rows_of_any_length_share_what_is_compiled(key_ranges: bool, dropped: float = 0.0, prepared: bool = False):
    packed_attention._is_prepared = lambda segments: prepared  # as on a GPU
    planning._key_range_kernel_fits = lambda q: key_ranges  # as on a GPU in half precision, or in single
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    model = (
        EncoderDecoderConfig(width=16, depth=2, heads=2, dropout=DropoutSettings(attention=dropped)).build(30).train()
    )
    compiled = deepcopy(model)
    compile_blocks(compiled, any_length=True)
    for seed, sequences in enumerate((5, 7, 4, 9)):
        batch = packed(seed, sequences)
        torch.manual_seed(seed)  # for what dropout draws
        wanted = model(*batch)
        torch.manual_seed(seed)
        found = compiled(*batch)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        for one, other in zip(gradients(model, wanted), gradients(compiled, found), strict=True):
            torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-5)
    assert not counters["graph_break"], counters["graph_break"]
    assert counters["stats"]["unique_graphs"] == 3, counters[
        "stats"
    ]  # a block of the encoder, one of the decoder, a norm


if __name__ == "__main__":
    torch.compile = partial(torch.compile, backend="aot_eager")
    rows_of_any_length_share_what_is_compiled(key_ranges=True)
    rows_of_any_length_share_what_is_compiled(key_ranges=True, dropped=0.3)
    rows_of_any_length_share_what_is_compiled(key_ranges=True, dropped=0.3, prepared=True)
    rows_of_any_length_share_what_is_compiled(key_ranges=False)
