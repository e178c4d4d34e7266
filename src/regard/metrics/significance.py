"""Is one system better than another, or was it luck? Paired tests on the same test set."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from regard.errors import DataError
from regard.metrics.score import check_counts

Method = Literal["bootstrap", "randomisation"]
METHODS = {"bootstrap": "bs", "randomisation": "ar"}
METRICS = {"bleu": BLEU, "chrf": CHRF, "ter": TER}


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same examples; a small p says that chance alone would rarely make such a difference."""

    baseline: float
    system: float
    p_value: float
    signature: str

    @property
    def difference(self) -> float:
        """How much the system's score is above the baseline's."""
        return self.system - self.baseline


def paired_test(
    baseline: Sequence[str],
    system: Sequence[str],
    *references: Sequence[str],
    metric: Literal["bleu", "chrf", "ter"] = "bleu",
    method: Method = "bootstrap",
    samples: int | None = None,
) -> Comparison:
    """Sacrebleu's paired bootstrap (1,000 samples) or approximate randomisation (10,000), with its own fixed seed.

    Where the scores are equal, p is 1: sacrebleu counts only samples that differ more than the systems do, and by that
    rule a system would differ significantly from itself.
    """
    check_counts(baseline, references)
    check_counts(system, references)
    if samples is not None and samples < 1:
        raise DataError("samples", f"expected at least 1, got {samples}")
    systems = [("baseline", baseline), ("system", system)]
    test = PairedTest(systems, {metric: METRICS[metric]()}, references, METHODS[method], n_samples=samples or 0)
    signatures, table = test()
    [name] = signatures
    before, after = table[name]
    assert isinstance(before, Result)
    assert isinstance(after, Result)
    assert after.p_value is not None
    p_value = 1.0 if before.score == after.score else after.p_value
    return Comparison(before.score, after.score, p_value, str(signatures[name]))


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


def bootstrap_interval(
    values: Sequence[float], *, level: float = 0.95, samples: int = 1000, seed: int = 1
) -> tuple[float, float]:
    """Where the mean of such values lies in `level` of all resamples: error bars of an accuracy, say."""
    check_counts(values, [values])
    if not 0 < level < 1:
        raise DataError("level", f"expected a share between 0 and 1, got {level}")
    given, random = np.asarray(values, dtype=np.float64), np.random.default_rng(seed)
    means = [random.choice(given, len(given)).mean() for _ in range(samples)]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
