"""BigBird beside Hugging Face's: sparse, with its table of random blocks read as a pattern; and full."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import BigBirdConfig, BigBirdForMaskedLM
from twins import Twins, sentences

from regard.export.huggingface.architectures import bert
from regard.models import EncoderConfig, preset
from regard.nn.context import AttentionContext
from regard.nn.layout import Layout
from regard.nn.pattern import Pattern

VOCAB, DEPTH, HEADS, BLOCK, RANDOM = 31, 2, 4, 4, 2
LONGEST = 48
NOT_USED = frozenset({"bert.pooler.weight", "bert.pooler.bias"})


@dataclass(frozen=True, eq=False)
class BlockTable(Pattern):
    """First and last block see and are seen by all; the others see their neighbours and the blocks of a table."""

    table: Tensor
    """Random blocks of each head for every block but the first and the last."""
    block: int
    per_head = True

    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        query, key, last = query // self.block, key // self.block, self.table.shape[1] + 1
        everywhere = (query == 0) | (query == last) | (key == 0) | (key == last)
        row = (query - 1).clamp(0, last - 2)
        drawn = (self.table[head, row] == key[..., None]).any(-1)
        return everywhere | ((query - key).abs() <= 1) | drawn


def twins(attention: str) -> Twins:
    shape: dict[str, Any] = {"width": 32, "depth": DEPTH, "heads": HEADS}
    ours = EncoderConfig(
        **{
            **preset("bert-base").model,
            **shape,
            "position": {"kind": "learned", "length": LONGEST},
            "feedforward": {"kind": "plain", "activation": "gelu-tanh"},
            "head": {"kind": "vocabulary", "bias": True, "transform": "gelu-tanh", "transform_epsilon": 1e-12},
        }
    )
    config = BigBirdConfig(
        hidden_size=32,
        intermediate_size=128,
        num_hidden_layers=DEPTH,
        num_attention_heads=HEADS,
        max_position_embeddings=LONGEST,
        vocab_size=VOCAB,
        block_size=BLOCK,
        num_random_blocks=RANDOM,
        attention_type=attention,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        sep_token_id=None,
        attn_implementation="eager",
    )
    return Twins(ours.build(VOCAB), BigBirdForMaskedLM(config), bert.masked_lm_names(DEPTH), NOT_USED)


def table_of(layer: Any, time: int) -> Tensor:
    """The random blocks that a layer of Hugging Face draws for sequences of this length."""
    np.random.seed(layer.seed)
    lengths, counts = layer._get_rand_attn_plan(time, BLOCK, RANDOM)
    drawn = layer._bigbird_block_rand_mask_with_head(time, time, BLOCK, BLOCK, HEADS, lengths, counts)
    return torch.from_numpy(np.stack(drawn)).long()


def test_block_sparse_attention_with_their_random_blocks() -> None:
    both, batch = twins("block_sparse"), sentences(48, 41, 13, vocab=VOCAB)
    both.theirs.train()  # they draw at random while training only; there is no dropout
    layers = [layer.attention.self for layer in both.theirs.bert.encoder.layer]
    for layer in layers:
        layer.seed = 7  # one table for all layers
    table = table_of(layers[0], batch.tokens.shape[1])
    theirs = both.theirs(input_ids=batch.tokens, attention_mask=batch.layout.valid.long()).logits
    assert both.theirs.bert.attention_type == "block_sparse"
    assert len({tuple(head.flatten().tolist()) for head in table}) == HEADS
    both.compare(sparse(both.ours, batch.tokens, batch.layout, BlockTable(table, BLOCK)), theirs, batch.layout.valid)


def sparse(model: Any, tokens: Tensor, layout: Layout, pattern: Pattern) -> Tensor:
    """Our encoder with a pattern of the caller's."""
    context = AttentionContext(pattern & layout.pattern(), layout.positions, layout.positions)
    return model.head(model.stack(model.embedding(tokens), context, layout.valid))


def test_full_attention() -> None:
    both, batch = twins("original_full"), sentences(25, 11, 1, vocab=VOCAB)
    segments = (torch.arange(25) > 7).long().expand(3, -1)
    inputs = {"input_ids": batch.tokens, "attention_mask": batch.layout.valid.long(), "token_type_ids": segments}
    both.compare(both.ours(batch, segments), both.theirs(**inputs).logits, batch.layout.valid)


def test_block_sparse_attention_is_full_below_its_threshold() -> None:
    both, batch = twins("block_sparse"), sentences((5 + 2 * RANDOM) * BLOCK, 20, 3, vocab=VOCAB)
    theirs = both.theirs(input_ids=batch.tokens, attention_mask=batch.layout.valid.long()).logits
    assert both.theirs.bert.attention_type == "original_full"
    both.compare(both.ours(batch), theirs, batch.layout.valid)
