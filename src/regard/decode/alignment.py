"""Which source token each target token came from, as the attention of any model to its source tells it."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.nn.attention.module import record_attention
from regard.nn.layout import Sequences

TO_THE_SOURCE = "cross"
"""The name under which every kind of model keeps its attention to the source."""


@torch.no_grad()
def alignment(
    models: Sequence[nn.Module], source: Sequences, target: Sequences
) -> Float[Tensor, "batch target source"]:
    """The attention of each target place to the source, mean over models, layers and heads.

    Row i is what the model looked at when it read target token i, that is, while choosing the one after it.
    """
    rows = [weights for model in models for weights in _cross_weights(model, source, target)]
    if not rows:
        kinds = ", ".join(sorted({model.config.kind for model in models}))  # type: ignore[union-attr]
        raise ConfigError("model.kind", f"no attention to the source to follow in {kinds}; use a kind that has it")
    return torch.stack(rows).mean(0)


def _cross_weights(
    model: nn.Module, source: Sequences, target: Sequences
) -> list[Float[Tensor, "batch target source"]]:
    with record_attention(model) as seen:
        model.hidden(source, target)  # type: ignore[operator]
    return [
        steps[-1].weights.float().mean(1)
        for name, steps in seen.items()
        if name.split(".")[-1] == TO_THE_SOURCE and steps
    ]
