"""One table of scores: directions, labels, tests; nothing that is measured is missing in it."""

from collections import Counter
from typing import get_args

import pytest

from regard.compare.significance import EVIDENCE, TESTS
from regard.config import kinds
from regard.errors import ConfigError
from regard.metrics.registry import METRICS, PairedTest, metric, require_registered
from regard.run.scoring import SCORERS
from regard.tasks import (
    Classification,
    ImageClassification,
    ImageDescription,
    LanguageModel,
    MaskedLanguageModel,
    MultiLabel,
    Summarisation,
    Tagging,
    TaskConfig,
    Translation,
)
from regard.tasks.base import Task

TASKS = [Classification, ImageClassification, ImageDescription, LanguageModel, MaskedLanguageModel, MultiLabel,
         Summarisation, Tagging, Translation]  # fmt: skip
CONFIGS = list(kinds(TaskConfig).values())


def test_every_task_is_walked_over():
    assert {config().kind for config in CONFIGS} == {  # type: ignore[attr-defined]
        "translation", "language_model", "masked_language_model", "classification", "multi_label_classification",
        "summarisation", "tagging", "image_classification", "image_description",
    }  # fmt: skip
    assert {config.scoring for config in CONFIGS} == SCORERS.keys()


@pytest.mark.parametrize("config", CONFIGS)
def test_every_score_of_a_task_is_registered(config: type[TaskConfig]):
    scores = config().scores_on(None)
    assert scores, "the first is what models are compared by"
    require_registered(scores)
    assert METRICS[scores[0]].is_quality


@pytest.mark.parametrize("task", TASKS)
def test_every_metric_of_a_validation_is_registered(task: type[Task]):
    bare = task.__new__(task)
    require_registered(task.summarise(bare, Counter()))
    assert task.best_metric in METRICS
    assert task.best_metric in task.summarise(bare, Counter())


def test_what_is_not_registered_is_refused_and_has_no_direction():
    with pytest.raises(TypeError, match="score 'charm' is not registered"):
        require_registered(["loss", "charm"])
    with pytest.raises(ConfigError, match=r"train\.best: unknown score 'blue'; did you mean 'bleu'"):
        metric("blue", "train.best")


def test_names_labels_and_tests_are_whole():
    assert all(name == score.name for name, score in METRICS.items())
    assert len({score.label for score in METRICS.values()}) == len(METRICS)
    assert TESTS.keys() == EVIDENCE.keys() == set(get_args(PairedTest))
    assert metric("ter").better(20.0, 30.0)
    assert metric("bleu").better(30.0, 20.0)
    assert not metric("loss").better(float("nan"), 1.0)
    worse_when_higher = {name for name, score in METRICS.items() if not score.higher_is_better}
    assert worse_when_higher == {"loss", "perplexity", "pseudo_perplexity", "bits_per_byte", "ter", "cut"}
