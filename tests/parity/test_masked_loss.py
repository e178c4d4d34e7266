"""The masked-language-model task beside Hugging Face's BERT: the same hidden tokens, the same loss and gradients."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM
from twins import Twins

from regard.data.batches import Batch
from regard.data.collate import Ragged, pack, pad
from regard.export.huggingface.architectures import bert
from regard.models import EncoderConfig, preset
from regard.nn.loss import IGNORED
from regard.tasks import MaskedLanguageModelConfig, Vocabularies
from regard.text.tokenizer import ByteConfig, Tokenizer

DEPTH, LENGTH = 2, 40
SMALL = {"width": 32, "depth": DEPTH, "heads": 4, "position": {"kind": "learned", "length": LENGTH}}
TEXTS = ["The animal did not cross the street,", "because it was too tired.", "Really?"]


@pytest.mark.parametrize("lay", [pad, pack])
def test_loss_and_gradients_of_the_same_hidden_tokens(lay):
    tokenizer = Tokenizer.train([], ByteConfig())
    config = EncoderConfig(**{**preset("bert-base").model, **SMALL})
    theirs = BertConfig(
        hidden_size=32, intermediate_size=128, num_hidden_layers=DEPTH, num_attention_heads=4,
        max_position_embeddings=LENGTH, vocab_size=tokenizer.vocab_size, attn_implementation="eager",
    )  # fmt: skip
    both = Twins(config.build(tokenizer.vocab_size), BertForMaskedLM(theirs), bert.masked_lm_names(DEPTH))
    task = MaskedLanguageModelConfig().task(Vocabularies({"text": tokenizer}))
    rows = Ragged.of([tokenizer.encode(text) for text in TEXTS])
    batch = Batch({"text": lay(rows)}, {}, np.arange(len(TEXTS)), seed=3, epoch=1)
    inputs = task.inputs(batch, config, torch.device("cpu"))

    padded = pad(rows)
    masked = task.masking.mask(padded, batch.examples, seed=3, epoch=1)
    labels = np.full(padded.tokens.size, IGNORED)
    labels[masked.positions] = masked.answers
    expected = both.theirs(
        input_ids=torch.from_numpy(masked.field.tokens),
        attention_mask=torch.from_numpy((np.arange(padded.tokens.shape[1]) < padded.lengths[:, None]).astype(np.int64)),
        labels=torch.from_numpy(labels.reshape(padded.tokens.shape)),
    ).loss
    both.compare(task.loss(both.ours, inputs)[None] / inputs.count, expected[None])
    with torch.no_grad():
        measured = task.measure(both.ours, inputs)
    assert task.summarise(measured)["loss"] == pytest.approx(float(expected.detach()), rel=1e-4)
