"""What tokens leave out of a text is paid for: a code that could restore the text is never cheaper than it says."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics import Restoration, bits_per_byte
from regard.metrics.language import bits_to_spell
from regard.run.scoring.scorers import restore
from regard.text.tokenizer import BpeConfig, ByteConfig, CharConfig, Tokenizer, UnigramConfig, WordConfig

TEXTS = ["The cat sat on the mat.\n", "the dog sat on a mat\n", "Hello, World! 12 ﬁsh\n"]


def restored(texts: list[str], config) -> Restoration:
    tokenizer, restoration = Tokenizer.train(TEXTS, config), Restoration()
    for text in texts:
        restore(text, tokenizer, restoration)
    return restoration


def test_a_word_is_spelt_by_its_bytes_and_its_end():
    assert bits_to_spell("dog") == 32
    assert bits_to_spell("ß") == 24
    assert bits_to_spell("<unk>") == 8, "in texts that are cut already it is the unknown word itself"


@given(st.lists(st.text(alphabet="abAB .,\n\tßﬁ€😀", max_size=30), max_size=5))
def test_vocabularies_that_lose_nothing_cost_nothing(texts: list[str]):
    for config in (ByteConfig(), CharConfig(), BpeConfig(size=300), UnigramConfig(size=300, prefix_space=True)):
        found = restored(texts, config)
        assert (found.unknown, found.unknown_bits, found.altered_bits) == (0, 0.0, 0.0)
        assert found.size == sum(len(text.encode()) for text in texts)


def test_unknown_words_are_spelt_out():
    found = restored(["the bird sat on the mat\n"], WordConfig())
    assert (found.unknown, found.unknown_bits) == (1, bits_to_spell("bird"))
    assert found.altered_bits == 0


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (WordConfig(lowercase=True), "The cat sat on the mat.\n"),
        (BpeConfig(size=300, lowercase=True), "The cat\n"),
        (CharConfig(normalise="nfkc"), "12 ﬁsh\n"),
        (WordConfig(), "the  cat sat\n"),
        (WordConfig(), " the cat\n"),
        (WordConfig(split="punctuation"), "Hello, World!\n"),
    ],
)
def test_case_spaces_and_normal_forms_are_charged(config, text: str):
    found = restored([text, "on\n", "on\n"], config)
    assert found.altered_bits > 16
    assert found.altered_bits < 3 * bits_to_spell(text), "cheaper than nonsense"
    same = restored(["on\n"], config)
    assert same.altered_bits == 0


def test_a_text_whose_words_do_not_match_is_spelt_whole():
    restoration = Restoration()
    restoration.add("one two three", "one")
    assert restoration.altered_bits >= bits_to_spell("one two three")


def test_which_of_many_is_charged_too():
    """k of n words cost log2 C(n, k): with half of them altered, nearly a bit for each word beside the spelling."""
    restoration = Restoration()
    for number in range(1000):
        restoration.add("A" if number % 2 else "b", "a" if number % 2 else "b")
    spelt = 500 * 16
    assert restoration.altered_bits >= spelt + math.log2(math.comb(1000, 500))


def test_bits_per_byte_adds_what_is_charged():
    assert bits_per_byte(8 * math.log(2), 4) == pytest.approx(2)
    assert bits_per_byte(8 * math.log(2), 4, 12.0) == pytest.approx(5)
