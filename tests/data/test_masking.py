"""Masking against its definition: how many, which, what is seen instead, and that draws follow from the key alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import resolve
from regard.data.collate import Packed, Padded, Ragged, pack, pad
from regard.data.masking import FIRST, Masking, MaskingConfig, WordEdges
from regard.errors import ConfigError
from regard.text.special_tokens import BOS, EOS, MASK, UNK
from regard.text.tokenizer import BpeConfig, ByteConfig, CharConfig, Tokenizer, UnigramConfig, WordConfig

VOCAB = 50
TEXTS = ["the strongest animals crossed the street", "strong animal, wide streets!", "übermäßig breite Straßen"] * 4

rows = st.lists(st.lists(st.integers(0, VOCAB - 1), max_size=40), min_size=1, max_size=6)
shares = st.sampled_from([0.01, 0.15, 0.4, 0.9])


def grids(sequences: list[list[int]]) -> list[Padded | Packed]:
    ragged = Ragged.of(sequences)
    return [pad(ragged), pack(ragged)]


def in_rows(field: Padded | Packed, flat: np.ndarray) -> list[list[int]]:
    """A grid's tokens, or what stands in the same places, sequence by sequence."""
    if isinstance(field, Packed):
        return [part.tolist() for part in np.split(flat.reshape(-1), np.cumsum(field.lengths)[:-1])]
    return [row[:length].tolist() for row, length in zip(flat, field.lengths, strict=True)]


@given(rows, shares, st.integers(0, 5), st.integers(0, 5))
def test_of_each_sequence_the_share_is_chosen_and_nothing_else_changes(sequences, share, seed, epoch):
    examples = np.arange(len(sequences)) + 3
    for field in grids(sequences):
        found = Masking(VOCAB, share=share).mask(field, examples, seed, epoch)
        original, seen = field.tokens.reshape(-1), found.field.tokens.reshape(-1)
        assert np.array_equal(original[found.positions], found.answers)
        elsewhere = np.ones(len(original), bool)
        elsewhere[found.positions] = False
        assert np.array_equal(seen[elsewhere], original[elsewhere])
        assert (found.answers >= FIRST).all(), "a special token is never to be guessed"
        assert ((seen[found.positions] == MASK) | (seen[found.positions] >= FIRST)).all()
        marks = np.zeros(len(original), int)
        marks[found.positions] = 1
        for row, chosen in zip(sequences, in_rows(field, marks.reshape(field.tokens.shape)), strict=True):
            able = sum(token >= FIRST for token in row)
            assert sum(chosen) == (max(1, round(share * able)) if able else 0)
        assert len(set(found.positions.tolist())) == len(found.positions)


@given(rows, st.booleans())
def test_a_sequence_is_hidden_alike_in_whatever_batch_it_stands(sequences, whole_words):
    words = WordEdges(np.arange(VOCAB) % 3 == 0, np.arange(VOCAB) % 2 == 0) if whole_words else None
    masking = Masking(VOCAB, words=words)
    numbers = np.arange(len(sequences))
    alone = [
        masking.mask(pad(Ragged.of([row])), np.array([number]), 7, 2).field.tokens[0].tolist()
        for number, row in enumerate(sequences)
    ]
    for field in grids(sequences):
        found = masking.mask(field, numbers, 7, 2)
        assert in_rows(field, found.field.tokens) == alone
    back = masking.mask(pack(Ragged.of(sequences[::-1])), numbers[::-1], 7, 2)
    assert in_rows(back.field, back.field.tokens) == alone[::-1]


def test_seed_epoch_and_example_each_change_what_is_hidden():
    field, masking = pad(Ragged.of([list(range(FIRST, VOCAB))])), Masking(VOCAB)
    keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    drawn = [tuple(masking.mask(field, np.array([example]), seed, epoch).positions) for seed, epoch, example in keys]
    assert len(set(drawn)) == len(keys)
    again = [tuple(masking.mask(field, np.array([example]), seed, epoch).positions) for seed, epoch, example in keys]
    assert again == drawn


