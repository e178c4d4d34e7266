"""A model under the numbers of the vocabulary that it came with; one with a vocabulary of ours stays as it is."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.export.exported_model import Subject
from regard.export.huggingface.vocabulary import renumbered, their_rows, writes_tokens
from regard.nn.head import NEVER
from regard.text.id_mapping import NONE
from regard.text.tokenizer import Tokenizer


def restored(subject: Subject) -> tuple[Any, dict[str, Tensor]]:
    """Settings and weights of a model as other programs know it: only tokens that its vocabulary has."""
    config, weights = subject.settled, subject.weights()
    reads, writes = subject.source.id_mapping, subject.target.id_mapping
    if reads is None or writes is None:
        return config, weights
    weights = renumbered(config, weights, their_rows, reads, writes)
    if writes_tokens(config):
        config = config.but(head=config.head.but(never=()))
    return config.but(embedding=config.embedding.but(same=())), weights


def spread(subject: Subject) -> tuple[Any, dict[str, Tensor]]:
    """Settings and weights that say by numbers alone which tokens share a row and which are never written."""
    config, weights = subject.settled, subject.weights()
    for one, other in config.embedding.same:
        for name in weights:
            if name.endswith("embedding.table.weight"):
                weights[name][one] = weights[name][other]
    never = list(config.head.never)
    if never:
        bias = weights.get("head.bias", torch.zeros(subject.target.vocab_size))
        bias[never] = NEVER
        weights["head.bias"] = bias
        config = config.but(head=config.head.but(never=(), bias=True))
    return config.but(embedding=config.embedding.but(same=())), weights


def rows_of(tokenizer: Tokenizer) -> int:
    """Rows that another program's table has for a vocabulary."""
    return tokenizer.vocab_size if tokenizer.id_mapping is None else tokenizer.id_mapping.size


def their_ids(ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """Token ids as another program knows them."""
    return list(ids) if tokenizer.id_mapping is None else tokenizer.id_mapping.to_foreign(ids)


def our_ids(ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """Another program's token ids as ours."""
    return list(ids) if tokenizer.id_mapping is None else tokenizer.id_mapping.from_foreign(ids)


def our_logits(logits: Tensor, tokenizer: Tokenizer) -> Tensor:
    """Scores of another program's tokens as those of ours."""
    if tokenizer.id_mapping is None:
        return logits
    index = torch.tensor(tokenizer.id_mapping.foreign_ids).clamp(min=0)
    return logits[..., index].index_fill(-1, torch.tensor(tokenizer.id_mapping.never, dtype=torch.long), NEVER)


def their_settings(settings: dict[str, Any], subject: Subject) -> dict[str, Any]:
    """Settings in which special tokens have their own numbers; one that the vocabulary lacks has none."""
    id_mapping = subject.target.id_mapping
    if id_mapping is None:
        return settings
    named = {name: own for name, own in settings.items() if name.endswith("_token_id") and own is not None}
    found = {name: id_mapping.special[own] for name, own in named.items()}
    return {**settings, **{name: None if number == NONE else number for name, number in found.items()}}
