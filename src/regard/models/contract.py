"""The contract of models: what training, decoding, comparison and export may ask of a Transformer or a baseline.

    config.build(vocabulary sizes, classes) -> Model       config.num_params(…), config.flops(…): without building it
    model(*inputs) = model.head(model.hidden(*inputs))     logits; `hidden` are the vectors that the output layer reads

A model that generates is a `Stepper` too: `start`, `step`, `reorder`.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar, cast, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.config import Family
from regard.nn.layout import Sequences

Shape = Literal["encoder", "decoder", "encoder-decoder", "vision", "vision-encoder-decoder"]


class ModelConfig(Family):
    """Base of the settings of all models. Arguments of `build`, `num_params` and `flops` depend on the shape.

    encoder, decoder          build(vocab, classes=None)                flops(batch, time, vocab, classes=None)
    encoder-decoder           build(source_vocab, target_vocab=None)    flops(batch, source, target, vocab)
    vision                    build(classes)                            flops(batch, classes)
    vision-encoder-decoder    build(vocab)                              flops(batch, target, vocab)
    """

    shape: ClassVar[str]
    """One of `Shape`: what goes in and what comes out."""
    if TYPE_CHECKING:
        width: int
        depth: int
        dropout: Any

    @property
    def longest(self) -> int | None:
        """The longest input in tokens, where positions or attention have such a limit."""
        return None

    @property
    def longest_target(self) -> int | None:
        """The longest generated sequence, whose last token is never an input."""
        return self.longest

    def build(self, *sizes: Any, **named: Any) -> "Model[Any]":  # noqa: ANN401
        raise NotImplementedError(f"{type(self).__name__} must build its model")

    def num_params(self, *sizes: Any, **named: Any) -> int:  # noqa: ANN401
        """Parameters of the built model; its arguments are those of `build`."""
        raise NotImplementedError(f"{type(self).__name__} must count its parameters")

    def flops(self, *sizes: Any, **named: Any) -> int:  # noqa: ANN401
        """Matmul FLOPs of one forward pass without padding; a training step costs three times as many."""
        raise NotImplementedError(f"{type(self).__name__} must count its FLOPs")


AnyConfig = TypeVar("AnyConfig", bound=ModelConfig)


@runtime_checkable
class DecodingState(Protocol):
    """What a model keeps of the tokens so far; each model has its own kind."""

    def reorder(self, rows: Int[Tensor, " rows"]) -> "DecodingState": ...


State = TypeVar("State", bound=DecodingState)


class Model(nn.Module, Generic[AnyConfig]):
    """Base of all models."""

    config: AnyConfig
    head: Any
    """Output layer: from `hidden` to logits over the vocabulary or the classes."""

    def forward(self, *inputs: Any, **named: Any) -> Tensor:  # noqa: ANN401
        """Logits."""
        raise NotImplementedError(f"{type(self).__name__} must compute its logits")

    def hidden(self, *inputs: Any, **named: Any) -> Float[Tensor, "batch time width"]:  # noqa: ANN401
        """The vectors that the output layer reads."""
        raise NotImplementedError(f"{type(self).__name__} must compute its vectors")


class GenerativeModel(Model[AnyConfig], Generic[AnyConfig, State]):
    """A model that decodes token by token: a `Stepper`, whose contract stands in stepper.py."""

    def start(self, source: Sequences | None, *, rows: int, capacity: int) -> State:
        raise NotImplementedError(f"{type(self).__name__} must start decoding")

    def step(
        self, tokens: Int[Tensor, "batch time"], state: State, lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[Float[Tensor, "batch time vocab"], State]:
        raise NotImplementedError(f"{type(self).__name__} must decode")

    def reorder(self, state: State, rows: Int[Tensor, " rows"]) -> State:
        return cast(State, state.reorder(rows))
