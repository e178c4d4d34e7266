"""Images for vision models: the same trace, with patches in the place of words."""

import base64
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.look.generation import classes_tree
from regard.look.groups import group_trees
from regard.look.positions import positions_tree
from regard.look.reading import Reading
from regard.look.replay import Off, replay, without_heads
from regard.look.sentence import Sentence
from regard.look.tracing import VERSION
from regard.models import VisionTransformer

CLASS_TOKEN = "<class>"


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
    across = config.image // config.patch
    patches = [f"{row + 1},{column + 1}" for row in range(across) for column in range(across)]
    tokens = [CLASS_TOKEN, *patches] if config.class_token else patches
    sentence = Sentence(list(range(len(tokens))), tokens, list(range(len(tokens))), tokens)
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


def image_tree(image: Float[Tensor, "channels height width"], patch: int, class_token: bool) -> dict[str, Any]:
    """The pixels as bytes, red, green and blue by turns, and how they are cut."""
    colours = image.expand(3, -1, -1) if image.shape[0] == 1 else image[:3]
    pixels = (colours.detach().cpu().clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous()
    return {
        "size": image.shape[-1],
        "patch": patch,
        "class_token": class_token,
        "pixels": base64.b64encode(pixels.numpy().tobytes()).decode(),
    }
