"""Attachment scores: counted by hand, and between none and all for whatever is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError
from regard.metrics import Attachment, attachment

DOG = "(root (nsubj (det The ) dog ) sleeps (punct . ) )"


@pytest.mark.parametrize(
    ("written", "unlabelled", "labelled"),
    [
        (DOG, 4, 4),
        ("(root (obj (det The ) dog ) sleeps (punct . ) )", 4, 3),  # one relation
        ("(root (det The ) (nsubj dog ) sleeps (punct . ) )", 3, 3),  # The hangs on sleeps
        ("(root (det The ) dog (x sleeps (punct . ) ) )", 2, 2),  # the root and who hangs on it
        ("(root (nsubj dog ) sleeps (punct . ) )", 3, 3),  # a word left out
        ("(root (nsubj (det The ) (amod big ) dog ) sleeps (punct . ) )", 4, 4),  # a word too many
        ("(root (nsubj (det The ) cat ) sleeps (punct . ) )", 2, 2),  # another word: neither it nor who hangs on it
        ("", 0, 0),
        (") ) (root", 0, 0),
    ],
)
def test_counted_by_hand(written: str, unlabelled: int, labelled: int):
    assert attachment([written], [DOG]) == Attachment(4, unlabelled, labelled)


def test_words_count_alike_however_long_their_sentences():
    found = attachment([DOG, "(root Go ) )", "(x Stop )"], [DOG, "(root Go (punct ! ) )", "(root Stop )"])
    assert found == Attachment(7, 6, 5)
    assert found.uas == pytest.approx(6 / 7)
    assert found.las == pytest.approx(5 / 7)


@given(st.text(max_size=60))
def test_never_more_labelled_than_not_and_never_more_than_all(written: str):
    found = attachment([written], [DOG])
    assert 0 <= found.labelled <= found.unlabelled <= found.words == 4


def test_as_many_trees_as_references():
    with pytest.raises(DataError, match="expected 1"):
        attachment([DOG], [DOG, DOG])
