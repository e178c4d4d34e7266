"""Texts divided into sentences: nothing is lost, and abbreviations, numbers, quotations and lists stay whole."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sentence_cases import CASES, marked

from regard.text.abbreviations import words_of
from regard.text.sentences import sentence_spans

SIGNS = " \n\r\t.!?…。！？\"'“”„«»()「」-—:;,|1aBßé\u00a0\u2028\x85\x1c"
TRICKY = st.lists(st.sampled_from([*SIGNS, "Dr", "z. B.", "The", "U.S.", "😀"]), max_size=40).map("".join)


def pieces(text: str, language: str | None = None) -> list[str]:
    """A text cut before each sentence but the first; white space stays behind the sentence before it."""
    cuts = [start for start, _ in sentence_spans(text, language)][1:]
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@pytest.mark.parametrize(("language", "case"), [(language, case) for language in CASES for case in CASES[language]])
def test_tricky_texts(language: str, case: str):
    text, expected = marked(case)
    assert pieces(text, language or None) == expected
    assert pieces(text) == expected, "where the language is not known, the words of all languages are"


@given(st.text() | TRICKY, st.sampled_from([None, "en", "de", "zh", "xx", "pt-BR"]))
@example("A.\r\n\r\nB. ", None)
def test_the_pieces_of_any_text_are_the_text(text: str, language: str | None):
    assert "".join(pieces(text, language)) == text
    found, places = sentence_spans(text, language), [place for span in sentence_spans(text, language) for place in span]
    assert places == sorted(places)
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in found)
    between = "".join(text[end:start] for end, start in zip([0, *places[1::2]], [*places[::2], len(text)], strict=True))
    assert not between.strip(), "no character but white space is outside of the sentences"


def test_lines_are_never_joined():
    assert pieces("no end here\nnor here\r\n\n and here") == ["no end here\n", "nor here\r\n\n ", "and here"]


def test_a_long_quotation_inside_a_sentence_is_divided_and_a_short_one_is_not():
    said = " ".join(["It is late."] * 3)
    assert len(pieces(f'He said, "{said}" She left.')) == 2
    assert len(pieces(f'He said, "{" ".join([said] * 10)}" She left.')) == 31


def test_a_language_that_is_not_known_has_the_words_of_all():
    assert words_of("xx").before_all == words_of(None).before_all > words_of("en").before_all
    assert words_of("de-AT") == words_of("de") != words_of("en")
