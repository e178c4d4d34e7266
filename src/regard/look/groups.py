"""The attentions of a model in groups (encoder, decoder, cross), each a list of layers, with measures of every head."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.look.model_input import ModelInput
from regard.look.payload import (
    Group,
    GroupName,
    Layer,
    Measure,
    Steps,
    Vectors,
    pack_floats,
    pack_weights,
    rounded_rows,
)
from regard.look.replay import RecordedAttention, is_cross

Weights = Float[Tensor, "heads query key"]
STEP_BYTES = 400_000
"""Bytes of exact scores on a page; a longer text has them for some of its queries only."""
VECTOR_BYTES = 300_000
"""Bytes of queries, keys and values on a page; of wider heads the first dimensions are shown."""
FEWEST_DIMS = 4
"""Where not even so many dimensions fit, no vectors are shown."""
TITLES: dict[GroupName, str] = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Cross-attention",
}
Groups = dict[GroupName, list[RecordedAttention]]


def by_group(attentions: Sequence[RecordedAttention], inputs: ModelInput) -> Groups:
    """The attentions of each group, from the first layer to the last."""
    groups: Groups = {}
    for attention in attentions:
        groups.setdefault(group_of(attention.name, inputs), []).append(attention)
    return {name: groups[name] for name in TITLES if name in groups}


def group_of(name: str, inputs: ModelInput) -> GroupName:
    if is_cross(name):
        return "cross"
    if inputs.shape == "pair":
        return "encoder" if name.startswith("encoder") else "decoder"
    return "encoder" if inputs.target is None else "decoder"


def trace_groups(attentions: Sequence[RecordedAttention], inputs: ModelInput) -> list[Group]:
    groups = by_group(attentions, inputs)
    rollout = rollouts(groups)
    shapes = [attention.weights.shape for attention in attentions]
    queries = max(1, STEP_BYTES // max(1, sum(9 * heads * keys for heads, _, keys in shapes)))
    dims = VECTOR_BYTES // max(1, sum(4 * heads * (2 * keys + rows) for heads, rows, keys in shapes))
    return [
        Group(
            name=name,
            title=TITLES[name],
            queries="source" if name == "encoder" else "target",
            keys="target" if name == "decoder" else "source",
            layers=[trace_layer(attention, queries, dims) for attention in layers],
            rollout=[pack_weights(matrix) for matrix in rollout.get(name, [])],
        )
        for name, layers in groups.items()
    ]


def trace_layer(attention: RecordedAttention, queries: int, dims: int) -> Layer:
    """One layer, with exact scores of so many queries and so many dimensions of its vectors."""
    heads, count, keys = attention.weights.shape
    chosen = evenly(count, queries)
    scaled = attention.steps.scaled[0][:, chosen].expand(heads, -1, -1)
    allowed = attention.allowed.float()[:, chosen].expand(heads, -1, -1)
    layer = Layer(
        module=attention.name,
        heads=heads,
        queries=count,
        keys=keys,
        scale=attention.scale,
        weights=pack_weights(attention.weights),
        measures=measures(attention.weights),
        steps=Steps(
            queries=chosen,
            scores=pack_floats(attention.steps.scores[0][:, chosen]),
            scaled=pack_floats(scaled),
            allowed=pack_weights(allowed),
        ),
    )
    if vectors := attention.vectors:
        output = getattr(attention.module, "output", None)
        projection = output.weight if isinstance(output, nn.Linear) else None
        layer.norms = rounded_rows(value_norms(vectors["value"], projection))
        if dims >= FEWEST_DIMS:
            width = vectors["key"].shape[2]
            shown = min(dims, width)
            layer.vectors = Vectors(
                width=width,
                shown=shown,
                query=pack_floats(vectors["query"][:, chosen, :shown]),
                key=pack_floats(vectors["key"][..., :shown]),
                value=pack_floats(vectors["value"][..., :shown]),
            )
    return layer


def evenly(count: int, most: int) -> list[int]:
    """At most so many positions of a sequence, evenly spaced, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(step * (count - 1) / max(1, most - 1)) for step in range(most)}) if most > 1 else [count - 1]


def rollouts(groups: Groups) -> dict[GroupName, list[Tensor]]:
    """Attention rollout of each group; cross-attention is multiplied with the encoder's."""
    by_name: dict[GroupName, list[Tensor]] = {}
    for name in ("encoder", "decoder"):
        layers = [attention.weights for attention in groups.get(name, [])]
        if layers and all(weights.shape[1] == weights.shape[2] for weights in layers):
            by_name[name] = rollout(layers)
    encoder = by_name.get("encoder", [])
    cross = [attention.weights.mean(0) for attention in groups.get("cross", [])]
    if cross and (not encoder or cross[0].shape[1] == encoder[-1].shape[0]):
        by_name["cross"] = [weights @ encoder[-1] if encoder else weights for weights in cross]
    return by_name


def rollout(layers: list[Weights]) -> list[Float[Tensor, "query key"]]:
    """Attention rollout after each layer: half of every vector is the residual stream (Abnar and Zuidema 2020)."""
    products: list[Tensor] = []
    for weights in layers:
        mean = weights.mean(0)
        mixed = (mean + torch.eye(len(mean), device=mean.device)) / 2
        mixed = mixed / mixed.sum(-1, keepdim=True)
        products.append(mixed @ products[-1] if products else mixed)
    return products


def measures(weights: Weights) -> dict[Measure, list[float]]:
    """The numbers that the page sorts heads by."""
    values: dict[Measure, Tensor] = {"entropy": entropy(weights), "distance": distance(weights)}
    values |= {"previous": previous(weights), "alignment": alignment(weights)}
    return {name: [round(number, 5) for number in tensor.tolist()] for name, tensor in values.items()}


def entropy(weights: Weights) -> Float[Tensor, " heads"]:
    """Entropy of the weights in bits, mean over the queries: 0 for one key, log₂ n for n keys alike."""
    return torch.special.entr(weights.double()).sum(-1).mean(-1) / math.log(2)


def distance(weights: Weights) -> Float[Tensor, " heads"]:
    """Mean attention distance: the mean of |i − j| under the weights."""
    _, queries, keys = weights.shape
    distances = torch.arange(queries, device=weights.device)[:, None] - torch.arange(keys, device=weights.device)
    return (weights.double() * distances.abs()).sum(-1).mean(-1)


def previous(weights: Weights) -> Float[Tensor, " heads"]:
    """Mean weight on the token before the query."""
    diagonal = weights.double().diagonal(offset=-1, dim1=1, dim2=2)
    return diagonal.mean(-1) if diagonal.shape[-1] else diagonal.sum(-1)


def alignment(weights: Weights) -> Float[Tensor, " heads"]:
    """How one-to-one the weights are: Σ_j max_i α_ij over the length of the shorter side, at most 1."""
    _, queries, keys = weights.shape
    return (weights.double().amax(1).sum(-1) / min(queries, keys)).clamp(max=1)


def value_norms(values: Float[Tensor, "heads key head_width"], output: Tensor | None) -> Float[Tensor, "heads key"]:
    """‖v_j W_h‖: norm of the vector that a weight of one would add (Kobayashi et al. 2020)."""
    if output is None:
        return values.norm(dim=-1)
    heads, _, width = values.shape
    projections = output.unflatten(1, (heads, width))
    return torch.stack([(values[head] @ projections[:, head].T).norm(dim=-1) for head in range(heads)])
