"""Llama, with query heads that share keys and values, beside Hugging Face's."""

import pytest
from transformers import LlamaConfig, LlamaForCausalLM
from twins import Twins, sentences

from regard.export.huggingface.architectures import llama
from regard.models import DecoderConfig, preset

VOCAB, DEPTH, HIDDEN = 31, 2, 80


def twins(kv_heads: int = 2) -> Twins:
    small = {
        "width": 32,
        "depth": DEPTH,
        "heads": 4,
        "attention": {"kind": "full", "kv_heads": kv_heads, "bias": False},
        "feedforward": {"kind": "gated", "hidden": HIDDEN},
    }
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=HIDDEN,
        num_hidden_layers=DEPTH,
        num_attention_heads=4,
        num_key_value_heads=kv_heads,
        vocab_size=VOCAB,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="eager",
    )
    ours = DecoderConfig(**{**preset("llama-small").model, **small}).build(VOCAB)
    return Twins(ours, LlamaForCausalLM(config), llama.parameter_names(DEPTH))


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_logits_and_gradients_of_a_padded_batch(kv_heads: int) -> None:
    both, batch = twins(kv_heads), sentences(9, 5, 1, vocab=VOCAB)
    theirs = both.theirs(input_ids=batch.tokens, attention_mask=batch.layout.valid.long()).logits
    both.compare(both.ours(batch), theirs, batch.layout.valid)


def test_cached_writing_from_prompts_of_different_lengths() -> None:
    twins().compare_writing([[3, 14, 15, 9, 2, 6], [27, 18], [8]])
