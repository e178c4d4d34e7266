"""Each rule speaks where something is off, and is silent on healthy runs."""

import math
from typing import Any

import pytest

from regard.train import advice
from regard.train.advice import Adviser, Facts
from regard.train.monitor import Quiet

FACTS = Facts("pair", 29_000, 1_014)


def points(
    losses: list[float], every: int = 50, *, until: float = 1.0, rates: list[float] | None = None, epochs: float = 3.0
):
    """Training losses, spread evenly over a share of the budget."""
    shares = [until * (place + 1) / len(losses) for place in range(len(losses))]
    rates = rates or [1e-3 * min(1.0, 10 * share) * (1.05 - share) for share in shares]
    return [
        {"step": every * (place + 1), "split": "train", "loss": loss, "lr": rate, "progress": share,
         "epoch": epochs * share}
        for place, (loss, rate, share) in enumerate(zip(losses, rates, shares, strict=True))
    ]  # fmt: skip


def validations(losses: list[float], every: int = 200, **scores: list[float]):
    return [
        {
            "step": every * (place + 1),
            "split": "valid",
            "loss": loss,
            **{name: row[place] for name, row in scores.items()},
        }
        for place, loss in enumerate(losses)
    ]


FALLING = [7.2 * math.exp(-place / 12) + 1.5 for place in range(40)]
REAL = [7.24, 5.25, 4.67, 4.28, 3.66, 2.96, 3.72, 2.94, 2.92, 3.47, 2.57]
"""Of a small translator on the embedded corpus, whose validations follow."""
REAL_VALID = [4.80, 4.05, 3.40, 2.99, 2.77, 2.69]
HEALTHY: dict[str, list[dict[str, Any]]] = {
    "falling": [*points(FALLING), *validations([5.0, 3.9, 3.1, 2.6, 2.3, 2.2, 2.1, 2.05, 2.02, 2.0])],
    "real": [*points(REAL, 30), *validations(REAL_VALID, 50)],
    "noisy": [*points([loss * (1 + 0.2 * math.sin(9 * place)) for place, loss in enumerate(FALLING)]),
              *validations([5.0, 3.0, 3.1, 2.5, 2.55, 2.3, 2.35, 2.2])],
    "accuracy improves while the loss rises": [
        *points(FALLING), *validations([0.5, 0.6, 0.7, 0.8, 0.9], accuracy=[0.7, 0.75, 0.78, 0.80, 0.81])],
    "flat at the end": [*points([*FALLING, *[1.5] * 20]), *validations([3.0, 2.0, 1.9, 1.905, 1.906, 1.904])],
    "learnt within the first steps": [*points([2.0, 0.02, 0.01, 0.012, 0.011, 0.013]), *validations([0.01, 0.01])],
}  # fmt: skip
RULES = [
    advice.overfitting, advice.not_falling, advice.diverging, advice.still_warming_up, advice.rate_used_up,
    advice.many_epochs,
]  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("curve", HEALTHY)
def test_healthy_runs_are_left_alone(rule: Any, curve: str):
    metric = ("accuracy",) if rule is advice.overfitting and curve.startswith("accuracy") else ()
    assert rule(HEALTHY[curve], *metric) is None
    for end in range(len(HEALTHY[curve])):
        assert rule(HEALTHY[curve][:end], *metric) is None


def test_overfitting_names_the_step_since_when_and_what_helps():
    lines = [*points(FALLING, 50), *validations([3.0, 2.0, 1.8, 1.9, 2.0, 2.3])]
    sentence = advice.overfitting(lines)
    assert sentence is not None
    assert sentence.startswith(
        "over-fitting since step 600: validation loss 1.800 → 2.300 while the training loss fell"
    )
    assert "model.dropout" in sentence
    assert advice.overfitting([*points(FALLING), *validations([1.8, 1.9, 2.0])]) is None, "not yet three in a row"
    rising = [*points([2.0, 1.8, 2.2, 2.5]), *validations([1.8, 1.9, 2.0, 2.3])]
    assert advice.overfitting(rising) is None, "training is worse too: that is something else"


def test_a_loss_that_does_not_fall_is_named_unless_the_run_starts_from_another():
    lines = points([0.70, 0.69, 0.70, 0.693, 0.70, 0.695], until=0.5)
    assert "the loss has not fallen: 0.700 at the beginning" in (advice.not_falling(lines) or "")
    assert advice.not_falling(lines, Facts("pair", 9_000, 900, started=True)) is None
    assert advice.not_falling(points([7.0] * 5, until=0.1)) is None, "too early"
    warming = points([7.0] * 6, until=0.5, rates=[1e-5, 2e-5, 3e-5, 4e-5, 5e-5, 6e-5])
    assert advice.not_falling(warming) is None, "the learning rate is not up yet"


