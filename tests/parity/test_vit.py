"""The Vision Transformer beside Hugging Face's."""

import torch
from transformers import ViTConfig, ViTForImageClassification
from twins import Twins

from regard.export.huggingface.architectures import vit
from regard.models import VisionConfig, preset

IMAGE, PATCH, DEPTH, CLASSES = 12, 4, 2, 5
TOKENS = (IMAGE // PATCH) ** 2 + 1


def test_logits_and_gradients() -> None:
    small = {"width": 32, "depth": DEPTH, "heads": 4, "image": IMAGE, "patch": PATCH}
    positions = {"kind": "learned", "length": TOKENS}
    ours = VisionConfig(**{**preset("vit-tiny").model, **small, "position": positions})
    config = ViTConfig(
        hidden_size=32,
        intermediate_size=128,
        num_hidden_layers=DEPTH,
        num_attention_heads=4,
        image_size=IMAGE,
        patch_size=PATCH,
        num_labels=CLASSES,
        layer_norm_eps=1e-6,
        attn_implementation="eager",
    )
    both = Twins(ours.build(CLASSES), ViTForImageClassification(config), vit.parameter_names(DEPTH))
    images = torch.randn(3, 3, IMAGE, IMAGE, generator=torch.Generator().manual_seed(2))
    both.compare(both.ours(images), both.theirs(pixel_values=images).logits)


def test_the_preset_has_the_size_of_its_shape() -> None:
    known = preset("vit-tiny")
    shape = {"hidden_size": 192, "intermediate_size": 768, "num_attention_heads": 3, "num_labels": 1000}
    with torch.device("meta"):
        theirs = ViTForImageClassification(ViTConfig(**shape))
    assert VisionConfig(**known.model).num_params(**known.sizes) == sum(p.numel() for p in theirs.parameters())
