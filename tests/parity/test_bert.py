"""BERT beside Hugging Face's: masked language model, bare encoder, classifier."""

import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertModel
from twins import Twins, sentences

from regard.export.huggingface.architectures import bert
from regard.models import EncoderConfig, preset

VOCAB, DEPTH = 31, 2
SMALL = {"width": 32, "depth": DEPTH, "heads": 4, "position": {"kind": "learned", "length": 16}}
OURS = {**preset("bert-base").model, **SMALL}


def bert_config() -> BertConfig:
    return BertConfig(
        hidden_size=32,
        intermediate_size=128,
        num_hidden_layers=DEPTH,
        num_attention_heads=4,
        max_position_embeddings=16,
        vocab_size=VOCAB,
        num_labels=3,
        attn_implementation="eager",
    )


BATCH = sentences(9, 5, 1, vocab=VOCAB)
SEGMENTS = torch.tensor([[0] * 4 + [1] * 5, [0] * 3 + [1] * 6, [1] * 9])
INPUTS = {"input_ids": BATCH.tokens, "attention_mask": BATCH.layout.valid.long(), "token_type_ids": SEGMENTS}


def test_masked_language_model() -> None:
    both = Twins(EncoderConfig(**OURS).build(VOCAB), BertForMaskedLM(bert_config()), bert.masked_lm_names(DEPTH))
    both.compare(both.ours(BATCH, SEGMENTS), both.theirs(**INPUTS).logits, BATCH.layout.valid)


def test_without_segments_all_tokens_are_of_the_first() -> None:
    both = Twins(EncoderConfig(**OURS).build(VOCAB), BertForMaskedLM(bert_config()), bert.masked_lm_names(DEPTH))
    inputs = {**INPUTS, "token_type_ids": None}
    both.compare(both.ours(BATCH), both.theirs(**inputs).logits, BATCH.layout.valid)


def test_bare_encoder() -> None:
    config = EncoderConfig(**{**OURS, "head": {"kind": "vocabulary"}})  # nothing but the shared embedding
    theirs = BertModel(bert_config(), add_pooling_layer=False)
    both = Twins(config.build(VOCAB), theirs, bert.encoder_names(DEPTH))
    both.compare(both.ours.hidden(BATCH, SEGMENTS), both.theirs(**INPUTS).last_hidden_state, BATCH.layout.valid)


def test_classifier_on_the_first_token() -> None:
    config = EncoderConfig(**{**OURS, "head": {"kind": "pooled", "pooling": "first", "hidden": 32}})
    theirs = BertForSequenceClassification(bert_config())
    both = Twins(config.build(VOCAB, classes=3), theirs, bert.classifier_names(DEPTH))
    both.compare(both.ours(BATCH, SEGMENTS), both.theirs(**INPUTS).logits)


def test_the_preset_has_the_published_size() -> None:
    known = preset("bert-base")
    with torch.device("meta"):
        theirs = BertForMaskedLM(BertConfig())
    assert EncoderConfig(**known.model).num_params(**known.sizes) == sum(p.numel() for p in theirs.parameters())
