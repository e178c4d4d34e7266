"""Texts of several sentences: all are translated, in order, and stand where they stood."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError, InputError, OverlongError
from regard.text import splitting as module
from regard.text.outputs import Output, Paragraph, best_combinations
from regard.text.splitting import SplitTexts, Splitting, translate_by_sentence

SENTENCES = st.sampled_from(["The dog sleeps.", "Is it late?", "Stop!", "Dr. Smith left.", "犬が寝ている。", "no end"])
LAYOUT = st.sampled_from(["", " ", "  ", "\n", " \n\n\t", "\r\n"])
TEXTS = st.lists(st.tuples(LAYOUT, SENTENCES), max_size=6).map(lambda parts: "".join(map("".join, parts)))


def out(text: str, score: float = -1.0, finished: bool = True) -> Output:
    return Output(text, score, [text], [score], finished)


def copied(sentences: list[str], cut: bool = False) -> list[list[Output]]:
    return [[out(sentence)] for sentence in sentences]


def translate(text: str, write: Callable[[str], str]) -> str:
    divided = SplitTexts.of([text], Splitting())
    [[found]] = divided.join([[out(write(sentence))] for sentence in divided.sentences])
    return found.text


@given(st.lists(TEXTS, max_size=4))
def test_a_model_that_copies_gives_every_text_back(texts: list[str]):
    same = [text if text.strip() else "" for text in texts]
    for splitting in (Splitting(), Splitting("line")):
        divided = SplitTexts.of(texts, splitting)
        assert [row[0].text for row in divided.join(copied(divided.sentences))] == same
    results, problems = translate_by_sentence(texts, copied, [("f", 1)] * len(texts), "error", print, Splitting())
    assert ([row[0].text for row in results], problems) == (same, {})


def test_no_sentence_is_lost_and_layout_stays():
    text = "  The dog sleeps.  The cat\teats. \n\n- It is late.\r\n"
    assert translate(text, str.upper) == "  THE DOG SLEEPS.  THE CAT\tEATS. \n\n- IT IS LATE.\r\n"


def test_between_scripts_spaces_are_those_of_the_target():
    assert translate("The dog sleeps. The cat eats.\nYes.", lambda _: "犬。") == "犬。犬。\n犬。"
    assert translate("犬が寝ている。猫が食べている。", lambda _: "Dog.") == "Dog. Dog."


def test_a_text_of_several_sentences_has_the_sum_of_their_scores_and_names_them():
    divided = SplitTexts.of(["One dog. Two dogs.", "One.", " "], Splitting())
    several, alone, blank = divided.join([[out("Ein.", -1)], [out("Zwei.", -2, False)], [out("Eins.", -3)]])
    sentences = [
        {"source": "One dog.", "text": "Ein.", "score": -1},
        {"source": "Two dogs.", "text": "Zwei.", "score": -2},
    ]
    assert several == [Paragraph("Ein. Zwei.", -3, ["Ein.", "Zwei."], [-1, -2], False, sentences)]
    assert alone == [out("Eins.", -3)]
    assert blank == [Output("", 0.0, [], [], True)]


@given(st.lists(st.lists(st.integers(-5, 0), min_size=1, max_size=4), min_size=1, max_size=4))
def test_the_n_best_of_a_text_are_the_best_combinations(scores: list[list[int]]):
    found = [[out(f"{piece}.{rank}", score) for rank, score in enumerate(sorted(own, reverse=True))]
             for piece, own in enumerate(scores)]  # fmt: skip
    ranked = best_combinations(found)
    totals = [sum(one.score for one in row) for row in ranked]
    every = [0.0]
    for own in scores:
        every = [total + score for total in every for score in own]
    assert totals == sorted(every, reverse=True)[: len(ranked)]
    assert ranked[0] == [own[0] for own in found]
    assert len(ranked) == min(len(every), max(map(len, scores)))
    assert len({tuple(one.text for one in row) for row in ranked}) == len(ranked)


def limited(sentences: list[str], cut: bool) -> list[list[Output]]:
    """A model that takes three words."""
    problems = {
        number: f"a sentence of {len(one.split())} tokens; shorten it"
        for number, one in enumerate(sentences, start=1)
        if len(one.split()) > 3
    }
    if problems and not cut:
        raise OverlongError(problems)
    return [[out(" ".join(one.split()[:3]))] if one else [out("")] for one in sentences]


LONG = ["It is late.", "The dog sleeps. The dog does not sleep now. It is late.", "The cat eats no more fish."]


@pytest.mark.parametrize(
    ("overlong", "expected"),
    [
        ("skip", ["It is late.", "The dog sleeps.  It is late.", None]),
        ("cut", ["It is late.", "The dog sleeps. The dog does It is late.", "The cat eats"]),
    ],
)
def test_of_a_line_only_the_sentence_that_is_too_long_is_cut_or_left_out(overlong: str, expected: list[str | None]):
    said: list[str] = []
    origins = [("f.txt", number) for number in (7, 8, 9)]
    found, problems = translate_by_sentence(LONG, limited, origins, overlong, said.append, Splitting())  # type: ignore[arg-type]
    assert [row[0].text if row else None for row in found] == expected
    assert list(problems) == [2, 3]
    what = {"skip": "left blank", "cut": "cut at the end"}[overlong]
    assert said == [f"f.txt:8: a sentence of 6 tokens; {what}", f"f.txt:9: a sentence of 6 tokens; {what}"]


def test_where_that_is_an_error_it_names_the_line():
    with pytest.raises(DataError, match="f:8: a sentence of 6 tokens"):
        translate_by_sentence(LONG, limited, [("f", 7), ("f", 8), ("f", 9)], "error", print, Splitting())
    divided = SplitTexts.of(LONG, Splitting())
    with pytest.raises(InputError, match="input 2: a sentence of 6 tokens"), divided.errors_by_text():
        limited(divided.sentences, False)


def test_without_a_splitting_each_text_is_one_input():
    given: list[list[str]] = []
    work = lambda texts, cut: given.append(texts) or copied(texts)  # noqa: E731
    translate_by_sentence(["A dog. A cat."], work, [("f", 1)], "skip", print, None)
    assert given == [["A dog. A cat."]]


def test_a_model_is_given_a_bounded_number_of_sentences(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "SENTENCES_AT_ONCE", 3)
    sizes: list[int] = []
    work = lambda texts, cut: sizes.append(len(texts)) or copied(texts)  # noqa: E731
    text = " ".join(f"Dog {number} sleeps." for number in range(8))
    found, _ = translate_by_sentence([text], work, [("f", 1)], "skip", print, Splitting())
    assert sizes == [3, 3, 2]
    assert found[0][0].text == text
