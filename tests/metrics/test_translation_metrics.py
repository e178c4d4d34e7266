"""BLEU, chrF and TER against sacrebleu's own command line; GLEU against nltk's."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.gleu_score import sentence_gleu

from regard.errors import DataError
from regard.metrics import bleu, chrf, gleu, sentence_bleu, ter

HYPOTHESES = [
    "The cat sat on the mat.",
    "Ein Mann läuft über die Straße .",
    "",
    'He said: "no", didn\'t he?',
    "Das ist gut",
]
FIRST = [
    "The cat is on the mat.",
    "Ein Mann läuft über die Straße.",
    "Nothing",
    "He said “no”, did he not?",
    "das ist Gut",
]
SECOND = ["A cat sat on a mat.", "Ein Herr geht über die Straße.", "Not a word", '"No", he said.', "Das ist sehr gut"]


def command_line(folder, references, *options):
    files = []
    for name, lines in zip(("hyp", "one", "two"), (HYPOTHESES, *references), strict=False):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        files.append(str(folder / name))
    command = [sys.executable, "-m", "sacrebleu", *files[1:], "-i", files[0], "-w", "10", "--format", "json", *options]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    return found if isinstance(found, list) else [found]


def as_command_line(*scores):
    return [(score.name, pytest.approx(score.value, abs=1e-8), score.signature) for score in scores]


@pytest.mark.parametrize("references", [(FIRST,), (FIRST, SECOND)], ids=["one", "two"])
def test_scores_are_those_of_the_command_line(tmp_path, references):
    found = command_line(tmp_path, references, "-m", "bleu", "chrf", "ter")
    expected = as_command_line(*(metric(HYPOTHESES, *references) for metric in (bleu, chrf, ter)))
    assert [(row["name"], row["score"], row["signature"]) for row in found] == expected


def test_options_are_those_of_the_command_line(tmp_path):
    options = ["-m", "bleu", "chrf", "ter", "-tok", "intl", "-lc", "--chrf-word-order", "2", "--chrf-lowercase"]
    found = command_line(tmp_path, (FIRST,), *options, "--ter-case-sensitive")
    expected = as_command_line(
        bleu(HYPOTHESES, FIRST, tokenize="intl", lowercase=True),
        chrf(HYPOTHESES, FIRST, word_order=2, lowercase=True),
        ter(HYPOTHESES, FIRST, case_sensitive=True),
    )
    assert [(row["name"], row["score"], row["signature"]) for row in found] == expected


def test_perfect_and_hopeless():
    assert bleu(FIRST, FIRST).value == pytest.approx(100)
    assert chrf(FIRST, FIRST).value == pytest.approx(100)
    assert ter(FIRST, FIRST).value == 0
    assert bleu(["x"] * 5, FIRST).value == 0
    assert str(bleu(FIRST, FIRST)).startswith("BLEU 100.00 (nrefs:1|case:mixed")


@pytest.mark.parametrize("metric", [bleu, chrf, ter])
def test_counts_must_agree(metric):
    with pytest.raises(DataError, match="references: expected 5, one for each hypothesis, got 4"):
        metric(HYPOTHESES, FIRST[:4])
    with pytest.raises(DataError, match="references 2: expected 5, one for each hypothesis, got 6"):
        metric(HYPOTHESES, FIRST, [*SECOND, "more"])
    with pytest.raises(DataError, match="references: expected at least one list"):
        metric(HYPOTHESES)
    with pytest.raises(DataError, match="hypotheses: expected at least one, got none"):
        metric([], [])


def test_sentence_bleu():
    assert sentence_bleu("the cat", "the cat") == pytest.approx(100)
    assert sentence_bleu("the cat sat", "the dog sat") < sentence_bleu("the cat sat", "the dog sat", "the cat sits")
    assert sentence_bleu("", "the cat") == 0
    with pytest.raises(DataError, match="references"):
        sentence_bleu("the cat")


words = st.lists(st.sampled_from("abc"), max_size=9)


@given(words, words)
def test_gleu_is_nltks_and_symmetric(hypothesis, reference):
    if hypothesis or reference:
        assert gleu(hypothesis, reference) == pytest.approx(sentence_gleu([reference], hypothesis))
    assert gleu(hypothesis, reference) == gleu(reference, hypothesis)
    assert gleu(hypothesis, hypothesis) == 1


def test_gleu_wants_words():
    assert gleu([4, 5, 6], [4, 5, 7]) == pytest.approx(3 / 6)
    with pytest.raises(DataError, match="split it first"):
        gleu("the cat", ["the", "cat"])
