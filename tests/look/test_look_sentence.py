"""Pieces gathered into words as a reader would."""

import pytest
from looked_at import tokenizer

from regard.look.tokens import Sentence, gather_words
from regard.text.special_tokens import BOS, EOS


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["▁The", "▁str", "eet", "."], [0, 1, 1, 2]),
        (["▁I", "▁said", ",", "▁no", "!", "!"], [0, 1, 2, 3, 4, 4]),
        (["T", "h", "e", "▁", "d", "o", "g", "."], [0, 0, 0, 1, 1, 1, 1, 2]),
        (["a", "↵", "b"], [0, 1, 2]),
        (["我", "爱", "北京", "。", "O", "K"], [0, 1, 2, 3, 4, 4]),
        (["▁今", "日", "は", "▁שלו", "מך"], [0, 1, 2, 3, 3]),
        ([], []),
    ],
)
def test_words_start_at_spaces_and_around_marks(tokens: list[str], words: list[int]):
    assert gather_words(tokens, [False] * len(tokens), spaced=True) == words


def test_whole_words_stay_apart():
    assert gather_words(["the", "dog"], [False, False], spaced=False) == [0, 1]


def test_special_tokens_are_words_of_their_own():
    text = "The street was wide."
    sentence = Sentence.of(tokenizer(), [BOS, *tokenizer().encode(text), EOS])
    assert sentence.texts == ["<bos>", "The", "street", "was", "wide", ".", "<eos>"]
    assert [place for group in sentence.groups for place in group] == list(range(len(sentence.ids)))
