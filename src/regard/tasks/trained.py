"""A trained model with what its users need beside the weights: vocabularies, limits, recipe.

Whoever uses a model (export, look, scoring, serving) takes a `Trained`; a run folder that is opened is one
(`regard.run.trained.Run`), and so is a model that was built by hand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import nn

from regard.data.settings import DataConfig
from regard.decode.search import AnySearch
from regard.tasks.base import Task, TaskConfig
from regard.tasks.contract import ModelConfig
from regard.text.tokenizer import Tokenizer


class TrainedRecipe(Protocol):
    """The parts of a recipe that matter once a model is trained; `regard.run.recipe.Recipe` has them."""

    @property
    def task(self) -> TaskConfig: ...
    @property
    def model(self) -> ModelConfig: ...
    @property
    def data(self) -> DataConfig: ...
    @property
    def usual_search(self) -> AnySearch: ...
    @property
    def longest_input(self) -> int | None: ...


@dataclass(frozen=True)
class Trained:
    """A trained model, its task with vocabularies and labels, its recipe, and where it computes."""

    model: nn.Module
    task: Task
    recipe: TrainedRecipe
    device: torch.device
    name: str
    step: int
    """Of the checkpoint that the weights are from."""

    @property
    def tokenizers(self) -> Mapping[str, Tokenizer]:
        return self.task.vocabularies.tokenizers

    @property
    def labels(self) -> Sequence[str]:
        return self.task.vocabularies.labels

    @cached_property
    def longest(self) -> int | None:
        """Most tokens of an input that the model was made for; None where the task truncates inputs itself."""
        return self.recipe.longest_input

    @property
    def input_tokens(self) -> int | None:
        """Where the task truncates inputs, if it does, as summarisation does; the token after them counted."""
        return self.task.config.input_limit

    @property
    def documents(self) -> bool:
        """Whether a language model was trained on texts with begin and end, not on one running text."""
        train = self.recipe.data.train
        return train is None or not train.is_running_text

    @property
    def cuts(self) -> bool:
        """Whether inputs that are too long are truncated, as in training."""
        return self.recipe.data.overlong == "cut"
