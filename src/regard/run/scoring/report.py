"""What a test is asked to do, and what it found."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from regard.data.sources import SourceConfig
from regard.tasks.base import Task
from regard.tasks.prepare import Preparation
from regard.tasks.writing import AnySearch


@dataclass(frozen=True)
class Asked:
    """A trained model and what to test it on."""

    task: Task
    model: nn.Module
    source: SourceConfig
    preparation: Preparation
    """How the data is read, and where relative paths start."""
    device: torch.device
    search: AnySearch
    """How a task that writes does so."""
    tokens_per_batch: int
    longest: int | None = None
    """Most tokens of an input that the model was made for."""
    others: Sequence[nn.Module] = ()
    """Further models that write together with the first."""


@dataclass(frozen=True)
class Report:
    """What a test found."""

    metrics: dict[str, float]
    examples: int
    seconds: float
    signatures: dict[str, str] = field(default_factory=dict)
    """How scores were computed, as sacrebleu writes it."""
    details: dict[str, Any] = field(default_factory=dict)
    """What is no single number: the confusion matrix, what was written."""
    evidence: dict[str, list[Any]] = field(default_factory=dict)
    """What a test of significance needs: `written` and `references`, or whether each answer is `right`, or `losses`, or
    under a score's own name its value for each example."""

    def tree(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "metrics": self.metrics,
            "signatures": self.signatures,
            "examples": self.examples,
            "seconds": round(self.seconds, 3),
            **self.details,
        }
