"""An image and a vision model without a task: the same trace, with patches in the place of words."""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from regard.look.generation import classes_tree
from regard.look.groups import group_trees
from regard.look.image_input import image_tree, patch_sentence
from regard.look.model_input import Reading
from regard.look.positions import positions_tree
from regard.look.replay import Off, replay, without_heads
from regard.look.trace import VERSION
from regard.models import VisionTransformer


def trace_image(
    model: VisionTransformer,
    image: Float[Tensor, "channels height width"],
    labels: Sequence[str] = (),
    *,
    name: str = "",
    step: int | None = None,
    off: Off = (),
) -> dict[str, Any]:
    """Everything the page shows of one image; pixels are between zero and one."""
    config = model.config
    device = next(model.parameters()).device
    sentence = patch_sentence(config)
    reading = Reading("label", (image[None].to(device),), sentence, None)
    with without_heads(model, off):
        scores, parts = replay(model, reading.arguments)
    return {
        "version": VERSION,
        "about": {
            "run": name, "step": step, "task": "Image", "kind": config.kind, "width": config.width,
            "depth": config.depth, "heads": config.heads, "attention": config.attention.kind,
            "position": config.position.kind, "parameters": sum(part.numel() for part in model.parameters()),
            "attends": True,
        },
        "text": "", "target": None, "output": "", "shape": "label", "given": 1,
        "sentences": {"source": sentence.tree(), "target": None},
        "image": image_tree(image, config.patch, config.class_token),
        "groups": group_trees(parts, reading),
        "options": {},
        "generation": {"classes": classes_tree(scores, list(labels))},
        "positions": positions_tree(model, parts),
        "shuffles": [], "paths": None, "coreference": None, "snapshots": [],
    }  # fmt: skip
