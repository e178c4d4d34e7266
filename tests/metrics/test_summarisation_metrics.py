"""ROUGE against figures worked out by hand."""

import pytest

from regard.errors import DataError
from regard.metrics import rouge


def values(scores):
    return {kind: score.value for kind, score in scores.items()}


def test_rouge_by_hand():
    # 5 words against 4: three words in common, one pair, and "the cat mat" in order
    found = values(rouge(["the cat on the mat"], ["the cat lost mat"]))
    assert found == pytest.approx({"rouge1": 100 * 6 / 9, "rouge2": 100 * 2 / 7, "rougeL": 100 * 6 / 9})


def test_the_corpus_score_is_the_mean_and_the_best_reference_counts():
    assert rouge(["a b", "x"], ["a b", "y"])["rouge1"].value == pytest.approx(50)
    assert rouge(["a b", "x"], ["a b", "y"], ["c", "x"])["rouge1"].value == pytest.approx(100)


def test_stemming_is_the_default_for_ascii_words():
    assert rouge(["running dogs"], ["run dog"])["rouge1"].value == pytest.approx(100)
    assert rouge(["running dogs"], ["run dog"], stem=False)["rouge1"].value == 0


def test_words_of_any_script():
    assert rouge(["die Straße"], ["die Stra e"])["rouge1"].value > 99  # the usual tokeniser cuts at ß
    assert rouge(["die Straße"], ["die Stra e"], words="unicode")["rouge1"].value == pytest.approx(100 * 2 / 5)
    assert rouge(["кошка"], ["кошка"], words="unicode")["rouge1"].value == pytest.approx(100)


def test_signature_and_errors():
    assert rouge(["a"], ["a"])["rougeL"].signature.startswith("nrefs:1|words:ascii|stem:yes|version:")
    assert rouge(["a"], ["a"])["rougeL"].name == "ROUGE-L"
    with pytest.raises(DataError, match="references: expected 2, one for each hypothesis, got 1"):
        rouge(["a", "b"], ["a"])
    with pytest.raises(DataError, match="stemming is for English only"):
        rouge(["a"], ["a"], words="unicode", stem=True)


def test_empty_texts_score_nothing():
    assert values(rouge([""], ["a b"])) == {"rouge1": 0, "rouge2": 0, "rougeL": 0}
