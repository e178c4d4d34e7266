"""What a task asks of a model and of its settings, beside the contract of all models."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol, cast

from torch import Tensor, nn

from regard.decode import AnyStepper
from regard.models.contract import ModelConfig as ModelConfig
from regard.nn.layout import Sequences
from regard.nn.loss import Losses


class Head(Protocol):
    """The output layer of a model that predicts tokens."""

    spread: Tensor | None

    def __call__(self, x: Tensor) -> Tensor: ...
    def loss(self, x: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor: ...
    def losses(self, x: Tensor, targets: Tensor, smoothing: float = 0.0) -> Losses: ...


class Model(Protocol):
    """A model that predicts tokens: `hidden` gives the vectors from which `head` computes logits."""

    config: ModelConfig
    head: Head

    def __call__(self, *arguments: object) -> Tensor: ...
    def hidden(self, *arguments: object) -> Tensor: ...


def token_model(model: nn.Module) -> Model:
    """A module known to predict tokens."""
    return cast(Model, model)


def config_of(model: nn.Module) -> ModelConfig:
    return token_model(model).config


def sequences(argument: object) -> Sequences:
    """An argument of a model, known to be sequences of tokens."""
    assert isinstance(argument, Sequences)
    return argument


@contextmanager
def evaluation_mode(model: nn.Module) -> Generator[None]:
    """Without dropout, whose random numbers would also change those of later steps."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def as_stepper(model: nn.Module) -> AnyStepper:
    """A module known to decode token by token."""
    return cast(AnyStepper, model)
