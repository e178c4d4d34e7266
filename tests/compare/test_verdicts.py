"""Significance on outputs made up for the test."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.compare.queue import Outcome
from regard.compare.significance import Verdict, compare_runs, incomparable, tally
from regard.metrics import bleu, sign_flips

REFERENCES = [f"the {colour} {animal} crossed the street on day {day}" for day in range(12) for colour in ("red", "old")
              for animal in ("dog", "cow", "hen")]  # fmt: skip


def translated(wrong: int, first: int = 0) -> Outcome:
    """A test on which some sentences were translated wrongly."""
    spoilt = range(first, first + wrong)
    written = ["a bird flew over it" if number in spoilt else line for number, line in enumerate(REFERENCES)]
    return Outcome(
        metrics={"bleu": bleu(written, REFERENCES).value}, evidence={"written": written, "references": REFERENCES}
    )


@pytest.mark.parametrize("method", ["bootstrap", "randomisation"])
def test_a_star_only_where_it_is_earned(method):
    first = [translated(20), translated(21)]
    clear = compare_runs(first, [translated(5), translated(6)], "bleu", method)
    assert clear is not None
    assert clear.significant
    assert clear.better
    slight = compare_runs(first, [translated(20, first=1), translated(20, first=2)], "bleu", method)
    assert slight is not None
    assert not slight.significant


def test_seeds_that_disagree_get_no_star():
    found = compare_runs([translated(20), translated(20)], [translated(2), translated(21)], "bleu")
    assert found is not None
    assert found.p_value < 0.05
    assert not found.significant


def test_worse_is_significant_too_and_says_so():
    found = compare_runs([translated(2)], [translated(30)], "bleu")
    assert found is not None
    assert found.significant
    assert not found.better


def test_failed_seeds_are_left_out_of_the_pairs():
    broken = Outcome(problem="the loss is nan")
    assert compare_runs([broken, translated(3)], [translated(1), broken], "bleu") is None
    assert compare_runs([broken, translated(3)], [translated(1), translated(3)], "bleu").p_value == 1.0  # type: ignore[union-attr]


def test_other_test_sentences_are_not_paired():
    other = translated(3)
    strange = Outcome(metrics=other.metrics, evidence={**other.evidence, "references": ["x"] * len(REFERENCES)})
    assert compare_runs([translated(1)], [strange], "bleu") is None
    assert compare_runs([translated(1)], [other], "exact_match") is None


def classified(right: int, of: int = 100) -> Outcome:
    return Outcome(metrics={"accuracy": right / of}, evidence={"right": [number < right for number in range(of)]})


def test_accuracy():
    assert compare_runs([classified(80)], [classified(95)], "accuracy").significant  # type: ignore[union-attr]
    assert not compare_runs([classified(80)], [classified(82)], "accuracy").significant  # type: ignore[union-attr]


def test_losses_of_batches():
    random = np.random.default_rng(3)
    base = random.normal(2.0, 0.3, 40)

    def outcome(losses: np.ndarray) -> Outcome:
        targets = [f"batch {number}" for number in range(len(losses))]
        return Outcome(metrics={"loss": float(losses.mean())}, evidence={"losses": losses.tolist(), "targets": targets})

    lower = compare_runs([outcome(base)], [outcome(base - 0.05 + random.normal(0, 0.02, 40))], "loss")
    assert lower is not None
    assert lower.significant
    assert lower.better
    same = compare_runs([outcome(base)], [outcome(base + random.normal(0, 0.02, 40) * np.tile([1, -1], 20))], "loss")
    assert same is not None
    assert compare_runs([outcome(base)], [outcome(base[:30])], "loss") is None
    strange = outcome(base - 0.05)
    strange.evidence["targets"] = strange.evidence["targets"][::-1]
    assert compare_runs([outcome(base)], [strange], "loss") is None, "batches of other targets are no pairs"


@pytest.mark.parametrize(
    ("change", "metric", "reason"),
    [
        ({"fingerprint": "other"}, "accuracy", "tested on other examples"),
        ({"split": "valid"}, "accuracy", "tested on valid data in place of test data"),
        ({"targets": "3 labels"}, "accuracy", "is a mean over other targets (3 labels)"),
        ({"signatures": {"bleu": "version:1"}}, "bleu", "scored otherwise (version:1)"),
    ],
)
def test_scores_without_a_common_unit_get_no_star(change: dict, metric: str, reason: str):
    def with_unit(outcome: Outcome, **unit: object) -> Outcome:
        return replace(outcome, **{"split": "test", "fingerprint": "one", "targets": "2 labels", **unit})

    worse, better = (classified(60), classified(95)) if metric == "accuracy" else (translated(30), translated(2))
    first, other, strange = with_unit(worse), with_unit(better), with_unit(better, **change)
    assert incomparable(first, other, metric) is None
    assert compare_runs([first], [other], metric).significant  # type: ignore[union-attr]
    assert reason in (incomparable(first, strange, metric) or "")
    assert compare_runs([first], [strange], metric) is None


def test_bleu_needs_no_common_vocabulary():
    first, other = (replace(translated(wrong), targets=f"{wrong} tokens") for wrong in (30, 2))
    assert compare_runs([first], [other], "bleu").significant  # type: ignore[union-attr]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_score_that_is_no_number_gets_no_p(value: float):
    broken = replace(classified(95), metrics={"accuracy": value})
    assert compare_runs([classified(60)], [broken], "accuracy") is None
    losses = Outcome(metrics={"loss": value}, evidence={"losses": [value] * 9, "targets": ["x"] * 9})
    assert compare_runs([losses], [losses], "loss") is None


@pytest.mark.parametrize("method", ["bootstrap", "randomisation"])
@pytest.mark.parametrize("seeds", [1, 8])
def test_too_few_examples_get_no_star_however_many_seeds_copy_them(method, seeds: int):
    right, wrong = ["a red dog crossed the street"], ["a bird flew over it"]

    def outcome(written: list[str]) -> Outcome:
        return Outcome(metrics={"bleu": bleu(written, right).value}, evidence={"written": written, "references": right})

    alone = compare_runs([outcome(wrong)] * seeds, [outcome(right)] * seeds, "bleu", method)
    assert alone is not None
    assert (alone.p_value, alone.significant) == (1.0, False)
    few = compare_runs([classified(0, of=5)] * seeds, [classified(5, of=5)] * seeds, "accuracy")
    assert few is not None
    assert few.p_value == 2 / 2**5
    same = compare_runs([classified(5, of=5)], [classified(5, of=5)], "accuracy")
    assert same is not None
    assert not same.significant


@given(st.lists(st.floats(1, 2), min_size=8, max_size=40))
def test_sign_flips_find_what_has_one_sign_and_not_what_cancels(sizes: list[float]):
    assert sign_flips(np.array(sizes)) < 0.05
    assert sign_flips(np.array([*sizes, *(-size for size in sizes)])) == 1.0


def test_many_variants_are_counted_in_a_sentence():
    made = [Verdict(p, agree, better, "") for p, agree, better in [
        (0.01, True, True), (0.01, True, False), (0.04, True, False), (0.01, False, True), (0.5, True, True)
    ]]  # fmt: skip
    said = tally([*made, None], "plain")
    assert said.startswith("Of 5 others 1 are significantly better than plain, 2 significantly worse and 2 cannot be")
    assert tally(made[:4], "plain") == ""
