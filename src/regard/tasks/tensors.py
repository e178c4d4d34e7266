"""From the arrays of a batch to the tensors of a model."""

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.data.collate import Packed, Padded
from regard.errors import ConfigError
from regard.nn.device import to_device
from regard.nn.layout import Layout, Sequences
from regard.nn.loss import IGNORED


def to_sequences(field: Padded | Packed, device: torch.device) -> Sequences:
    """The tokens of a field and their layout."""
    tokens, lengths = torch.as_tensor(field.tokens), torch.as_tensor(field.lengths)
    if isinstance(field, Packed):
        layout = Layout.packing(lengths)
    elif bool((lengths == tokens.shape[1]).all()):
        layout = Layout.full(tokens.shape[0], tokens.shape[1])
    else:
        layout = Layout.padded(lengths, tokens.shape[1])
    return Sequences(tokens, layout).to(device)


def with_heads(sequences: Sequences, heads: Padded | Packed) -> Sequences:
    """The sequences with the position of each token's head, counted from the start of its sequence."""
    layout, lengths, positions = sequences.layout, torch.as_tensor(heads.lengths), torch.as_tensor(heads.tokens)
    if not torch.equal(lengths, layout.lengths.cpu()):
        raise ConfigError(
            "model.position",
            f"{int((lengths == 0).sum())} of {len(lengths)} sentences have no dependency tree (their heads are _); "
            "let a parser write the heads into the CoNLL-U file, or choose another position kind",
        )
    if isinstance(heads, Packed):
        tree = positions + torch.repeat_interleave(torch.cumsum(lengths, 0) - lengths, lengths)
    else:
        index = torch.arange(positions.shape[1])
        tree = torch.where(index < lengths[:, None], positions, index)
    return Sequences(sequences.tokens, layout.with_tree(to_device(tree, sequences.tokens.device)))


def shift(field: Padded | Packed, device: torch.device) -> tuple[Sequences, Int[Tensor, "batch time"]]:
    """All tokens but each sequence's last as inputs, all but its first as targets."""
    if isinstance(field, Packed):
        ends = np.cumsum(field.lengths)
        inputs = Packed(np.delete(field.tokens, ends - 1, axis=1), field.lengths - 1)
        targets = torch.as_tensor(np.delete(field.tokens, ends - field.lengths, axis=1))
        return to_sequences(inputs, device), to_device(targets, device)
    tokens, lengths = torch.as_tensor(field.tokens), torch.as_tensor(field.lengths)
    inputs = Padded(tokens[:, :-1].contiguous().numpy(), (lengths - 1).numpy())
    beyond = torch.arange(tokens.shape[1] - 1) >= (lengths - 1)[:, None]
    targets = tokens[:, 1:].masked_fill(beyond, IGNORED)
    return to_sequences(inputs, device), to_device(targets, device)
