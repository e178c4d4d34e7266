"""Every score that regard knows: its label, which direction is better, what makes two values comparable, its test.

Validation, tables, plots, stars and the choice of the best checkpoint all read this table. A score that is not in it is
an error where it is made: without a direction, a checkpoint would be kept or a star given by chance.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from regard.errors import ConfigError, nearest

Comparable = Literal["same_examples", "same_targets"]
"""What two runs must share for their values to have a common unit. same_targets: a mean over what the model predicts;
where that is tokens, values of different vocabularies have no common unit."""

PairedTest = Literal["resampling", "sign_test", "sign_flips_of_examples", "sign_flips_of_batches"]
"""resampling: sacrebleu's bootstrap or approximate randomisation over texts; sign_test: exact, over right and wrong
answers; sign_flips_of_…: approximate randomisation over one value for each example or batch."""


@dataclass(frozen=True)
class Metric:
    """A score, and all that depends on which one it is."""

    name: str
    label: str
    """What tables and plots call it."""
    higher_is_better: bool
    needs_text: bool = False
    """Whether the model has to generate text for it."""
    comparable: Comparable = "same_examples"
    test: PairedTest | None = None
    """The paired test of a difference; None: there is none, and no star."""
    percent: bool = False
    """A share between 0 and 1, shown in per cent."""
    digits: int = 1
    """Decimals that a table shows."""
    is_quality: bool = True
    """Whether it says how good a model is; if not, nothing is chosen or compared by it."""

    def better(self, value: float, than: float) -> bool:
        """Whether one value is better than another."""
        return value > than if self.higher_is_better else value < than

    @property
    def heading(self) -> str:
        """The label with its unit, as the head of a column."""
        return f"{self.label} (%)" if self.percent else self.label


def _registered(*metrics: Metric) -> Mapping[str, Metric]:
    return {metric.name: metric for metric in metrics}


METRICS = _registered(
    Metric("loss", "loss", False, comparable="same_targets", test="sign_flips_of_batches", digits=3),
    Metric("perplexity", "perplexity", False, comparable="same_targets", test="sign_flips_of_batches"),
    Metric("pseudo_perplexity", "pseudo-perplexity", False, comparable="same_targets"),
    Metric("bits_per_byte", "bits per byte", False, test="sign_flips_of_batches", digits=3),
    Metric("accuracy", "accuracy", True, comparable="same_targets", test="sign_test", percent=True),
    Metric("macro_f1", "macro F1", True, comparable="same_targets", percent=True),
    Metric("bleu", "BLEU", True, needs_text=True, test="resampling"),
    Metric("chrf", "chrF", True, needs_text=True, test="resampling"),
    Metric("ter", "TER", False, needs_text=True, test="resampling"),
    Metric("rouge_1", "ROUGE-1", True, needs_text=True, test="sign_flips_of_examples"),
    Metric("rouge_2", "ROUGE-2", True, needs_text=True, test="sign_flips_of_examples"),
    Metric("rouge_l", "ROUGE-L", True, needs_text=True, test="sign_flips_of_examples"),
    Metric("exact_match", "exact match", True, needs_text=True, percent=True),
    Metric("pronoun", "pronoun accuracy", True, needs_text=True, percent=True),
    Metric("uas", "UAS", True, needs_text=True, percent=True),
    Metric("las", "LAS", True, needs_text=True, percent=True),
    Metric("cut", "inputs cut", False, percent=True, is_quality=False),
)


def metric(name: str, setting: str = "metric") -> Metric:
    """The score of a name; ConfigError, which names the setting, for one that is not registered."""
    if name not in METRICS:
        raise ConfigError(setting, f"unknown score '{name}'; {nearest(name, METRICS)}")
    return METRICS[name]


def needs_text(name: str | None) -> bool:
    """Whether a score is of texts that the model has to generate."""
    return name is not None and name in METRICS and METRICS[name].needs_text


def require_registered(names: Iterable[str]) -> None:
    """Refuses scores that are not registered: a mistake in a task or a scorer, not in a recipe."""
    unknown = sorted(set(names) - METRICS.keys())
    if unknown:
        raise TypeError(f"score '{unknown[0]}' is not registered; add it to regard.metrics.registry.METRICS")
