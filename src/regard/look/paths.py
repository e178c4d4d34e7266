"""How far information travels: steps between two tokens in this model, and how strongly one moves the other.

Two measurements on the real model. The graph: from the pairs that may attend, how many layers lie at least between two
tokens. The gradient: how much the last vector of one token changes with the input vector of another.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.look.encoding import pack_floats, rounded
from regard.look.groups import evenly
from regard.look.model_input import Reading, encoded
from regard.look.replay import Part, is_cross
from regard.nn.embedding import Embedding

QUERIES = 16
"""Tokens whose gradients are measured; each takes a backward pass."""
UNREACHED = -1


def paths_tree(model: nn.Module, reading: Reading, parts: Sequence[Part]) -> dict[str, Any]:
    """Both measurements on what the model reads (or, where it only writes, on what it writes)."""
    side = "source" if reading.source is not None else "target"
    own = [part for part in parts if not is_cross(part.name) and (side == "target" or _reads(part, reading))]
    attention = getattr(getattr(model, "config", None), "attention", None)
    tree: dict[str, Any] = {
        "side": side,
        "kind": str(getattr(model.config, "kind", "")),  # type: ignore[union-attr]
        "attention": str(getattr(attention, "kind", "none")) if own else "none",
        "reach": getattr(attention, "reach", None) if own else None,
        "layers": len(own),
    }
    if own and all(part.weights.shape[1] == part.weights.shape[2] for part in own):
        count = len((reading.source or reading.target).ids)  # type: ignore[union-attr]
        # Learned tokens in front of the sentence are ways through it, not ends of ways.
        tree["graph"] = layers_between([part.allowed.any(0) for part in own])[-count:, -count:].tolist()
    queries, rows = influence(model, reading)
    tree |= {"queries": queries, "influence": pack_floats(rows), "by_distance": rounded(by_distance(queries, rows), 6)}
    return tree


def _reads(part: Part, reading: Reading) -> bool:
    return part.name.startswith("encoder") or reading.shape != "pair"


def layers_between(allowed: Sequence[Tensor]) -> Tensor:
    """For each pair (query, key) the fewest layers from the key to the query; −1 where none lead there."""
    time = len(allowed[0])
    reached = torch.eye(time, dtype=torch.bool, device=allowed[0].device)
    found = torch.where(reached, 0, UNREACHED)
    for layer, pairs in enumerate(allowed, start=1):
        reached = reached | ((pairs.float() @ reached.float()) > 0)
        found = torch.where((found == UNREACHED) & reached, layer, found)
    return found.cpu()


def influence(model: nn.Module, reading: Reading) -> tuple[list[int], Tensor]:
    """‖∂(u·h_i)/∂x_j‖ for some tokens i and all j: the inputs' vectors x, the last ones h, a fixed direction u."""
    caught: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        caught.append(output.detach().requires_grad_())
        return caught[-1]

    hook = embedding_of(model).register_forward_hook(keep)
    try:
        with torch.enable_grad():
            last = _last_vectors(model, reading)
    finally:
        hook.remove()
    direction = torch.randn(last.shape[-1], generator=torch.Generator().manual_seed(0)).to(last)
    queries = evenly(last.shape[1], QUERIES)
    rows = []
    for query in queries:
        (gradient,) = torch.autograd.grad(last[0, query] @ direction, caught[0], retain_graph=True)
        rows.append(gradient[0].norm(dim=-1))
    return queries, torch.stack(rows).detach().cpu()


def _last_vectors(model: Any, reading: Reading) -> Tensor:  # noqa: ANN401
    said = encoded(model, reading.arguments[0]) if reading.shape == "pair" else None
    return model.hidden(*reading.arguments) if said is None else said


def embedding_of(model: nn.Module) -> nn.Module:
    """What turns the tokens that are read into vectors."""
    own = getattr(model, "source_embedding", None) or getattr(model, "embedding", None)
    return own if isinstance(own, nn.Module) else next(part for part in model.modules() if isinstance(part, Embedding))


def by_distance(queries: Sequence[int], rows: Tensor) -> Tensor:
    """The mean share of a row's influence at each distance |i − j|."""
    share = rows / rows.sum(-1, keepdim=True).clamp(min=1e-12)
    places = torch.arange(rows.shape[1])
    apart = torch.stack([(places - query).abs() for query in queries]).clamp(max=rows.shape[1] - 1)
    total, count = torch.zeros(rows.shape[1]), torch.zeros(rows.shape[1])
    total.scatter_add_(0, apart.flatten(), share.flatten())
    count.scatter_add_(0, apart.flatten(), torch.ones_like(share).flatten())
    return total / count.clamp(min=1)
