"""Is a variant better than the first one, or was it luck? Paired tests over what all seeds' models did."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from regard.compare.queue import Outcome, Values
from regard.metrics.registry import METRICS, PairedTest
from regard.metrics.significance import SIGN_FLIPS, Method, accuracy_test, paired_test, sign_flips, smallest_p

LEVEL = 0.05


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
        """Whether the difference is significant and every seed agrees on its sign."""
        return self.p_value < LEVEL and self.agree


Pairs = Sequence[tuple[Outcome, Outcome]]
"""The outcomes of the first variant and of another, seed by seed."""


def compare_runs(
    first: Sequence[Outcome], other: Sequence[Outcome], metric: str, method: Method = "bootstrap"
) -> Verdict | None:
    """A paired test of two variants; None where there is nothing to pair, or no common unit.

    The outputs of all seeds are tested as one long test set. Each sentence occurs once per seed, and these copies are
    correlated, so the test alone would be overconfident: every seed must agree as well. Nor can p be smaller than the
    number of different examples allows.
    """
    pairs = [(one, two) for one, two in zip(first, other, strict=True) if one.problem is None and two.problem is None]
    test = METRICS[metric].test
    if not pairs or test is None or any(incomparable(one, two, metric) for one, two in pairs):
        return None
    gains = [two.metrics[metric] - one.metrics[metric] for one, two in pairs]
    if not all(map(math.isfinite, gains)):
        return None
    evidence = EVIDENCE[test](metric)
    if not all(_paired(one, two, evidence) for one, two in pairs):
        return None
    p_value, signature = TESTS[test](pairs, metric, method)
    p_value = max(p_value, smallest_p(_differing(pairs, evidence)))
    agree = all(gain > 0 for gain in gains) or all(gain < 0 for gain in gains)
    better = (sum(gains) > 0) == METRICS[metric].higher_is_better
    return Verdict(p_value, agree, better, signature)


def incomparable(one: Outcome, other: Outcome, metric: str) -> str | None:
    """Why two values of a score have no common unit; None where they have one."""
    if one.split != other.split:
        return f"tested on {other.split} data in place of {one.split} data"
    if one.fingerprint != other.fingerprint:
        return "tested on other examples"
    if METRICS[metric].comparable == "same_targets" and one.targets != other.targets:
        return f"its {METRICS[metric].label} is a mean over other targets ({other.targets})"
    if one.signatures.get(metric) != other.signatures.get(metric) and METRICS[metric].needs_text:
        return f"scored otherwise ({other.signatures.get(metric)})"
    return None


MANY = 5
"""The number of variants from which a sentence counts them."""


def tally(verdicts: Sequence[Verdict | None], first: str) -> str:
    """How many of many variants differ from the first; empty where they are few."""
    paired = [verdict for verdict in verdicts if verdict is not None]
    if len(paired) < MANY:
        return ""
    better = sum(verdict.significant and verdict.better for verdict in paired)
    worse = sum(verdict.significant and not verdict.better for verdict in paired)
    return (
        f"Of {len(paired)} others {better} are significantly better than {first}, {worse} significantly worse and "
        f"{len(paired) - better - worse} cannot be told apart from it; among so many, chance alone would make "
        f"p < {LEVEL} about {LEVEL * len(paired):.1f} times."
    )


@dataclass(frozen=True)
class Evidence:
    """The fields of an outcome that a test pairs: the values, and what must be equal for them to be pairs."""

    values: str
    same: str | None = None


EVIDENCE: dict[PairedTest, Callable[[str], Evidence]] = {
    "resampling": lambda _: Evidence("written", "references"),
    "sign_test": lambda _: Evidence("right"),
    "sign_flips_of_examples": lambda metric: Evidence(metric),
    "sign_flips_of_batches": lambda _: Evidence("losses", "targets"),
}


def _paired(one: Outcome, other: Outcome, evidence: Evidence) -> bool:
    """Whether both have the values that a test pairs, as many, and of the same examples in the same order."""
    values = [outcome.evidence.get(evidence.values, []) for outcome in (one, other)]
    if not values[0] or len(values[0]) != len(values[1]):
        return False
    if evidence.same is None:
        return True
    same = [outcome.evidence.get(evidence.same) for outcome in (one, other)]
    return same[0] is not None and same[0] == same[1]


def _differing(pairs: Pairs, evidence: Evidence) -> int:
    """Examples whose values differ in at least one seed."""
    rows = [[x != y for x, y in zip(*(out.evidence[evidence.values] for out in pair), strict=True)] for pair in pairs]
    return sum(map(any, zip(*rows, strict=False)))


def _resampled(pairs: Pairs, metric: str, method: Method) -> tuple[float, str]:
    before, after = _columns(pairs, "written")
    references, _ = _columns(pairs, "references")
    tested = paired_test(before, after, references, metric=metric, method=method)
    return tested.p_value, tested.signature


def _sign_tested(pairs: Pairs, _metric: str, _method: Method) -> tuple[float, str]:
    tested = accuracy_test(*_columns(pairs, "right"))
    return tested.p_value, tested.signature


def _flipped(pairs: Pairs, name: str, what: str) -> tuple[float, str]:
    """A paired test over numbers, one for each example or batch."""
    before, after = _columns(pairs, name)
    p_value = sign_flips(np.asarray(after) - np.asarray(before))
    return p_value, f"test:sign-flips|{what}:{len(before)}|n:{SIGN_FLIPS}"


TESTS: dict[PairedTest, Callable[[Pairs, str, Method], tuple[float, str]]] = {
    "resampling": _resampled,
    "sign_test": _sign_tested,
    "sign_flips_of_examples": lambda pairs, metric, _: _flipped(pairs, metric, "examples"),
    "sign_flips_of_batches": lambda pairs, _metric, _method: _flipped(pairs, "losses", "batches"),
}


def _columns(pairs: Pairs, name: str) -> tuple[Values, Values]:
    """A kind of evidence of all seeds end to end, of the first variant and of the other."""
    before, after = (
        chain.from_iterable(outcome.evidence[name] for outcome in side) for side in zip(*pairs, strict=True)
    )
    return list(before), list(after)
