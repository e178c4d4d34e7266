"""F1 and confusion against formulas written independently; perplexity and bits per byte."""

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError
from regard.metrics import bits_per_byte, confusion_matrix, exact_match, macro_f1, perplexity

pairs = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), min_size=1, max_size=40)


def f1_by_definition(pairs, label):
    """Harmonic mean of precision and recall, zero where either is undefined or zero."""
    hits = len([1 for got, wanted in pairs if got == label and wanted == label])
    guessed = len([1 for got, _ in pairs if got == label])
    wanted = len([1 for _, wanted in pairs if wanted == label])
    if not hits:
        return 0.0
    precision, recall = hits / guessed, hits / wanted
    return 2 / (1 / precision + 1 / recall)


@given(pairs)
def test_f1_by_definition(pairs):
    predicted, expected = zip(*pairs, strict=True)
    labels = set(predicted) | set(expected)
    mean = sum(f1_by_definition(pairs, label) for label in labels) / len(labels)
    assert macro_f1(predicted, expected) == pytest.approx(mean)


@given(pairs)
def test_confusion_matrix_counts_pairs(pairs):
    predicted, expected = zip(*pairs, strict=True)
    found = confusion_matrix(predicted, expected)
    for row, wanted in enumerate(found.labels):
        for column, got in enumerate(found.labels):
            assert found.counts[row, column] == pairs.count((got, wanted))


def test_rows_are_what_was_expected():
    found = confusion_matrix(["cat", "cat", "dog"], ["dog", "cat", "dog"])
    assert found.labels == ["cat", "dog"]
    assert found.counts.tolist() == [[1, 0], [1, 1]]


def test_exact_match_with_any_reference():
    assert exact_match(["a", "b", "c "], ["a", "x", "c"]) == pytest.approx(1 / 3)
    assert exact_match(["a", "b", "c "], ["a", "x", "c"], ["x", "b", "x"]) == pytest.approx(2 / 3)
    assert exact_match([[1, 2]], [[1, 2]]) == 1


@pytest.mark.parametrize("metric", [macro_f1, confusion_matrix, exact_match])
def test_counts_must_agree(metric):
    with pytest.raises(DataError, match="expected 2, one for each hypothesis, got 1"):
        metric(["a", "b"], ["a"])
    with pytest.raises(DataError, match="expected at least one, got none"):
        metric([], [])


def test_perplexity_and_bits():
    assert perplexity(10 * math.log(7), 10) == pytest.approx(7)
    assert perplexity(1e6, 1) == math.inf
    assert bits_per_byte(8 * math.log(2), 4) == pytest.approx(2)
    for metric in (perplexity, bits_per_byte):
        with pytest.raises(DataError, match="expected at least one to average over, got 0"):
            metric(1.0, 0)


def test_metrics_need_neither_torch_nor_nltk():
    check = "import sys, regard.metrics; assert not {'torch', 'nltk'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)
