"""What a model's position kind does, in numbers: vectors by place, products and biases by distance."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.look.encoding import pack_signed, rounded
from regard.look.replay import Part, is_cross
from regard.nn.position import Learned, Position, Rotary, Sinusoidal, TreePosition
from regard.nn.position.absolute import Absolute

PLACES = 64
"""How many places are drawn, where the kind itself sets no limit."""
NUMBERS = 128
"""Most numbers of each place's vector that are drawn."""

ABOUT = {
    "none": "No positions at all: apart from what may see what, the model sees a bag of words.",
    "sinusoidal": "Fixed waves of growing length are added to the inputs; each place has a pattern of its own.",
    "learned": "Each place has a vector that was learnt and is added to the inputs.",
    "relative": "Learned vectors by clipped distance act on keys and values; what they add to the scores is shown.",
    "rotary": "Queries and keys are turned by angles that grow with the place, so their product knows the distance.",
    "t5": "A learned bias for each head and bucket of distances is added to the scores.",
    "alibi": "A fixed penalty that grows with the distance is taken off the scores, steeper in some heads.",
    "tree": "Depth in the dependency tree is added to the inputs, distance in it to the scores.",
}


def positions_tree(model: nn.Module, parts: Sequence[Part]) -> dict[str, Any]:
    """The position kind of the model's first stack, with what it computes."""
    found = next((part for part in model.modules() if isinstance(part, Position) and type(part) is not Position), None)
    kind = kind_of(model)
    tree: dict[str, Any] = {"kind": kind, "about": ABOUT.get(kind, "This kind of model reads its tokens one by one.")}
    if isinstance(found, Absolute):
        tree |= vectors_tree(found)
    elif isinstance(found, Rotary):
        tree |= rotation_tree(found)
    elif isinstance(found, TreePosition) or found is not None:
        tree |= bias_tree(parts)
    return tree


def kind_of(model: nn.Module) -> str:
    """The position kind's name in the recipe; a model whose order is in its wiring has none."""
    position = getattr(getattr(model, "config", None), "position", None)
    return str(getattr(position, "kind", "order"))


@torch.no_grad()
def vectors_tree(position: Absolute) -> dict[str, Any]:
    """Vectors by place, how alike the places are, and the products by offset."""
    count = min(PLACES, position.table.num_embeddings) if isinstance(position, Learned) else PLACES
    device = position.table.weight.device if isinstance(position, Learned) else None
    vectors = position.vectors(torch.arange(count, device=device)[None])[0].float().cpu()
    unit = vectors / vectors.norm(dim=-1, keepdim=True).clamp(min=1e-9)
    products = vectors @ vectors.T
    return {
        "places": count,
        "numbers": min(NUMBERS, vectors.shape[1]),
        "vectors": pack_signed(vectors[:, :NUMBERS]),
        "similarity": pack_signed(unit @ unit.T),
        "by_offset": rounded(by_offset(products)),
        "formula": "sin/cos" if isinstance(position, Sinusoidal) else "learned",
    }


def rotation_tree(position: Rotary) -> dict[str, Any]:
    """The angle of each pair of numbers per place, and what turning does to a product by distance."""
    pairs = torch.arange(0, position.turned, 2, dtype=torch.float32)
    speed = position.theta ** (-pairs / position.turned)
    offsets = torch.arange(-PLACES + 1, PLACES, dtype=torch.float32)
    return {
        "speeds": rounded(speed, 6),
        "by_offset": rounded((offsets[:, None] * speed).cos().mean(-1)),
        "places": PLACES,
    }


def bias_tree(parts: Sequence[Part]) -> dict[str, Any]:
    """What positions added to the scores in this very pass, by distance, for each head of each first layer."""
    stacks: dict[str, Part] = {}
    for part in parts:
        if not is_cross(part.name) and part.weights.shape[1] == part.weights.shape[2]:
            stacks.setdefault(part.name.partition(".")[0], part)
    return {"bias": [{"module": part.name, "heads": rounded(added(part), 4)} for part in stacks.values()]}


def added(part: Part) -> Tensor:
    """Mean over all pairs of one offset j − i of what was added to the scaled score; (heads, 2·time − 1)."""
    bias = (part.steps.scaled - part.steps.scores * part.scale)[0].float()
    return torch.stack([by_offset(head) for head in bias])


def by_offset(matrix: Tensor) -> Tensor:
    """The mean of each diagonal, from the lowest (j − i = −(time − 1)) to the highest."""
    time = len(matrix)
    return torch.stack([matrix.diagonal(offset).mean() for offset in range(1 - time, time)])
