"""The attentions of a model by what looks at what: encoder, decoder, cross; each a list of layers of heads."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from regard.look.encoding import pack_floats, pack_weights, rounded
from regard.look.measures import measures, rollout, value_norms
from regard.look.model_input import Reading
from regard.look.replay import Part, is_cross

STEP_BYTES = 400_000
"""How much of a page the exact scores may take; a longer text has them for some of its queries only."""
VECTOR_BYTES = 300_000
"""The same for queries, keys and values; wider heads then show the first numbers of each vector."""
FEWEST_DIMS = 4
"""Where not even so many numbers of each vector fit, none are shown."""
TITLES = {"encoder": "Encoder", "decoder": "Decoder", "cross": "Cross-attention"}


def by_group(parts: Sequence[Part], reading: Reading) -> dict[str, list[Part]]:
    """The parts of each group, from the first layer to the last."""
    found: dict[str, list[Part]] = {}
    for part in parts:
        found.setdefault(group_of(part.name, reading), []).append(part)
    return {name: found[name] for name in TITLES if name in found}


def group_of(name: str, reading: Reading) -> str:
    """Where an attention belongs: what looks across ends in `cross`, what the encoder does begins with `encoder`."""
    if is_cross(name):
        return "cross"
    if reading.shape == "pair":
        return "encoder" if name.startswith("encoder") else "decoder"
    return "encoder" if reading.target is None else "decoder"


def group_trees(parts: Sequence[Part], reading: Reading) -> list[dict[str, Any]]:
    """All groups for the page."""
    groups = by_group(parts, reading)
    queries = step_queries(parts)
    dims = vector_dims(parts)
    rolled = rollouts(groups)
    return [
        {
            "name": name,
            "title": TITLES[name],
            "queries": "source" if name == "encoder" else "target",
            "keys": "target" if name == "decoder" else "source",
            "layers": [layer_tree(part, queries, dims) for part in layers],
            "rollout": [pack_weights(matrix) for matrix in rolled.get(name, [])],
        }
        for name, layers in groups.items()
    ]


def layer_tree(part: Part, queries: int, dims: int) -> dict[str, Any]:
    """One layer: its heads' weights in 8 bits, their measures, and the numbers behind them."""
    heads, count, keys = part.weights.shape
    tree: dict[str, Any] = {
        "module": part.name,
        "heads": heads,
        "queries": count,
        "keys": keys,
        "scale": part.scale,
        "weights": pack_weights(part.weights),
        "measures": measures(part.weights),
        "steps": step_tree(part, queries),
    }
    if part.vectors:
        output = getattr(part.module, "output", None)
        weight = output.weight if isinstance(output, nn.Linear) else None
        tree["norms"] = rounded(value_norms(part.vectors["value"], weight))
    if part.vectors and dims >= FEWEST_DIMS:
        tree["vectors"] = vector_tree(part, queries, dims)
    return tree


def step_tree(part: Part, queries: int) -> dict[str, Any]:
    """Exact scores of some queries: before and after scaling, and which keys they may see."""
    chosen = evenly(part.weights.shape[1], queries)
    return {
        "queries": chosen,
        "scores": pack_floats(part.steps.scores[0][:, chosen]),
        "scaled": pack_floats(part.steps.scaled[0][:, chosen].expand(part.weights.shape[0], -1, -1)),
        "allowed": pack_weights(part.allowed.float()[:, chosen].expand(part.weights.shape[0], -1, -1)),
    }


def vector_tree(part: Part, queries: int, dims: int) -> dict[str, Any]:
    """The first numbers of each query, key and value."""
    chosen = evenly(part.weights.shape[1], queries)
    shown = min(dims, part.vectors["key"].shape[2])
    return {
        "width": part.vectors["key"].shape[2],
        "shown": shown,
        "query": pack_floats(part.vectors["query"][:, chosen, :shown]),
        "key": pack_floats(part.vectors["key"][..., :shown]),
        "value": pack_floats(part.vectors["value"][..., :shown]),
    }


def step_queries(parts: Sequence[Part]) -> int:
    """How many queries can have their exact scores on the page."""
    each = sum(9 * part.weights.shape[0] * part.weights.shape[2] for part in parts)
    return max(1, STEP_BYTES // max(1, each))


def vector_dims(parts: Sequence[Part]) -> int:
    """How many numbers of each vector fit on the page."""
    each = sum(4 * part.weights.shape[0] * (2 * part.weights.shape[2] + part.weights.shape[1]) for part in parts)
    return VECTOR_BYTES // max(1, each)


def evenly(count: int, most: int) -> list[int]:
    """At most so many places of a sequence, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(place * (count - 1) / max(1, most - 1)) for place in range(most)}) if most > 1 else [count - 1]


def rollouts(groups: dict[str, list[Part]]) -> dict[str, list[torch.Tensor]]:
    """Attention rolled out through the layers of each group; across, through what the encoder had mixed already."""
    found: dict[str, list[torch.Tensor]] = {}
    for name in ("encoder", "decoder"):
        layers = [part.weights for part in groups.get(name, [])]
        if layers and all(weights.shape[1] == weights.shape[2] for weights in layers):
            found[name] = rollout(layers)
    before = found.get("encoder", [])
    across = [part.weights.mean(0) for part in groups.get("cross", [])]
    if across and (not before or across[0].shape[1] == before[-1].shape[0]):
        found["cross"] = [weights @ before[-1] if before else weights for weights in across]
    return found
