"""Is a variant better than the first one, or was it luck? Paired tests over what all seeds' models did."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from regard.compare.outcome import Outcome
from regard.metrics.significance import Method, accuracy_test, paired_test
from regard.train.loop import HIGHER_IS_BETTER

LEVEL = 0.05
SIGN_FLIPS = 10_000


@dataclass(frozen=True)
class Verdict:
    """What a paired test says about a variant beside the first one."""

    p_value: float
    agree: bool
    """Whether the difference has the same sign in every seed."""
    better: bool
    signature: str

    @property
    def significant(self) -> bool:
        """A difference that chance would rarely make, and that no single seed makes alone."""
        return self.p_value < LEVEL and self.agree


def judge(
    first: Sequence[Outcome], other: Sequence[Outcome], metric: str, method: Method = "bootstrap"
) -> Verdict | None:
    """Seed beside seed, all test outputs together; None where there is nothing to pair.

    The outputs of all seeds are tested as one long test set. A sentence stands in it once for each seed, and these
    copies are alike, so the test alone would believe too much; that every seed must agree makes up for it.
    """
    pairs = [(one, two) for one, two in zip(first, other, strict=True) if one.problem is None and two.problem is None]
    tested = _tested([one for one, _ in pairs], [two for _, two in pairs], metric, method) if pairs else None
    if tested is None:
        return None
    p_value, signature = tested
    gains = [two.metrics[metric] - one.metrics[metric] for one, two in pairs]
    agree = all(gain > 0 for gain in gains) or all(gain < 0 for gain in gains)
    better = (sum(gains) > 0) == (metric in HIGHER_IS_BETTER)
    return Verdict(p_value, agree, better, signature)


MANY = 5
"""Variants from which on a sentence counts them."""


def tally(verdicts: Sequence[Verdict | None], first: str) -> str:
    """How many of many variants differ from the first; empty where they are few enough to be counted by eye."""
    judged = [verdict for verdict in verdicts if verdict is not None]
    if len(judged) < MANY:
        return ""
    better = sum(verdict.significant and verdict.better for verdict in judged)
    worse = sum(verdict.significant and not verdict.better for verdict in judged)
    return (
        f"Of {len(judged)} others {better} are significantly better than {first}, {worse} significantly worse and "
        f"{len(judged) - better - worse} cannot be told apart from it; among so many, chance alone would make "
        f"p < {LEVEL} about {LEVEL * len(judged):.1f} times."
    )


def _tested(
    first: Sequence[Outcome], other: Sequence[Outcome], metric: str, method: Method
) -> tuple[float, str] | None:
    """The p of the test that fits the evidence, and how it was computed."""
    kinds = [set(outcome.evidence) for outcome in (*first, *other)]
    if metric in set.intersection(*kinds):
        return _flipped(first, other, metric, "examples")
    if {"written"} <= set.intersection(*kinds):
        if metric not in ("bleu", "chrf", "ter") or _all(first, "references") != _all(other, "references"):
            return None
        found = paired_test(
            _all(first, "written"), _all(other, "written"), _all(first, "references"), metric=metric, method=method
        )
        return found.p_value, found.signature
    if {"right"} <= set.intersection(*kinds):
        before, after = _all(first, "right"), _all(other, "right")
        if metric != "accuracy" or len(before) != len(after):
            return None
        found = accuracy_test(before, after)
        return found.p_value, found.signature
    return _flipped(first, other, "losses", "batches") if metric == "loss" else None


def _flipped(first: Sequence[Outcome], other: Sequence[Outcome], name: str, what: str) -> tuple[float, str] | None:
    """A paired test over numbers, one for each example or batch."""
    before, after = _all(first, name), _all(other, name)
    if len(before) != len(after) or not before:
        return None
    return sign_flips(np.asarray(after) - np.asarray(before)), f"test:sign-flips|{what}:{len(before)}|n:{SIGN_FLIPS}"


def _all(outcomes: Sequence[Outcome], name: str) -> list:
    return list(chain.from_iterable(outcome.evidence.get(name, []) for outcome in outcomes))


def sign_flips(differences: np.ndarray, flips: int = SIGN_FLIPS, seed: int = 1) -> float:
    """Approximate randomisation: how often random signs make the differences' mean as far from zero as it is."""
    random = np.random.default_rng(seed)
    signs = random.choice([-1.0, 1.0], (flips, len(differences)))
    rounding = 1e-9 * np.abs(differences).sum()
    as_far = np.abs(signs @ differences) >= abs(differences.sum()) - rounding
    return float((1 + as_far.sum()) / (1 + flips))
