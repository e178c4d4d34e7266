"""GPT-2 beside Hugging Face's."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel
from twins import Twins, sentences

from regard.export.huggingface.architectures import gpt
from regard.models import DecoderConfig, preset

VOCAB, DEPTH = 31, 2
SMALL = {"width": 32, "depth": DEPTH, "heads": 4, "position": {"kind": "learned", "length": 24}}


def twins() -> Twins:
    ours = DecoderConfig(**{**preset("gpt2-124m").model, **SMALL}).build(VOCAB)
    config = GPT2Config(
        n_embd=32,
        n_layer=DEPTH,
        n_head=4,
        n_positions=24,
        vocab_size=VOCAB,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="eager",
    )
    return Twins(ours, GPT2LMHeadModel(config), gpt.gpt2_names(DEPTH))


def test_logits_and_gradients_of_a_padded_batch() -> None:
    both, batch = twins(), sentences(9, 5, 1, vocab=VOCAB)
    theirs = both.theirs(input_ids=batch.tokens, attention_mask=batch.layout.valid.long()).logits
    both.compare(both.ours(batch), theirs, batch.layout.valid)


def test_cached_writing_from_prompts_of_different_lengths() -> None:
    twins().compare_writing([[3, 14, 15, 9, 2, 6], [27, 18], [8]])


def test_the_preset_has_the_published_size() -> None:
    known = preset("gpt2-124m")
    with torch.device("meta"):
        theirs = GPT2LMHeadModel(GPT2Config())
    assert DecoderConfig(**known.model).num_params(**known.sizes) == sum(p.numel() for p in theirs.parameters())
