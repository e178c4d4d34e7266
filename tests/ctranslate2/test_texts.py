"""A text before its model: whole, or in sentences that fit."""

import pytest

from regard.errors import RegardError
from regard.text.inputs import source_segments
from regard.text.special_tokens import EOS
from regard.text.tokenizer import Tokenizer, WordConfig


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    return Tokenizer.train(["the cat sat . the dog ran ."] * 3, WordConfig(size=50))


@pytest.mark.parametrize(
    "text", ["The cat sat. The dog ran.", "The cat sat. The dog ran. ", " The cat sat.\tThe dog ran.\n"]
)
def test_a_long_text_is_cut_into_its_sentences_and_nothing_else(words: Tokenizer, text: str):
    found = source_segments([text], words, longest=5)[0]
    assert [part.text.strip() for part in found] == ["The cat sat.", "The dog ran."]
    assert all(part.source[-1] == EOS and len(part) > 1 for part in found)


def test_what_a_text_must_begin_with_stands_before_its_first_sentence_only(words: Tokenizer):
    [found] = source_segments(["The cat sat. The dog ran. The cat ran."], words, longest=5, prefixes=[[7, 8]])
    assert [part.prefix for part in found] == [[7, 8], [], []]


def test_a_text_that_fits_stays_whole_and_a_blank_one_is_none(words: Tokenizer):
    whole, blank = source_segments(["The cat sat. The dog ran. ", " \t"], words, longest=50)
    assert [part.text for part in whole] == ["The cat sat. The dog ran. "]
    assert blank == []


def test_alone_or_among_others_a_text_is_the_same(words: Tokenizer):
    texts = ["The cat sat. The dog ran.", "", "the dog", "The cat ran. The dog sat. "]
    alone = [source_segments([text], words, longest=5)[0] for text in texts]
    assert source_segments(texts, words, longest=5) == alone
    assert source_segments([], words, longest=5) == []


def test_a_sentence_that_cannot_be_cut_is_refused_with_its_place(words: Tokenizer):
    with pytest.raises(RegardError, match="input 7: a sentence of 7 tokens, the model takes at most 5"):
        source_segments([*["the cat"] * 6, "the cat sat the dog ran"], words, longest=5)
