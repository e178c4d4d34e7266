"""Every score that regard knows: its label, which direction is better, what makes two values comparable, its test.

Each metric registers itself in the file that computes it; validation, tables, plots, significance tests and the choice
of the best checkpoint all read `METRICS`. A score that is not registered is an error where it is computed: without a
direction, a checkpoint would be kept or a star given by chance. A metric of generated texts needs nothing else: with
`compute` and `tasks` it is reported wherever such a task is tested.
"""

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from regard.data.sources import SourceConfig
from regard.errors import ConfigError, DataError, nearest

if TYPE_CHECKING:  # loaded where a score is computed, so that a first translation does not wait for it
    from sacrebleu.metrics.base import Metric as SacrebleuMetric

Comparable = Literal["same_examples", "same_targets"]
"""What two runs must share for their values to have a common unit. same_targets: a mean over what the model predicts;
where that is tokens, values of different vocabularies have no common unit."""

PairedTest = Literal["resampling", "sign_test", "sign_flips_of_examples", "sign_flips_of_batches"]
"""resampling: sacrebleu's bootstrap or approximate randomisation over texts; sign_test: exact, over right and wrong
answers; sign_flips_of_…: approximate randomisation over one value for each example or batch."""


@dataclass(frozen=True)
class Score:
    """A corpus score and how it was computed; two scores compare only where their signatures agree."""

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"


def check_counts(hypotheses: Sized, references: Sequence[Sized]) -> None:
    """Refuses an empty corpus, and references that are not as many as the hypotheses."""
    if not len(hypotheses):
        raise DataError("hypotheses", "expected at least one, got none")
    if not references:
        raise DataError("references", "expected at least one list of references, got none")
    for number, stream in enumerate(references, 1):
        if len(stream) != len(hypotheses):
            name = "references" if len(references) == 1 else f"references {number}"
            raise DataError(name, f"expected {len(hypotheses)}, one for each hypothesis, got {len(stream)}")


@dataclass(frozen=True)
class Texts:
    """Generated texts beside what they were generated from and what people wrote."""

    sources: Sequence[str]
    hypotheses: Sequence[str]
    references: Sequence[str]

    def one_by_one(self) -> "Iterable[Texts]":
        for source, hypothesis, reference in zip(self.sources, self.hypotheses, self.references, strict=True):
            yield Texts([source], [hypothesis], [reference])


@dataclass(frozen=True)
class Metric:
    """A score, and all that depends on which one it is."""

    name: str
    label: str
    """What tables and plots call it."""
    higher_is_better: bool
    comparable: Comparable = "same_examples"
    test: PairedTest | None = None
    """The paired test of a difference; None: there is none, and no star."""
    percent: bool = False
    """A share between 0 and 1, shown in per cent."""
    digits: int = 1
    """Decimals that a table shows."""
    is_quality: bool = True
    """Whether it says how good a model is; if not, nothing is chosen or compared by it."""
    compute: Callable[[Texts], Score | None] | None = None
    """The score of generated texts, or None where they have none; left out where predictions are scored."""
    tasks: tuple[str, ...] = ()
    """The kinds of tasks whose generated texts it scores."""
    applies_to: Callable[[SourceConfig], bool] | None = None
    """Which data it needs; left out: any."""
    sacrebleu: "Callable[[], SacrebleuMetric] | None" = None
    """Makes the library's metric from whose statistics resampling draws."""

    @property
    def needs_text(self) -> bool:
        """Whether the model has to generate text for it."""
        return self.compute is not None

    def better(self, value: float, than: float) -> bool:
        return value > than if self.higher_is_better else value < than

    @property
    def heading(self) -> str:
        """The label with its unit, as the head of a column."""
        return f"{self.label} (%)" if self.percent else self.label


METRICS: dict[str, Metric] = {}


def register(metric: Metric) -> Metric:
    if metric.name in METRICS:
        raise TypeError(f"score '{metric.name}' is registered twice")
    METRICS[metric.name] = metric
    return metric


def metric(name: str, setting: str = "metric") -> Metric:
    """The metric of a name; ConfigError, which names the setting, for one that is not registered."""
    if name not in METRICS:
        raise ConfigError(setting, f"unknown score '{name}'; {nearest(name, METRICS)}")
    return METRICS[name]


def needs_text(name: str | None) -> bool:
    """Whether a score is of texts that the model has to generate."""
    return name is not None and name in METRICS and METRICS[name].needs_text


def text_metrics(task: str, source: SourceConfig | None = None) -> list[Metric]:
    """The metrics of texts that models of a task generate from some data; without a source, from any data."""
    return [
        metric
        for metric in METRICS.values()
        if task in metric.tasks and (metric.applies_to is None or (source is not None and metric.applies_to(source)))
    ]


def require_registered(names: Iterable[str]) -> None:
    """Refuses scores that are not registered: a mistake in a task or a scorer, not in a recipe."""
    unknown = sorted(set(names) - METRICS.keys())
    if unknown:
        raise TypeError(f"score '{unknown[0]}' is not registered; call regard.metrics.registry.register for it")
