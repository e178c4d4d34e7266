"""Initialisation schemes: how large the random numbers are that training starts from."""

import math
from typing import Annotated, Literal

from pydantic import PositiveFloat
from torch import nn

from regard.config import BARE_KIND, BY_KIND, Config
from regard.nn.attention.heads import NarrowHeadProjection
from regard.nn.attention.module import Attention
from regard.nn.experts import Experts
from regard.nn.feedforward import FeedForward, GatedFeedForward


class XavierConfig(Config):
    """Uniform, scaled by fan-in and fan-out; embeddings normal with deviation width^−½ (Vaswani 2017)."""

    kind: Literal["xavier"] = "xavier"
    gain: PositiveFloat = 1.0
    """Factor on every matrix."""

    def apply(self, model: nn.Module, depth: int) -> None:
        """Draws all matrices anew."""
        for part in model.modules():
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight, self.gain)
                _zero(part.bias)
            elif isinstance(part, nn.Embedding):
                nn.init.normal_(part.weight, std=part.embedding_dim**-0.5)
            elif isinstance(part, NarrowHeadProjection | Experts):
                for matrix in part.matrices():
                    nn.init.xavier_uniform_(matrix, self.gain)


class NormalConfig(Config):
    """Normal with one deviation everywhere; what is added to the residual stream shrinks with depth (GPT-2)."""

    kind: Literal["normal"] = "normal"
    deviation: PositiveFloat = 0.02
    """Standard deviation."""
    shrink: bool = True
    """Divide by √(2·depth) the matrices whose result is added to the residual stream."""

    def apply(self, model: nn.Module, depth: int) -> None:
        """Draws all matrices anew."""
        into_stream = _into_stream(model) if self.shrink else []
        for part in model.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                added = any(part is other for other in into_stream)
                nn.init.normal_(part.weight, std=self.deviation / (math.sqrt(2 * depth) if added else 1))
                _zero(getattr(part, "bias", None))
            elif isinstance(part, NarrowHeadProjection):
                nn.init.normal_(part.weight, std=self.deviation)
            elif isinstance(part, Experts):
                nn.init.normal_(part.up, std=self.deviation)
                nn.init.normal_(part.down, std=self.deviation / (math.sqrt(2 * depth) if self.shrink else 1))


class KeepConfig(Config):
    """Whatever each torch module draws by itself."""

    kind: Literal["torch"] = "torch"

    def apply(self, model: nn.Module, depth: int) -> None:
        """Leaves everything as it is."""


def _into_stream(model: nn.Module) -> list[nn.Module]:
    """The maps whose result is added to the residual stream."""
    outputs: list[nn.Module] = [part.output for part in model.modules() if isinstance(part, Attention)]
    return outputs + [part.down for part in model.modules() if isinstance(part, FeedForward | GatedFeedForward)]


def _zero(bias: nn.Parameter | None) -> None:
    if bias is not None:
        nn.init.zeros_(bias)


InitialiseConfig = Annotated[XavierConfig | NormalConfig | KeepConfig, BY_KIND, BARE_KIND]
