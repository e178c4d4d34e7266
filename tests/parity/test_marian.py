"""Marian, the Transformer of Vaswani 2017 as the OPUS translators have it, beside Hugging Face's."""

import pytest
from transformers import MarianConfig, MarianMTModel
from twins import PAD, Twins, sentences

from regard.export.huggingface.architectures import bart
from regard.models import EncoderDecoderConfig, preset

VOCAB, TARGET_VOCAB, DEPTH = 31, 23, 2
TABLES = frozenset({"model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"})


def twins(*, one_vocabulary: bool = True) -> Twins:
    ours = EncoderDecoderConfig(
        **{
            **preset("transformer-base").model,
            "width": 32,
            "depth": DEPTH,
            "heads": 4,
            "position": {"kind": "sinusoidal", "interleaved": False},
            "feedforward": {"kind": "plain", "activation": "silu"},
            "embedding": {"share": "all" if one_vocabulary else "output", "scale": True},
            "head": {"kind": "vocabulary", "bias": True},
        }
    )
    config = MarianConfig(
        d_model=32,
        encoder_layers=DEPTH,
        decoder_layers=DEPTH,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_position_embeddings=32,
        activation_function="swish",
        scale_embedding=True,
        vocab_size=VOCAB,
        decoder_vocab_size=VOCAB if one_vocabulary else TARGET_VOCAB,
        share_encoder_decoder_embeddings=one_vocabulary,
        pad_token_id=PAD,
        decoder_start_token_id=PAD,
        eos_token_id=None,
        forced_eos_token_id=None,
        attn_implementation="eager",
    )
    built = ours.build(VOCAB, None if one_vocabulary else TARGET_VOCAB)
    return Twins(built, MarianMTModel(config), bart.marian_names(DEPTH, joint=one_vocabulary), TABLES)


@pytest.mark.parametrize("one_vocabulary", [True, False])
def test_logits_and_gradients_of_padded_sources_and_targets(one_vocabulary: bool) -> None:
    both = twins(one_vocabulary=one_vocabulary)
    source, target = sentences(4, 9, 1, vocab=VOCAB), sentences(7, 3, 5, vocab=TARGET_VOCAB, seed=3)
    theirs = both.theirs(
        input_ids=source.tokens, attention_mask=source.layout.valid.long(), decoder_input_ids=target.tokens
    )
    both.compare(both.ours(source, target), theirs.logits, target.layout.valid)


def test_cached_writing_of_padded_sources() -> None:
    twins().compare_writing([[PAD]] * 3, sentences(4, 9, 1, vocab=VOCAB))
