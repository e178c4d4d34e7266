"""A text before its model: whole, or in sentences that fit."""

import pytest

from regard.data.special import EOS
from regard.data.tokenizer import Tokenizer, WordConfig
from regard.engine.texts import passages
from regard.errors import RegardError


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    return Tokenizer.train(["the cat sat . the dog ran ."] * 3, WordConfig(size=50))


@pytest.mark.parametrize(
    "text", ["The cat sat. The dog ran.", "The cat sat. The dog ran. ", " The cat sat.\tThe dog ran.\n"]
)
def test_a_long_text_is_cut_into_its_sentences_and_nothing_else(words: Tokenizer, text: str):
    found = passages(text, words, longest=5, place=1)
    assert [part.text.strip() for part in found] == ["The cat sat.", "The dog ran."]
    assert all(part.source[-1] == EOS and len(part) > 1 for part in found)


def test_what_a_text_must_begin_with_stands_before_its_first_sentence_only(words: Tokenizer):
    found = passages("The cat sat. The dog ran. The cat ran.", words, longest=5, place=1, prefix=[7, 8])
    assert [part.prefix for part in found] == [[7, 8], [], []]


def test_a_text_that_fits_stays_whole_and_a_blank_one_is_none(words: Tokenizer):
    assert [part.text for part in passages("The cat sat. The dog ran. ", words, longest=50, place=1)] == [
        "The cat sat. The dog ran. "
    ]
    assert passages(" \t", words, longest=5, place=1) == []


def test_a_sentence_that_cannot_be_cut_is_refused_with_its_place(words: Tokenizer):
    with pytest.raises(RegardError, match="input 7: a sentence of 7 tokens, the model takes at most 5"):
        passages("the cat sat the dog ran", words, longest=5, place=7)
