"""Models and token ids between our vocabulary, which begins with our special tokens, and the one a model came with."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regard.export.exported_model import ExportedModel, TextConfig
from regard.export.huggingface.config_keys import Json
from regard.nn.head import NEVER, VocabularyHeadConfig
from regard.text.id_mapping import NONE, IdMapping
from regard.text.tokenizer import Tokenizer


def our_rows(table: Tensor, id_mapping: IdMapping) -> Tensor:
    """A table with one row a token, in our order; zeros for tokens it does not have."""
    index = torch.tensor(id_mapping.foreign_ids)
    rows = table[index.clamp(min=0)]
    rows[index == NONE] = 0
    return rows


def their_rows(table: Tensor, id_mapping: IdMapping) -> Tensor:
    """A table in our order as the other model has it."""
    return table[torch.tensor(id_mapping.our_ids)]


def reordered(
    config: TextConfig,
    weights: dict[str, Tensor],
    rows: Callable[[Tensor, IdMapping], Tensor],
    source: IdMapping,
    target: IdMapping,
) -> dict[str, Tensor]:
    """The weights of a model, those with one row a token in another order."""
    head = ("head.linear.weight", "head.bias") if vocabulary_head(config) else ()
    tables = [name for name in weights if name.endswith("embedding.table.weight") or name in head]
    return {**weights, **{name: rows(weights[name], source if "source" in name else target) for name in tables}}


def vocabulary_head(config: TextConfig) -> VocabularyHeadConfig | None:
    """A model's output layer, if it is over the vocabulary."""
    head = VocabularyHeadConfig() if config.head is None else config.head
    return head if isinstance(head, VocabularyHeadConfig) else None


def in_their_ids(exported: ExportedModel) -> tuple[TextConfig, dict[str, Tensor]]:
    """Settings and weights of a model under the ids of the vocabulary it came with; one of ours stays as it is."""
    config, weights = exported.text_config, exported.weights()
    source, target = exported.source.id_mapping, exported.target.id_mapping
    if source is None or target is None:
        return config, weights
    weights = reordered(config, weights, their_rows, source, target)
    if head := vocabulary_head(config):
        config = config.but(head=head.but(never=()))
    return config.but(embedding=config.embedding.but(same=())), weights


def without_id_mapping(exported: ExportedModel) -> tuple[TextConfig, dict[str, Tensor]]:
    """Settings and weights in which shared rows are copied and tokens never generated have a bias of −∞ (`NEVER`)."""
    config, weights = exported.text_config, exported.weights()
    for one, other in config.embedding.same:
        for name in weights:
            if name.endswith("embedding.table.weight"):
                weights[name][one] = weights[name][other]
    head = vocabulary_head(config)
    if head and head.never:
        bias = weights.get("head.bias", torch.zeros(exported.target.vocab_size))
        bias[list(head.never)] = NEVER
        weights["head.bias"] = bias
        config = config.but(head=head.but(never=(), bias=True))
    return config.but(embedding=config.embedding.but(same=())), weights


def their_size(tokenizer: Tokenizer) -> int:
    """Rows of the other model's embedding."""
    return tokenizer.vocab_size if tokenizer.id_mapping is None else tokenizer.id_mapping.size


def their_ids(ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    return list(ids) if tokenizer.id_mapping is None else tokenizer.id_mapping.to_foreign(ids)


def our_ids(ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    return list(ids) if tokenizer.id_mapping is None else tokenizer.id_mapping.from_foreign(ids)


def our_logits(logits: Tensor, tokenizer: Tokenizer) -> Tensor:
    if tokenizer.id_mapping is None:
        return logits
    index = torch.tensor(tokenizer.id_mapping.foreign_ids).clamp(min=0)
    return logits[..., index].index_fill(-1, torch.tensor(tokenizer.id_mapping.never, dtype=torch.long), NEVER)


def their_token_ids(settings: Json, exported: ExportedModel) -> Json:
    """Settings with their ids of special tokens; one that the vocabulary lacks has none."""
    id_mapping = exported.target.id_mapping
    if id_mapping is None:
        return settings
    ours = {key: token for key, token in settings.items() if key.endswith("_token_id") and token is not None}
    theirs = {key: id_mapping.special[token] for key, token in ours.items()}
    return {**settings, **{key: None if token == NONE else token for key, token in theirs.items()}}
