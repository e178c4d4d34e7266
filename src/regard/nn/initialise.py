"""Initialisation schemes, of Transformers and of recurrent models."""

import math
from typing import Annotated, Literal

from pydantic import PositiveFloat
from torch import nn

from regard.config import BARE_KIND, BY_KIND, Config
from regard.nn.attention.heads import NarrowHeadProjection
from regard.nn.attention.module import Attention
from regard.nn.experts import Experts
from regard.nn.feedforward import FeedForward, GatedFeedForward
from regard.nn.recurrent import RecurrentLayer


class XavierConfig(Config):
    """Uniform, scaled by fan-in and fan-out; embeddings normal with deviation width^−½ (Vaswani 2017)."""

    kind: Literal["xavier"] = "xavier"
    gain: PositiveFloat = 1.0
    """Factor on every matrix."""

    def apply(self, model: nn.Module, depth: int) -> None:
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
    """Normal with one standard deviation; projections into the residual stream shrink with depth (GPT-2)."""

    kind: Literal["normal"] = "normal"
    deviation: PositiveFloat = 0.02
    """Standard deviation."""
    shrink: bool = True
    """Divide by √(2·depth) the matrices whose result is added to the residual stream."""

    def apply(self, model: nn.Module, depth: int) -> None:
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
    """The defaults of the torch modules."""

    kind: Literal["torch"] = "torch"

    def apply(self, model: nn.Module, depth: int) -> None:
        """Leaves everything as it is."""


def _into_stream(model: nn.Module) -> list[nn.Module]:
    """The linear layers whose output is added to the residual stream."""
    outputs: list[nn.Module] = [part.output for part in model.modules() if isinstance(part, Attention)]
    return outputs + [part.down for part in model.modules() if isinstance(part, FeedForward | GatedFeedForward)]


def _zero(bias: nn.Parameter | None) -> None:
    if bias is not None:
        nn.init.zeros_(bias)


InitialiseConfig = Annotated[XavierConfig | NormalConfig | KeepConfig, BY_KIND, BARE_KIND]


class RecurrentInitialise(Config):
    """Settings that the schemes of recurrent models share."""

    forget: float = 1.0
    """Bias of an LSTM's forget gate: above zero the cell is kept at first (Jozefowicz 2015)."""


class OrthogonalConfig(RecurrentInitialise):
    """Recurrent weights orthogonal per gate, which keeps norms; all other matrices Xavier."""

    kind: Literal["orthogonal"] = "orthogonal"

    def apply(self, model: nn.Module, depth: int) -> None:
        XavierConfig().apply(model, depth)
        for part in model.modules():
            if isinstance(part, RecurrentLayer):
                self._draw(part)
        zero_noisy_routers(model)

    def _draw(self, part: RecurrentLayer) -> None:
        for name, weight in part.kernel.named_parameters():
            for gate in weight.data.split(part.kernel.hidden_size):
                if name.startswith("weight_hh"):
                    nn.init.orthogonal_(gate)
                elif name.startswith("weight_ih"):
                    nn.init.xavier_uniform_(gate)
                else:
                    nn.init.zeros_(gate)
        remember(part, self.forget)


class UniformConfig(RecurrentInitialise):
    """Uniform in ±reach (Sutskever 2014: 0.08; GNMT: 0.04)."""

    kind: Literal["uniform"] = "uniform"
    reach: PositiveFloat = 0.08
    """Bound of the uniform distribution."""

    def apply(self, model: nn.Module, depth: int) -> None:
        for part in model.modules():
            if isinstance(part, nn.Linear | nn.Embedding | nn.RNNBase | Experts):
                for weight in part.parameters(recurse=False):
                    nn.init.uniform_(weight, -self.reach, self.reach)
        for part in model.modules():
            if isinstance(part, RecurrentLayer):
                remember(part, self.forget)
        zero_noisy_routers(model)


def remember(part: RecurrentLayer, forget: float) -> None:
    """Sets the bias of an LSTM's forget gates; torch keeps two, whose sum counts."""
    if part.cell != "lstm":
        return
    for name, bias in part.kernel.named_parameters():
        if name.startswith("bias"):
            gate = bias.data.split(part.kernel.hidden_size)[1]
            nn.init.constant_(gate, forget if name.startswith("bias_ih") else 0.0)


def zero_noisy_routers(model: nn.Module) -> None:
    """With noisy gating, routers start at zero, so that experts are balanced from the first step (Shazeer 2017)."""
    for part in model.modules():
        if isinstance(part, Experts) and part.noise is not None:
            nn.init.zeros_(part.router.weight)
            nn.init.zeros_(part.noise.weight)


RecurrentInitialiseConfig = Annotated[OrthogonalConfig | UniformConfig | KeepConfig, BY_KIND, BARE_KIND]
