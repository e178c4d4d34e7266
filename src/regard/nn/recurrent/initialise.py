"""Initialisation of recurrent models: memories that neither fade nor explode at the first step."""

from typing import Annotated, Literal

from pydantic import PositiveFloat
from torch import nn

from regard.config import BARE_KIND, BY_KIND, Config
from regard.nn.experts import Experts
from regard.nn.initialise import KeepConfig, XavierConfig
from regard.nn.recurrent.layers import Recurrence


class RecurrentInitialise(Config):
    """What the schemes of recurrent models share."""

    forget: float = 1.0
    """Bias of an LSTM's forget gate: above zero it remembers at first (Jozefowicz 2015)."""


class OrthogonalConfig(RecurrentInitialise):
    """From memory to memory an orthogonal matrix a gate, which keeps lengths; all other maps scaled by their size."""

    kind: Literal["orthogonal"] = "orthogonal"

    def apply(self, model: nn.Module, depth: int) -> None:
        """Draws all matrices anew."""
        XavierConfig().apply(model, depth)
        for part in model.modules():
            if isinstance(part, Recurrence):
                self._draw(part)
        zero_noisy_routers(model)

    def _draw(self, part: Recurrence) -> None:
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
    """Uniform in ±reach everywhere (Sutskever 2014: 0.08; GNMT: 0.04)."""

    kind: Literal["uniform"] = "uniform"
    reach: PositiveFloat = 0.08
    """Largest number drawn."""

    def apply(self, model: nn.Module, depth: int) -> None:
        """Draws all matrices and biases of maps and layers anew."""
        for part in model.modules():
            if isinstance(part, nn.Linear | nn.Embedding | nn.RNNBase | Experts):
                for weight in part.parameters(recurse=False):
                    nn.init.uniform_(weight, -self.reach, self.reach)
        for part in model.modules():
            if isinstance(part, Recurrence):
                remember(part, self.forget)
        zero_noisy_routers(model)


def remember(part: Recurrence, forget: float) -> None:
    """Sets the bias of an LSTM's forget gates; torch keeps two, whose sum counts."""
    if part.cell != "lstm":
        return
    for name, bias in part.kernel.named_parameters():
        if name.startswith("bias"):
            gate = bias.data.split(part.kernel.hidden_size)[1]
            nn.init.constant_(gate, forget if name.startswith("bias_ih") else 0.0)


def zero_noisy_routers(model: nn.Module) -> None:
    """Where noise picks the experts, routers start at zero: all are used evenly from the first step (Shazeer 2017)."""
    for part in model.modules():
        if isinstance(part, Experts) and part.noise is not None:
            nn.init.zeros_(part.router.weight)
            nn.init.zeros_(part.noise.weight)


RecurrentInitialiseConfig = Annotated[OrthogonalConfig | UniformConfig | KeepConfig, BY_KIND, BARE_KIND]
