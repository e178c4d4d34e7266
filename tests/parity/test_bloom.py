"""BLOOM, whose heads know distances by ALiBi, beside Hugging Face's."""

import mappings
import pytest
from transformers import BloomConfig, BloomForCausalLM
from twins import Twins, sentences

from regard.models import DecoderConfig

VOCAB, WIDTH, DEPTH = 31, 48, 2
POWER_OF_TWO_AND_NOT = pytest.mark.parametrize("heads", [4, 6])


def twins(heads: int) -> Twins:
    ours = DecoderConfig(
        width=WIDTH,
        depth=DEPTH,
        heads=heads,
        position={"kind": "alibi"},
        feedforward={"kind": "plain", "activation": "gelu-tanh"},
        embedding={"share": "all", "scale": False, "norm": True},
    )
    config = BloomConfig(
        hidden_size=WIDTH, n_layer=DEPTH, n_head=heads, vocab_size=VOCAB, bos_token_id=None, eos_token_id=None
    )
    return Twins(ours.build(VOCAB), BloomForCausalLM(config), mappings.bloom(DEPTH, heads))


@POWER_OF_TWO_AND_NOT
def test_logits_and_gradients_of_a_padded_batch(heads: int) -> None:
    both, batch = twins(heads), sentences(9, 5, 1, vocab=VOCAB)
    theirs = both.theirs(input_ids=batch.tokens, attention_mask=batch.layout.valid.long()).logits
    both.compare(both.ours(batch), theirs, batch.layout.valid)


@POWER_OF_TWO_AND_NOT
def test_cached_writing_from_prompts_of_different_lengths(heads: int) -> None:
    twins(heads).compare_writing([[3, 14, 15, 9, 2, 6], [27, 18], [8]])
