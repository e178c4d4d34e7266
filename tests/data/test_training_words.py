"""The words of the training data: what counts as one, that none is forgotten, and that few others pass for them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError
from regard.files.run_folder import TRAINING_WORDS_FILE
from regard.text.training_words import TrainingWords, words_of

KNOWN = "The dog doesn't sleep in l'école: it is twenty-one years old. 猫が好き"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The dog sleeps.", ["The", "dog", "sleeps"]),
        ("“Don’t!” (she said) 3 times", ["Don't", "she", "said", "times"]),
        ("twenty-one e-mails, 1st, x2y", ["twenty", "one", "e", "mails", "st", "x", "y"]),
        ("猫が好き。", ["猫", "が", "好", "き"]),
        ("हिन्दी में लिखा है।", ["हिन्दी", "में", "लिखा", "है"]),
        ("Cafe\u0301 ¿qué?", ["Café", "qué"]),
        ("", []),
    ],
)
def test_words_of_a_text(text: str, words: list[str]):
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("text", "unseen"),
    [
        ("THE Dog sleep", []),
        ("The zebra sleeps.", ["zebra", "sleeps"]),
        ("Zebra and zebra", ["Zebra", "and"]),
        ("the dog’s école doesn’t", ["dog's"]),
        ("in 1999, at 12:30", ["at"]),
        ("猫と犬", ["と", "犬"]),
        ("", []),
    ],
)
def test_unseen_words(text: str, unseen: list[str], tmp_path: Path):
    words = TrainingWords()
    words.add(KNOWN)
    assert words.unseen(text) == unseen
    words.save(tmp_path)
    assert TrainingWords.load(tmp_path).unseen(text) == unseen


@given(st.lists(st.text(max_size=30), max_size=20))
def test_no_word_is_forgotten(texts: list[str]):
    words = TrainingWords()
    for text in texts:
        words.add(text)
    assert all(words.unseen(text) == [] for text in texts)


def spelt(number: int) -> str:
    """A number as a word of letters."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def test_few_others_pass_for_them_and_the_file_stays_small(tmp_path: Path):
    words = TrainingWords()
    for number in range(20_000):
        words.add(f"k{spelt(number)}")
    words.save(tmp_path)
    assert (tmp_path / TRAINING_WORDS_FILE).stat().st_size < 80_000
    loaded = TrainingWords.load(tmp_path)
    assert loaded.count == pytest.approx(20_000, rel=0.01)
    assert all(not loaded.unseen(f"k{spelt(number)}") for number in range(0, 20_000, 7))
    passed = sum(not loaded.unseen(f"u{spelt(number)}") for number in range(10_000))
    assert passed < 20


def test_words_are_added_to_those_of_a_file(tmp_path: Path):
    words = TrainingWords()
    words.add("The dog sleeps.")
    words.save(tmp_path)
    more = TrainingWords.load(tmp_path).grown()
    more.add("The zebra sleeps.")
    more.save(tmp_path)
    assert TrainingWords.load(tmp_path).unseen("the zebra and the dog") == ["and"]


def test_a_folder_without_words(tmp_path: Path):
    assert TrainingWords.load(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"not a filter", b"\x08\0\0\0\0\0\0\0{}      "])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes):
    (tmp_path / TRAINING_WORDS_FILE).write_bytes(content)
    with pytest.raises(DataError, match="restore the file from a copy"):
        TrainingWords.load(tmp_path)
