"""Is one system better than another, or was it luck? Paired tests on the same test set."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError
from regard.metrics.registry import METRICS, check_counts
from regard.metrics.registry import metric as metric_of

Method = Literal["bootstrap", "randomisation"]
METHODS = {"bootstrap": ("bs", 1000), "randomisation": ("ar", 10_000)}
"""sacrebleu's names of the methods, and how many samples it draws."""
SIGN_FLIPS = 10_000
Scorer = Any
"""A metric of sacrebleu; what it knows of each sentence, it tells only by protected methods."""
Statistics = NDArray[Any]
"""A row of counts for each sentence."""
ELEMENTS_AT_ONCE = 1 << 20
"""Random elements that are held at a time: memory does not grow with examples times samples."""


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same examples; a small p says that chance alone would rarely make such a difference."""

    baseline: float
    system: float
    p_value: float
    signature: str

    @property
    def difference(self) -> float:
        return self.system - self.baseline


def paired_test(
    baseline: Sequence[str],
    system: Sequence[str],
    *references: Sequence[str],
    metric: str = "bleu",
    method: Method = "bootstrap",
    samples: int | None = None,
) -> Comparison:
    """Sacrebleu's paired bootstrap (1,000 samples) or approximate randomisation (10,000), with its seed and p-values.

    Computed from sacrebleu's statistics of each sentence, a few samples at a time: its own `PairedTest` holds those of
    all samples at once, 40 kB a sentence. Where the scores are equal, p is 1: sacrebleu counts only samples that differ
    more than the systems do, and by that rule a system would differ significantly from itself.
    """
    check_counts(baseline, references)
    check_counts(system, references)
    if samples is not None and samples < 1:
        raise DataError("samples", f"expected at least 1, got {samples}")
    key, usual = METHODS[method]
    samples = samples or usual
    make_scorer = metric_of(metric).sacrebleu
    if make_scorer is None:
        usable = ", ".join(name for name, other in METRICS.items() if other.sacrebleu is not None)
        raise DataError("metric", f"'{metric}' has no statistics to resample; use one of {usable}")
    scorer: Scorer = make_scorer()
    statistics = [scorer._extract_corpus_statistics(side, references) for side in (baseline, system)]
    before, after = (scorer._aggregate_and_compute(rows).score for rows in statistics)
    seed = os.environ.get("SACREBLEU_SEED", "12345").lower()
    random = np.random.default_rng(None if seed == "none" else int(seed) or None)
    sample = _bootstrap_differences if method == "bootstrap" else _randomised_differences
    one, other = (np.asarray(rows) for rows in statistics)
    differences = sample(scorer, one, other, random, samples)
    signature = scorer.get_signature()
    signature.update("seed", seed)
    signature.update(key, samples)
    as_far = int((differences > abs(before - after)).sum())
    return Comparison(before, after, 1.0 if before == after else (as_far + 1) / (samples + 1), str(signature))


def _bootstrap_differences(
    scorer: Scorer, one: Statistics, other: Statistics, random: np.random.Generator, samples: int
) -> NDArray[np.float64]:
    """How far the scores of resampled test sets are apart, less the mean of all."""
    one, other = one.astype(np.float32), other.astype(np.float32)
    differences: list[float] = []
    for _ in range(samples):
        rows = random.choice(len(one), size=len(one), replace=True)
        scores = [scorer._compute_score_from_stats(side[rows].sum(0)).score for side in (one, other)]
        differences.append(abs(scores[1] - scores[0]))
    column = np.array(differences)
    return column - column.mean()


def _randomised_differences(
    scorer: Scorer, one: Statistics, other: Statistics, random: np.random.Generator, samples: int
) -> NDArray[np.float64]:
    """How far the scores are apart when each sentence's two outputs are from_one or not, at random."""
    differences: list[float] = []
    total = one.sum(0) + other.sum(0)
    for rows in _chunks(samples, len(one), multiple=32):  # numpy draws 32 bits at once and drops what is left over
        from_one = random.integers(2, size=(rows, len(one)), dtype=bool)
        mixed = from_one @ one + ~from_one @ other
        for side in mixed:
            scores = [scorer._aggregate_and_compute([rest]).score for rest in (side, total - side)]
            differences.append(abs(scores[0] - scores[1]))
    return np.array(differences)


def sign_flips(differences: NDArray[np.float64], flips: int = SIGN_FLIPS, seed: int = 1) -> float:
    """Approximate randomisation: how often random signs make the differences' mean as far from zero as it is."""
    check_counts(differences, [differences])
    if not np.isfinite(differences).all():
        raise DataError("differences", "expected finite values, got NaN or infinity")
    random = np.random.default_rng(seed)
    rounding = 1e-9 * np.abs(differences).sum()
    limit = abs(differences.sum()) - rounding
    as_far = 0
    for rows in _chunks(flips, len(differences)):
        signs = random.choice([-1.0, 1.0], (rows, len(differences)))
        as_far += int((np.abs(signs @ differences) >= limit).sum())
    return (1 + as_far) / (1 + flips)


def _chunks(rows: int, columns: int, multiple: int = 1) -> Iterator[int]:
    """Numbers of rows that together are `rows`, each chunk of about `ELEMENTS_AT_ONCE` elements."""
    most = max(1, ELEMENTS_AT_ONCE // columns // multiple) * multiple
    for start in range(0, rows, most):
        yield min(most, rows - start)


def smallest_p(differing: int) -> float:
    """The smallest p that a paired test of so many differing examples can have: all coins of n fall alike, 2·2⁻ⁿ.

    Resampling a single example always gives that example, and would call any difference significant.
    """
    return 2.0 ** (1 - differing) if differing > 1 else 1.0


def accuracy_test(baseline: Sequence[bool], system: Sequence[bool]) -> Comparison:
    """Paired test of two classifiers, from whether each example was right; exact, so there is nothing to seed.

    Only examples that one got right and the other wrong can tell. If chance alone decided who, the n of them would
    split like n fair coins; p is how often coins split at least as unevenly, which approximate randomisation estimates.
    """
    check_counts(baseline, [system])
    gained = sum(after and not before for before, after in zip(baseline, system, strict=True))
    lost = sum(before and not after for before, after in zip(baseline, system, strict=True))
    p_value = fair_coins(min(gained, lost), gained + lost)
    count = len(baseline)
    signature = f"test:sign|examples:{count}|gained:{gained}|lost:{lost}"
    return Comparison(sum(baseline) / count, sum(system) / count, p_value, signature)


def fair_coins(fewer: int, coins: int) -> float:
    """The probability that the rarer side of `coins` fair coins comes up at most `fewer` times."""
    ways, total = 1, 0
    for heads in range(fewer + 1):
        total += ways
        ways = ways * (coins - heads) // (heads + 1)
    return 1.0 if 2 * fewer >= coins else 2 * total / 2**coins
