"""Input, separator and output as one sequence, for a model of one stack (T-D in Liu 2018).

    m_1 … m_n  <sep>  y_1 … y_k  <eos>

Only what follows the separator is an answer, unless the input is to be predicted too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from regard.data.collate import Packed, Padded, Ragged, pack, pad
from regard.nn.device import to_device
from regard.nn.layout import Layout
from regard.nn.loss import IGNORED
from regard.tasks.base import Inputs
from regard.tasks.tensors import shift
from regard.text.special_tokens import SEP

Field = Padded | Packed


@dataclass(frozen=True)
class OneSequence(Inputs):
    """A batch of joined sequences; scores count the outputs, whatever training counts."""

    outputs: Tensor
    """The answers without those that belong to the input."""
    output_count: int

    @property
    def scored(self) -> int:
        """Tokens of the outputs."""
        return self.output_count


def join(source: Field, target: Field) -> Field:
    """Each source without its end token, the separator, and its target without its begin token."""
    rows = [
        np.concatenate([one[:-1], [SEP], other[1:]]) for one, other in zip(_rows(source), _rows(target), strict=True)
    ]
    ragged = Ragged(np.concatenate(rows), np.array([len(row) for row in rows], np.int64))
    return pack(ragged) if isinstance(source, Packed) else pad(ragged)


def _rows(field: Field) -> list[NDArray[np.int64]]:
    if isinstance(field, Packed):
        return np.split(field.tokens[0], np.cumsum(field.lengths)[:-1])
    return [row[:length] for row, length in zip(field.tokens, field.lengths, strict=True)]


def joined_inputs(
    source: Field,
    target: Field,
    model: Any,  # noqa: ANN401
    vocab: int,
    device: torch.device,
    packed_flops: Callable[..., float],
    passes: float = 3.0,
    predict_input: bool = False,
) -> OneSequence:
    """Joined sequences as tensors; `packed_flops` adds up what sequences cost one by one."""
    whole = join(source, target)
    written, targets = shift(whole, device)
    outputs = targets.masked_fill(
        _before_output(written.layout, to_device(torch.from_numpy(source.lengths), device)), IGNORED
    )
    tokens, count = int(np.sum(whole.lengths - 1)), int(np.sum(target.lengths - 1))
    answers, answer_count = (targets, tokens) if predict_input else (outputs, count)
    if written.layout.packed:
        flops = packed_flops(partial(model.flops, 1, vocab=0), whole.lengths - 1)
    else:
        flops = float(model.flops(*written.tokens.shape, vocab=0))
    flops += answer_count * output_flops(model, vocab)
    return OneSequence((written,), answers, answer_count, tokens, passes * flops, outputs, count)


def output_flops(model: Any, vocab: int) -> int:  # noqa: ANN401
    """FLOPs of one token's scores over the vocabulary: what a model costs more than without any."""
    return model.flops(1, 1, vocab=vocab) - model.flops(1, 1, vocab=0)


def _before_output(layout: Layout, sources: Int[Tensor, " sequences"]) -> Tensor:
    """True at the places whose next token still belongs to the input or is the separator."""
    of_each = sources[layout.segment] if layout.packed else sources[:, None]
    return layout.index < of_each - 1
