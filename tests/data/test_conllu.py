"""CoNLL-U files: read as the format says, and every mistake named with its line."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_files import COMPRESSIONS, write_lines, write_text
from trees import SENTENCE, conllu_lines, dependency_trees

from regard.data.check import check_files
from regard.data.examples import Pair, SourceLocation, Tagged, Text
from regard.data.findings import Findings
from regard.data.linearise import Tree, read_brackets, write_brackets
from regard.data.readers.conllu import sentences, tagged_sentences
from regard.data.source_reader import read_examples, read_pairs, read_texts
from regard.data.sources import SourceConfig
from regard.errors import ConfigError, DataError

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
WORDS = ("Dogs", "do", "n't", "sleep", ".")
HEADS = (4, 4, 4, 0, 4)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_text(tmp_path / "two.conllu", f"{SENTENCE}\n{SENTENCE}\n")


def test_words_are_what_has_a_number_of_its_own(file: Path):
    first, second = read_examples(SourceConfig(file=str(file)))
    assert first == Tagged(WORDS, ("NOUN", "AUX", "PART", "VERB", "PUNCT"), HEADS, SourceLocation(str(file), 2))
    assert second.location.line == 11
    assert next(read_examples(SourceConfig(file=str(file), tags="xpos"))).tags == ("NNS", "VBP", "RB", "VB", ".")
    assert first.text == first.key == "Dogs do n't sleep ."


@pytest.mark.parametrize(
    ("rendering", "text"),
    [
        ("words", "Dogs do n't sleep ."),
        ("lemmas", "dog do not sleep ."),
        ("upos", "NOUN AUX PART VERB PUNCT"),
        ("relations", "nsubj aux advmod root punct"),
        ("brackets", "(root (nsubj Dogs ) (aux do ) (advmod n't ) sleep (punct . ) )"),
    ],
)
def test_sentences_can_be_given_as_texts(file: Path, rendering: str, text: str):
    location = SourceLocation(str(file), 2)
    assert next(read_texts(SourceConfig(file=str(file), text=rendering))) == Text(text, location)
    pair = next(read_pairs(SourceConfig(file=str(file), source="words", target=rendering)))
    assert pair == Pair(" ".join(WORDS), text, location)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@same_folder
@given(trees=st.lists(dependency_trees(), min_size=1, max_size=4))
def test_trees_are_read_as_written(tmp_path: Path, compression: str, trees: list[Tree]):
    trees = [Tree(tree.words, tree.heads, ("dep",) * len(tree.heads)) for tree in trees]
    lines = [line for tree in trees for line in ["# a comment", *conllu_lines(tree), ""]]
    file = write_lines(tmp_path / f"some.conllu{compression}", lines)
    read = list(sentences(file, Findings()))
    assert [sentence.values("form") for sentence in read] == [tree.words for tree in trees]
    assert [sentence.heads for sentence in read] == [tree.heads for tree in trees]
    pairs = read_pairs(SourceConfig(file=str(file), source="words", target="brackets"))
    for example, tree in zip(pairs, trees, strict=True):
        assert example.target == write_brackets(tree)
        assert read_brackets(example.target) == tree
    for sentence in read:
        assert lines[sentence.location.line - 1].startswith("1\t")


def word(number: object, head: object = 0, **cells: str) -> str:
    named = {"form": "w", "lemma": "w", "upos": "X", "relation": "dep", **cells}
    return f"{number}\t{named['form']}\t{named['lemma']}\t{named['upos']}\tx\t_\t{head}\t{named['relation']}\t_\t_"


@pytest.mark.parametrize(
    ("lines", "at", "problem"),
    [
        (["1\tDogs\tdog"], 1, "expected 10 columns separated by tabs, got 3"),
        (["1 Dogs dog NOUN NNS _ 0 root _ _"], 1, "expected 10 columns separated by tabs, got 1"),
        ([word(1), word(2, 1, form="")], 2, "column 2 is empty"),
        ([word(1), word(3, 1)], 2, "expected word 2 of the sentence, got '3'"),
        ([word(1), "", word(2)], 3, "expected word 1 of the sentence, got '2'"),
        ([word("one")], 1, "expected word 1 of the sentence, got 'one'"),
        ([word("2-3", "_"), word(1)], 1, "'2-3' does not fit before word 1"),
        ([word("2-1", "_"), word(1)], 1, "'2-1' does not fit before word 1"),
        ([word(1), word("2.1", "_")], 2, "'2.1' does not fit before word 2"),
        ([word(1, "x")], 1, "as its head, 0 for the root or _, got 'x'"),
        ([word(1, "-1")], 1, "got '-1'"),
        ([word(1), word(2, 3)], 2, "the head of word 2 'w' is 3; the sentence has 2 words"),
        ([word(1), word(2, 1), word(3, 0)], 3, "a second root, word 3 'w'; the first is word 1"),
        ([word(1, 2), word(2, 1)], 1, "no word of the sentence is its root (head 0)"),
        ([word(1), word(2, 4), word(3, 2), word(4, 3)], 2, "round in a circle: 2 'w' → 4 'w' → 3 'w' → 2 'w'"),
        ([word(1), word(2, 2)], 2, "round in a circle: 2 'w' → 2 'w'"),
        ([word(1), word(2, "_")], 2, "'w' has no head though other words of the sentence do"),
        ([word(1, upos="_")], 1, "word 1 'w' has no upos"),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path: Path, lines: list[str], at: int, problem: str):
    file = write_lines(tmp_path / "bad.conllu", lines)
    with pytest.raises(DataError) as refused:
        list(read_examples(SourceConfig(file=str(file))))
    assert str(refused.value).startswith(f"{file}:{at}: ")
    assert problem in str(refused.value)


def test_a_check_goes_on_after_a_mistake(tmp_path: Path):
    bad = [word(1), word(2, 2), "", "1\tx", word(2), "", word(1), word(2, 1), ""]
    checked = check_files([write_lines(tmp_path / "some.conllu", bad)])
    assert [(finding.kind, finding.line) for finding in checked.findings] == [("conllu", 4), ("tree", 2)]
    assert [statistics.examples for statistics in checked.statistics.values()] == [1]


def test_sentences_without_trees_have_no_heads(tmp_path: Path):
    file = write_lines(tmp_path / "flat.conllu", [word(1, "_"), word(2, "_"), ""])
    assert next(tagged_sentences(file, None, Findings())) == Tagged(("w", "w"), (), None, SourceLocation(str(file), 1))
    assert next(read_examples(SourceConfig(file=str(file)))).heads is None
    with pytest.raises(DataError, match=r"flat\.conllu:1: the sentence has no tree"):
        list(read_examples(SourceConfig(file=str(file), source="words", target="brackets")))


def test_parts_and_limits_count_sentences(file: Path):
    assert [one.location.line for one in read_examples(SourceConfig(file=str(file), part="50%-100%"))] == [11]
    assert len(list(read_examples(SourceConfig(file=str(file), limit=1)))) == 1


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"file": "a.conllu", "text": "words", "label": 0}, "label: a .conllu file has words and their tags"),
        (
            {"file": "a.conllu", "source": "word", "target": "upos"},
            "source: a .conllu file has no 'word'; did you mean",
        ),
        ({"file": "a.conllu", "source": "words", "target": 3}, "target: a .conllu file has no '3'; known: brackets"),
        ({"file": "a.conllu", "tags": "lemma"}, "tags: expected 'upos' or 'xpos', got 'lemma'"),
        ({"file": "a.tsv", "text": 0, "tags": "upos"}, "tags: only sentences of a .conllu file have tags"),
        ({"file": "a.conllu", "source": "words", "target": "upos", "tags": "upos"}, "tags: only sentences"),
        ({"file": "a.conllu", "header": True}, "header: only .tsv and .csv files have a header row"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict, sentence: str):
    with pytest.raises(ConfigError) as refused:
        SourceConfig(**settings)
    assert str(refused.value).startswith(sentence)


def test_tasks_are_told_what_a_treebank_holds():
    with pytest.raises(ConfigError, match=r"data\.train: expected labelled texts.*got tagged sentences"):
        SourceConfig(file="a.conllu.gz").require("labelled", "data.train")
    with pytest.raises(ConfigError, match=r"expected tagged sentences: a \.conllu file"):
        SourceConfig(file="a.txt").require("tagged", "data.train")
    assert SourceConfig(file="trees", format="conllu").content == "tagged"