def test_four_fifths_are_masked_a_tenth_is_random_a_tenth_stays():
    sequence = np.random.default_rng(1).integers(FIRST, 5_000, 100_000).tolist()
    found = Masking(5_000).mask(pack(Ragged.of([sequence])), np.array([0]))
    seen = found.field.tokens[0, found.positions]
    assert len(found.positions) == 15_000
    shares = [(seen == MASK).mean(), ((seen != MASK) & (seen != found.answers)).mean(), (seen == found.answers).mean()]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.015)
    swapped = seen[(seen != MASK) & (seen != found.answers)]
    assert swapped.mean() == pytest.approx((FIRST + 5_000) / 2, rel=0.05)  # anywhere in the vocabulary
    spread = np.histogram(found.positions, bins=10, range=(0, 100_000))[0]
    assert spread.min() > 1_300  # and anywhere in the sequence


@pytest.mark.parametrize(("masked", "random"), [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
def test_other_shares(masked: float, random: float):
    sequence = np.random.default_rng(1).integers(FIRST, 5_000, 2_000).tolist()
    found = Masking(5_000, masked=masked, random=random).mask(pack(Ragged.of([sequence])), np.array([0]))
    seen = found.field.tokens[0, found.positions]
    assert (seen == MASK).mean() == masked
    assert (seen == found.answers).mean() == pytest.approx(1 - masked - random, abs=0.01)


@given(rows, shares)
def test_whole_words_are_chosen_whole_and_fit_into_the_share(sequences, share):
    words = WordEdges(np.arange(VOCAB) % 3 == 0, np.arange(VOCAB) % 2 == 0)
    masking = Masking(VOCAB, share=share, words=words)
    for number, sequence in enumerate(sequences):
        row = np.array(sequence, np.int64)
        chosen = set(masking.mask(pad(Ragged.of([sequence])), np.array([number])).positions.tolist())
        able = [place for place in range(len(row)) if row[place] >= FIRST]
        most = max(1, round(share * len(able)))
        assert len(chosen) <= most
        grouped: dict[int, set[int]] = {}
        for place in able:
            grouped.setdefault(int(words.numbers(row)[place]), set()).add(place)
        if any(len(word) <= most for word in grouped.values()):
            assert all(word <= chosen or not word & chosen for word in grouped.values())
            assert all(len(word) > most - len(chosen) for word in grouped.values() if not word & chosen)
        else:
            assert len(chosen) == (most if able else 0)


def spelt(tokenizer: Tokenizer, text: str) -> list[str]:
    """The words that masking sees in a text."""
    ids = tokenizer.encode(text)
    numbers = WordEdges.of(tokenizer).numbers(np.array(ids, np.int64))
    return [
        tokenizer.decode([i for i, n in zip(ids, numbers, strict=True) if n == word]) for word in range(numbers[-1] + 1)
    ]


@pytest.mark.parametrize("config", [BpeConfig(size=280), UnigramConfig(size=280), CharConfig(), ByteConfig()])
def test_words_are_runs_of_letters_and_digits(config):
    tokenizer = Tokenizer.train(TEXTS, config)
    words = [word for word in spelt(tokenizer, "strongest animals, übermäßig 42 streets") if word.strip(" ,")]
    assert [word.strip() for word in words] == ["strongest", "animals", "übermäßig", "42", "streets"]


def test_in_a_vocabulary_of_words_each_token_is_one():
    tokenizer = Tokenizer.train(TEXTS, WordConfig())
    assert spelt(tokenizer, "the strongest animals") == ["the", "strongest", "animals"]


def test_special_tokens_join_nothing():
    tokenizer = Tokenizer.train(TEXTS, BpeConfig(size=280))
    edges = WordEdges.of(tokenizer)
    letter = tokenizer.encode("s")[0]
    assert edges.numbers(np.array([letter, letter, EOS, letter, UNK, BOS])).tolist() == [0, 0, 1, 2, 3, 4]


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match=r"random: masked and random are shares of one whole, got 0\.8 and 0\.3"):
        resolve(MaskingConfig, {}, ["random=0.3"])
    with pytest.raises(ConfigError, match="share"):
        resolve(MaskingConfig, {}, ["share=0"])
    tokenizer = Tokenizer.train(TEXTS, BpeConfig(size=280))
    built = MaskingConfig(share=0.3, whole_words=True).build(tokenizer)
    assert (built.share, built.vocab, built.words is not None) == (0.3, 280, True)
