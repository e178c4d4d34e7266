"""T5, plain and gated, beside Hugging Face's."""

import pytest
import torch
from torch import nn
from transformers import T5Config, T5ForConditionalGeneration
from twins import PAD, Twins, sentences

from regard.export.huggingface.architectures import t5
from regard.models import EncoderDecoderConfig, preset

VOCAB, WIDTH, DEPTH, HEADS = 31, 32, 2, 4
PRESET = preset("t5-small").model
GATED = {
    "feedforward": {"kind": "gated", "activation": "gelu-tanh", "hidden": 128},
    "embedding": {"share": "inputs", "scale": False},
    "head": {"kind": "vocabulary", "scale": False},
}


def twins(*, gated: bool = False, head_width: int = WIDTH // HEADS) -> Twins:
    """The gated kind is version 1.1, whose output layer is no longer shared with the embedding."""
    small = {"width": WIDTH, "depth": DEPTH, "heads": HEADS, "position": {"kind": "t5", "buckets": 8, "farthest": 12}}
    attention = {**PRESET["attention"], "head_width": head_width}
    ours = EncoderDecoderConfig(**{**PRESET, **small, "attention": attention, **(GATED if gated else {})})
    config = T5Config(
        d_model=WIDTH,
        d_kv=head_width,
        d_ff=128,
        num_layers=DEPTH,
        num_heads=HEADS,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=12,
        vocab_size=VOCAB,
        feed_forward_proj="gated-gelu" if gated else "relu",
        tie_word_embeddings=not gated,
        decoder_start_token_id=PAD,
        eos_token_id=None,
        attn_implementation="eager",
    )
    theirs = T5ForConditionalGeneration(config)
    if gated:
        theirs.lm_head.weight = nn.Parameter(torch.empty(VOCAB, WIDTH))
    assert ours.num_params(VOCAB) == theirs.num_parameters()
    return Twins(ours.build(VOCAB), theirs, t5.parameter_names(DEPTH, gated=gated, tied=not gated))


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("head_width", [WIDTH // HEADS, 12])
def test_logits_and_gradients_of_padded_sources_and_targets(gated: bool, head_width: int) -> None:
    both = twins(gated=gated, head_width=head_width)
    source, target = sentences(4, 19, 1, vocab=VOCAB), sentences(7, 3, 17, vocab=VOCAB, seed=3)
    theirs = both.theirs(
        input_ids=source.tokens, attention_mask=source.layout.valid.long(), decoder_input_ids=target.tokens
    )
    both.compare(both.ours(source, target), theirs.logits, target.layout.valid)


def test_cached_writing_of_padded_sources() -> None:
    twins().compare_writing([[PAD]] * 3, sentences(4, 19, 1, vocab=VOCAB))


def test_the_preset_has_the_published_size() -> None:
    known = preset("t5-small")
    with torch.device("meta"):
        theirs = T5ForConditionalGeneration(T5Config())
    ours = EncoderDecoderConfig(**known.model).num_params(**known.sizes)
    assert ours == sum(p.numel() for p in theirs.parameters())
