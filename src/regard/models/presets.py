"""Published models by name: settings that a recipe can start from."""

from dataclasses import dataclass, field
from typing import Any

from regard.errors import ConfigError, nearest


@dataclass(frozen=True)
class Preset:
    """A published model: its settings and sizes."""

    about: str
    model: dict[str, Any]
    sizes: dict[str, int]
    """What `num_params` takes beside the settings: vocabulary or classes."""
    work: dict[str, int] = field(default_factory=dict)
    """A typical forward pass, as `flops` takes it."""


_VASWANI: dict[str, Any] = {
    "kind": "encoder-decoder",
    "depth": 6,
    "position": {"kind": "sinusoidal"},
    "norm_place": "after",
    "embedding": {"share": "all", "scale": True},
}
_PAIR = {"batch": 1, "source": 128, "target": 128, "vocab": 37000}

PRESETS: dict[str, Preset] = {
    "transformer-base": Preset(
        "Vaswani 2017, base",
        {**_VASWANI, "width": 512, "heads": 8, "dropout": 0.1},
        {"source_vocab": 37000},
        _PAIR,
    ),
    "transformer-big": Preset(
        "Vaswani 2017, big",
        {**_VASWANI, "width": 1024, "heads": 16, "dropout": 0.3},
        {"source_vocab": 37000},
        _PAIR,
    ),
    "gpt2-124m": Preset(
        "GPT-2 small (Radford 2019)",
        {
            "kind": "decoder",
            "width": 768,
            "depth": 12,
            "heads": 12,
            "position": {"kind": "learned", "length": 1024},
            "feedforward": {"kind": "plain", "activation": "gelu-tanh"},
            "embedding": {"share": "all", "scale": False},
            "initialise": {"kind": "normal"},
            "dropout": 0.1,
        },
        {"vocab": 50257},
        {"batch": 1, "time": 1024, "vocab": 50257},
    ),
    "bert-base": Preset(
        "BERT base (Devlin 2019)",
        {
            "kind": "encoder",
            "width": 768,
            "depth": 12,
            "heads": 12,
            "position": {"kind": "learned", "length": 512},
            "norm": {"kind": "layer", "epsilon": 1e-12},
            "norm_place": "after",
            "feedforward": {"kind": "plain", "activation": "gelu"},
            "embedding": {"share": "all", "scale": False, "norm": True, "segments": 2},
            "head": {"kind": "vocabulary", "bias": True, "transform": "gelu", "transform_epsilon": 1e-12},
            "initialise": {"kind": "normal", "shrink": False},
            "dropout": {"embedding": 0.1, "residual": 0.1, "attention": 0.1},
        },
        {"vocab": 30522},
        {"batch": 1, "time": 512, "vocab": 30522},
    ),
    "t5-small": Preset(
        "T5 small (Raffel 2020)",
        {
            "kind": "encoder-decoder",
            "width": 512,
            "depth": 6,
            "heads": 8,
            "position": {"kind": "t5"},
            "norm": {"kind": "rms", "epsilon": 1e-6},
            "attention": {"kind": "full", "bias": False, "scaled": False},
            "feedforward": {"kind": "plain", "bias": False},
            "embedding": {"share": "all", "scale": False},
            "head": {"kind": "vocabulary", "scale": True},
            "dropout": {"embedding": 0.1, "residual": 0.1, "attention": 0.1, "feedforward": 0.1},
        },
        {"source_vocab": 32128},
        {"batch": 1, "source": 512, "target": 128, "vocab": 32128},
    ),
    "llama-small": Preset(
        "Llama's parts at the size of a GPT-2 (Touvron 2023)",
        {
            "kind": "decoder",
            "width": 768,
            "depth": 12,
            "heads": 12,
            "attention": {"kind": "full", "kv_heads": 4, "bias": False},
            "position": {"kind": "rotary"},
            "norm": {"kind": "rms"},
            "feedforward": {"kind": "gated", "hidden": 2048},
            "embedding": {"share": "none", "scale": False},
            "initialise": {"kind": "normal"},
            "dropout": 0.0,
        },
        {"vocab": 32000},
        {"batch": 1, "time": 1024, "vocab": 32000},
    ),
    "vit-tiny": Preset(
        "ViT tiny, 16 × 16 patches of 224 × 224 images (Touvron 2021)",
        {
            "kind": "vision",
            "width": 192,
            "depth": 12,
            "heads": 3,
            "image": 224,
            "patch": 16,
            "position": {"kind": "learned", "length": 197},
            "norm": {"kind": "layer", "epsilon": 1e-6},
            "feedforward": {"kind": "plain", "activation": "gelu"},
            "initialise": {"kind": "normal", "shrink": False},
            "dropout": 0.0,
        },
        {"classes": 1000},
        {"batch": 1, "classes": 1000},
    ),
}


def preset(name: str) -> Preset:
    if name not in PRESETS:
        raise ConfigError("model.preset", f"unknown preset '{name}'; {nearest(name, PRESETS)}")
    return PRESETS[name]
