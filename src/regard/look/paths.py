"""How far information travels: layers between two tokens, and the influence of one on another.

The graph: from the pairs that may attend, the fewest layers between two tokens. The gradient: how much the last hidden
vector of one token changes with the input vector of another.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.look.groups import evenly
from regard.look.model_input import ModelInput, encoder_output
from regard.look.payload import Paths, pack_floats, rounded
from regard.look.replay import RecordedAttention, is_cross
from regard.nn.embedding import Embedding
from regard.tasks.contract import config_of, sequences, token_model

QUERIES = 16
"""Tokens whose gradients are computed; each takes a backward pass."""
UNREACHED = -1


def trace_paths(model: nn.Module, inputs: ModelInput, attentions: Sequence[RecordedAttention]) -> Paths:
    """Both measurements on the source, or on the target of a language model."""
    config = config_of(model)
    side = "source" if inputs.source is not None else "target"
    layers = [part for part in attentions if not is_cross(part.name) and (side == "target" or _reads(part, inputs))]
    attention = getattr(config, "attention", None) if layers else None
    queries, gradients = influence(model, inputs)
    paths = Paths(
        side=side,
        kind=config.kind,
        attention=str(getattr(attention, "kind", "none")),
        reach=getattr(attention, "reach", None),
        layers=len(layers),
        queries=queries,
        influence=pack_floats(gradients),
        by_distance=rounded(by_distance(queries, gradients), 6),
    )
    if layers and all(part.weights.shape[1] == part.weights.shape[2] for part in layers):
        count = len(inputs.read.ids)
        # Learned tokens before the sentence connect positions, but are not positions of it.
        paths.graph = layers_between([part.allowed.any(0) for part in layers])[-count:, -count:].tolist()
    return paths


def _reads(attention: RecordedAttention, inputs: ModelInput) -> bool:
    return attention.name.startswith("encoder") or inputs.shape != "pair"


def layers_between(allowed: Sequence[Tensor]) -> Tensor:
    """For each pair (query, key) the fewest layers from the key to the query; −1 where none lead there."""
    time = len(allowed[0])
    reached = torch.eye(time, dtype=torch.bool, device=allowed[0].device)
    layers = torch.where(reached, 0, UNREACHED)
    for layer, pairs in enumerate(allowed, start=1):
        reached = reached | ((pairs.float() @ reached.float()) > 0)
        layers = torch.where((layers == UNREACHED) & reached, layer, layers)
    return layers.cpu()


def influence(model: nn.Module, inputs: ModelInput) -> tuple[list[int], Tensor]:
    """‖∂(u·h_i)/∂x_j‖ for some tokens i and all j: input vectors x, last hidden vectors h, a fixed direction u."""
    embedded: list[Tensor] = []

    def record(_module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        embedded.append(output.detach().requires_grad_())
        return embedded[-1]

    hook = embedding_of(model).register_forward_hook(record)
    try:
        with torch.enable_grad():
            hidden = _last_hidden(model, inputs)
    finally:
        hook.remove()
    direction = torch.randn(hidden.shape[-1], generator=torch.Generator().manual_seed(0)).to(hidden)
    queries = evenly(hidden.shape[1], QUERIES)
    rows = []
    for query in queries:
        (gradient,) = torch.autograd.grad(hidden[0, query] @ direction, embedded[0], retain_graph=True)
        rows.append(gradient[0].norm(dim=-1))
    return queries, torch.stack(rows).detach().cpu()


def _last_hidden(model: nn.Module, inputs: ModelInput) -> Tensor:
    hidden = encoder_output(model, sequences(inputs.arguments[0])) if inputs.shape == "pair" else None
    return token_model(model).hidden(*inputs.arguments) if hidden is None else hidden


def embedding_of(model: nn.Module) -> nn.Module:
    """The embedding of the input tokens."""
    module = getattr(model, "source_embedding", None) or getattr(model, "embedding", None)
    if isinstance(module, nn.Module):
        return module
    return next(part for part in model.modules() if isinstance(part, Embedding))


def by_distance(queries: Sequence[int], rows: Tensor) -> Tensor:
    """The mean share of a row's influence at each distance |i − j|."""
    share = rows / rows.sum(-1, keepdim=True).clamp(min=1e-12)
    positions = torch.arange(rows.shape[1])
    distance = torch.stack([(positions - query).abs() for query in queries]).clamp(max=rows.shape[1] - 1)
    total, count = torch.zeros(rows.shape[1]), torch.zeros(rows.shape[1])
    total.scatter_add_(0, distance.flatten(), share.flatten())
    count.scatter_add_(0, distance.flatten(), torch.ones_like(share).flatten())
    return total / count.clamp(min=1)
