"""Paired tests against sacrebleu's command line and against enumeration."""

import json
import subprocess
import sys
import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import DataError
from regard.metrics import (
    METRICS,
    accuracy_test,
    bleu,
    paired_test,
    sign_flips,
    significance,
    smallest_p,
)

random = np.random.default_rng(0)
WORDS = ["the", "a", "cat", "dog", "runs", "sleeps", "here", "now"]
REFERENCES = [" ".join(random.choice(WORDS, 7)) for _ in range(60)]


def spoilt(share, seed):
    random = np.random.default_rng(seed)
    return [
        " ".join(random.choice(WORDS) if random.random() < share else word for word in line.split())
        for line in REFERENCES
    ]


GOOD, BAD = spoilt(0.2, 1), spoilt(0.5, 2)


@pytest.mark.parametrize(
    ("method", "options"),
    [("bootstrap", ["--paired-bs", "--paired-bs-n"]), ("randomisation", ["--paired-ar", "--paired-ar-n"])],
)
def test_p_values_are_those_of_the_command_line(tmp_path, method, options):
    for name, lines in (("ref", REFERENCES), ("bad", BAD), ("good", spoilt(0.42, 3))):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    files = [str(tmp_path / name) for name in ("ref", "bad", "good")]
    command = [sys.executable, "-m", "sacrebleu", files[0], "-i", *files[1:], "-m", "bleu", *options, "200"]
    command += ["--format", "json"]
    rows = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    found = paired_test(BAD, spoilt(0.42, 3), REFERENCES, method=method, samples=200)
    assert found.p_value == pytest.approx(rows[1]["BLEU"]["p_value"], abs=1e-4)
    assert 0.001 < found.p_value < 0.999
    assert found.baseline == pytest.approx(bleu(BAD, REFERENCES).value)


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_a_clear_difference_is_clear_and_none_is_none(metric):
    found = paired_test(BAD, GOOD, REFERENCES, metric=metric, samples=100)
    assert found.p_value < 0.05
    assert (found.difference > 0) == (metric != "ter")
    assert "bs:100" in found.signature
    assert paired_test(BAD, BAD, REFERENCES, metric=metric, method="randomisation", samples=100).p_value == 1
    assert paired_test(BAD, BAD, REFERENCES, metric=metric, samples=100).p_value == 1


outcomes = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=8)


@settings(max_examples=50)
@given(outcomes)
def test_accuracy_test_is_the_full_randomisation(outcomes):
    before, after = zip(*outcomes, strict=True)
    observed = abs(sum(after) - sum(before))
    splits = [
        abs(sum((b - a) if swap else (a - b) for (a, b), swap in zip(outcomes, swaps, strict=True)))
        for swaps in product([False, True], repeat=len(outcomes))
    ]
    found = accuracy_test(before, after)
    assert found.p_value == pytest.approx(sum(split >= observed for split in splits) / len(splits))
    assert found.difference == pytest.approx((sum(after) - sum(before)) / len(outcomes))


def test_accuracy_test_on_many_examples():
    before = [True] * 700 + [False] * 300
    assert accuracy_test(before, before).p_value == 1
    assert accuracy_test(before, [*before[:-50], *[True] * 50]).p_value < 1e-12
    assert accuracy_test([True] * 20_000, [False] * 20_000).p_value == 0


def test_wrong_inputs_are_refused():
    with pytest.raises(DataError, match="references: expected 60, one for each hypothesis, got 59"):
        paired_test(GOOD, BAD, REFERENCES[1:])
    with pytest.raises(DataError, match="expected 59, one for each hypothesis, got 60"):
        paired_test(GOOD, BAD[1:], REFERENCES)
    with pytest.raises(DataError, match="samples: expected at least 1"):
        paired_test(GOOD, BAD, REFERENCES, samples=0)
    with pytest.raises(DataError, match="expected 2, one for each hypothesis, got 1"):
        accuracy_test([True, False], [True])


@pytest.mark.parametrize("at_once", [1 << 20, 1000])
@pytest.mark.parametrize("method", ["bootstrap", "randomisation"])
@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_p_values_are_sacrebleus_to_the_bit_however_much_is_held_at_once(metric, method, at_once, monkeypatch):
    from sacrebleu.significance import PairedTest

    monkeypatch.setattr(significance, "ELEMENTS_AT_ONCE", at_once)
    systems, scorer = [("one", BAD), ("other", spoilt(0.42, 3))], METRICS[metric].sacrebleu()
    signatures, rows = PairedTest(systems, {metric: scorer}, [REFERENCES], significance.METHODS[method][0], 100)()
    [name] = signatures
    found = paired_test(*(lines for _, lines in systems), REFERENCES, metric=metric, method=method, samples=100)
    assert (found.system, found.p_value) == (rows[name][1].score, rows[name][1].p_value)
    assert found.signature == str(signatures[name])


def peak(work) -> float:
    """The most megabytes that were held at once."""
    tracemalloc.start()
    work()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / 1e6


def test_memory_does_not_grow_with_examples_times_samples():
    values = np.random.default_rng(1).normal(0.01, 1, 100_000)
    assert peak(lambda: sign_flips(values, flips=200)) < 40, "all flips at once would take 320 MB"
    stats = np.ones((100_000, 10))
    scorer, random = METRICS["bleu"].sacrebleu(), np.random.default_rng(1)
    for sample in (significance._bootstrap_differences, significance._randomised_differences):
        assert peak(lambda sample=sample: sample(scorer, stats, stats, random, 64)) < 60, "at once: 300 MB and more"


def test_sign_flips_are_the_same_in_chunks(monkeypatch):
    values = np.random.default_rng(2).normal(0.1, 1, 333)
    random = np.random.default_rng(1)
    signs = random.choice([-1.0, 1.0], (10_000, len(values)))
    expected = (1 + (np.abs(signs @ values) >= abs(values.sum())).sum()) / 10_001
    assert sign_flips(values) == pytest.approx(expected)
    monkeypatch.setattr(significance, "ELEMENTS_AT_ONCE", 500)
    assert sign_flips(values) == pytest.approx(expected)


def test_nothing_is_tested_that_is_no_number():
    with pytest.raises(DataError, match="expected finite values, got NaN or infinity"):
        sign_flips(np.array([0.1, np.nan]))
    with pytest.raises(DataError, match="expected at least one, got none"):
        sign_flips(np.array([]))


@pytest.mark.parametrize(("differing", "p"), [(0, 1.0), (1, 1.0), (2, 0.5), (5, 0.0625), (6, 0.03125)])
def test_the_smallest_p_of_few_examples(differing, p):
    assert smallest_p(differing) == p