def test_a_diverging_loss_asks_for_a_lower_rate():
    sentence = advice.diverging(points([7.0, 4.0, 2.0, 3.5, 6.5, 6.6], rates=[3e-3] * 6))
    assert sentence == (
        "the training loss has risen from 2.000 (step 150) to 6.500: the learning rate is too high; lower "
        "train.schedule.lr from 3.0e-03 to 1.0e-03 or less"
    )
    assert advice.diverging(points([7.0, 4.0, 2.0, 6.0, 2.0])) is None, "one bad point is no divergence"


def test_a_warm_up_that_outlasts_half_of_the_run_is_named_with_a_better_one():
    rates = [1e-5 * place for place in range(1, 9)]
    sentence = advice.still_warming_up(points([7.0] * 8, 100, until=0.6, rates=rates))
    assert sentence is not None
    assert "still rises at step 800, 60% of the budget" in sentence
    assert "train.schedule.warmup = 133" in sentence
    assert advice.still_warming_up(points([7.0] * 8, 100, until=0.3, rates=rates)) is None


def test_a_rate_that_is_used_up_early_is_named():
    assert "with 40% of the budget left" in (
        advice.rate_used_up(points([3.0] * 4, until=0.6, rates=[1, 0.5, 0.1, 0.001])) or ""
    )


def test_many_epochs_are_named():
    assert "about 400 passes" in (advice.many_epochs(points([3.0] * 4, until=0.5, epochs=400.0)) or "")


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (FACTS, None),
        (Facts("pair", 120, 900), "only 120 pairs to train on"),
        (Facts("line", 40, 9, tokens=1_000_000, valid_tokens=50_000), None),
        (Facts("line", 40, 9, tokens=900, valid_tokens=50), "only 900 tokens to train on"),
    ],
)
def test_hardly_any_data_is_named(facts: Facts, said: str | None):
    assert (advice.little_data(facts) or "").startswith(said or "")
    assert (advice.little_data(facts) is None) == (said is None)


def test_most_examples_left_out_or_cut_is_named_and_a_few_are_not():
    few, many = {"source longer than 128 tokens": 300}, {"source longer than 128 tokens": 12_000}
    assert advice.much_left_out(Facts("pair", 29_000, 900, left_out=few, cut=few)) is None
    said = advice.much_left_out(Facts("pair", 29_000, 900, left_out=many))
    assert said is not None
    assert said.startswith("29% of the training pairs are left out (source longer than 128 tokens); raise")
    assert "are cut" in (advice.much_left_out(Facts("pair", 29_000, 900, cut=many)) or "")


def test_a_small_validation_says_how_sure_its_accuracy_is():
    assert advice.small_validation(FACTS, {"accuracy": 0.5}) is None
    said = advice.small_validation(Facts("labelled text", 5_000, 100), {"accuracy": 0.5})
    assert (
        said == "only 100 labelled texts to validate on: scores are noisy (accuracy ± 10 points); give data.valid more"
    )
    assert "±" not in (advice.small_validation(Facts("pair", 5_000, 100), {"bleu": 20.0}) or "")


def test_time_spent_on_validations():
    assert advice.mostly_validating(100.0, 40.0, 5) is None
    assert advice.mostly_validating(100.0, 60.0, 2) is None
    assert "take 60% of the time" in (advice.mostly_validating(100.0, 60.0, 5) or "")


class Heard(Quiet):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


def run(losses: list[float], valid: list[float], facts: Facts = FACTS, steps: int = 50) -> list[str]:
    heard = Heard()
    adviser = Adviser(heard, time_source=lambda: 0.0)
    adviser.facts = facts
    adviser.started("loss", [])
    total, step = len(losses) * steps, 0
    for loss, measured in zip(losses, valid, strict=True):
        for _ in range(steps):
            step += 1
            rate = 1e-3 * min(1.0, 10 * step / total) * (1 - step / total)
            line = {"step": step, "loss": loss, "lr": rate, "tokens": step, "epoch": 3 * step / total}
            adviser.step(line, step / total)
        adviser.measured({"step": step, "split": "valid", "loss": measured, "lr": 1e-3})
    return heard.said


def test_the_adviser_says_each_thing_once_and_nothing_of_a_healthy_run():
    assert run([5, 4, 3, 2.5, 2.2, 2.0], [5.1, 4.2, 3.3, 2.9, 2.7, 2.6]) == []
    said = run([5, 3, 2, 1, 0.8, 0.5, 0.3, 0.2], [4, 3, 2.5, 2.6, 2.8, 3.0, 3.3, 3.5], Facts("pair", 100, 900))
    assert len(said) == 2
    assert said[0].startswith("note: only 100 pairs to train on")
    assert said[1].startswith("note: over-fitting since step 150")


def test_the_adviser_remembers_long_runs_in_few_points():
    heard = Heard()
    adviser = Adviser(heard)
    for step in range(1, 60_001):
        adviser.step({"step": step, "loss": 2.0, "lr": 1e-3, "tokens": step, "epoch": 0.1}, step / 60_000)
    assert len(adviser._lines) <= 401
    assert (adviser._lines[0]["step"], adviser._lines[-1]["step"]) == (1, 59_976)
