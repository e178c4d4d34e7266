"""Labels for texts: blank ones get none, and one that is too long is named by its place among all."""

import pytest
import torch

from regard.errors import RegardError
from regard.models import EncoderConfig
from regard.tasks import Classification, ClassificationConfig, Vocabularies
from regard.text.tokenizer import Tokenizer, WordConfig

LABELS = ["no", "yes"]
CPU = torch.device("cpu")


def task(words: Tokenizer) -> Classification:
    return ClassificationConfig().task(Vocabularies({"text": words}, LABELS))


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    return Tokenizer.train(["good bad dull film"] * 3, WordConfig(size=50))


def test_blank_texts_get_no_label_and_keep_their_places(words: Tokenizer):
    model = EncoderConfig(width=16, depth=1, heads=2).build(words.vocab_size, len(LABELS)).eval()
    found = task(words).classify(model, ["", "good film", " \t", "bad"], CPU)
    assert [row is None for row in found] == [True, False, True, False]
    alone = task(words).classify(model, ["bad"], CPU)[0]
    assert found[3] == pytest.approx(alone)
    assert task(words).classify(model, [" "], CPU) == [None]


def test_a_text_that_is_too_long_is_named_by_its_own_place(words: Tokenizer):
    model = EncoderConfig(width=16, depth=1, heads=2).build(words.vocab_size, len(LABELS)).eval()
    with pytest.raises(RegardError, match="input 3: 5 tokens, the model takes at most 4"):
        task(words).classify(model, ["good", "", "good bad dull film"], CPU, longest=4)
