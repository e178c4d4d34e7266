from hypothesis import given
from hypothesis import strategies as st

from regard.data.check import Seen
from regard.data.examples import Labelled, Pair, SourceLocation, Text

few_texts = st.sampled_from(["a", "b", "c", "d", "e"])
few_pairs = st.lists(st.tuples(few_texts, few_texts))


def seen_of(pairs: list[tuple[str, str]]) -> Seen:
    seen = Seen()
    for number, (source, target) in enumerate(pairs, start=1):
        seen.add(Pair(source, target, SourceLocation("any", number * 10)))
    return seen


@given(pairs=few_pairs)
def test_duplicates_are_those_a_slow_search_finds(pairs):
    expected = [
        (10 * number, 10 * (pairs.index(pair) + 1))
        for number, pair in enumerate(pairs, start=1)
        if pair in pairs[: number - 1]
    ]
    assert list(seen_of(pairs).duplicates()) == expected


@given(train=few_pairs, test=few_pairs)
def test_leaks_are_those_a_slow_search_finds(train, test):
    sources = [source for source, _ in train]
    expected = [
        (10 * number, 10 * (sources.index(source) + 1))
        for number, (source, _) in enumerate(test, start=1)
        if source in sources
    ]
    assert list(seen_of(test).leaks_from(seen_of(train))) == expected


def test_the_same_text_under_another_label_is_no_duplicate():
    seen = Seen()
    for line, label in enumerate(["good", "bad", "good"], start=1):
        seen.add(Labelled("so so", label, SourceLocation("any", line)))
    assert list(seen.duplicates()) == [(3, 1)]


def test_every_repeated_line_of_a_running_text_counts_unless_it_is_blank():
    lines, documents = Seen(), Seen()
    for line, text in enumerate(
        ["ROMEO:", "ROMEO:", "", "", "a longer line of eight words or more", "ROMEO:"], start=1
    ):
        lines.add(Text(text, SourceLocation("any", line), "\n"))
        documents.add(Text(text, SourceLocation("any", line)))
    assert list(lines.duplicates()) == [(2, 1), (6, 1)]
    assert list(documents.duplicates()) == [(2, 1), (4, 3), (6, 1)]


def test_an_example_is_remembered_in_twenty_bytes():
    seen = seen_of([(f"source {number}", "target") for number in range(1000)])
    arrays = (seen.keys, seen.wholes, seen.lines)
    assert sum(len(array) * array.itemsize for array in arrays) == 20_000
