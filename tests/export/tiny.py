"""Tiny models with random weights and real vocabularies, to be sent away and fetched back."""

from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

from regard.config import Config
from regard.data.examples import Picture
from regard.export.exported_model import ExportedModel, HeldOut
from regard.export.images import ImageForm
from regard.models import (
    DecoderConfig,
    EncoderConfig,
    EncoderDecoderConfig,
    ModelConfig,
    VisionConfig,
    VisionEncoderDecoderConfig,
)
from regard.text.tokenizer import BpeConfig, Tokenizer

ENGLISH = ["The cat sleeps.", "A dog saw the cat!", "Where is the street?", "It was too tired, so it slept.", "No."]
GERMAN = ["Die Katze schläft.", "Ein Hund sah die Katze!", "Wo ist die Straße?", "Es war zu müde.", "Nein."]
ODD = ["", " ", "<eos> <pad>", "a\tb\n\nc", "naïve Größe 🙂👩‍👩‍👧", "…“”", "  two  spaces ", "\u202eabc", "0x1F", "İı"]

SMALL: dict[str, Any] = {"width": 32, "depth": 2, "heads": 4, "dropout": 0.0}
PAIRS = HeldOut(ENGLISH, GERMAN)
TEXTS = HeldOut(ENGLISH)


def tokenizer(texts: list[str], prefix_space: bool = True) -> Tokenizer:
    return Tokenizer.train(texts * 4, BpeConfig(size=300, prefix_space=prefix_space))


def randomised(model: nn.Module, seed: int = 0) -> nn.Module:
    """Random numbers everywhere, so that no gain of one and no bias of zero hides a mistake."""
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        noise = 0.2 * torch.randn(weight.shape, generator=generator)
        weight.data.copy_(noise if weight.dim() > 1 else weight.data + noise)
    return model.eval()


def pair(joint: bool = True, **settings: Any) -> ExportedModel:
    config = EncoderDecoderConfig(**{**SMALL, **settings})
    source = tokenizer(ENGLISH + GERMAN if joint else ENGLISH)
    target = source if joint else tokenizer(GERMAN)
    model = randomised(config.build(source.vocab_size, target.vocab_size))
    return ExportedModel(model, config, "translation", {"source": source, "target": target}, length=48)


def decoder(documents: bool = True, **settings: Any) -> ExportedModel:
    config = DecoderConfig(**{**SMALL, **settings})
    text = tokenizer(ENGLISH)
    return ExportedModel(
        randomised(config.build(text.vocab_size)), config, "language_model", {"text": text}, (), documents, 48
    )


def encoder(**settings: Any) -> ExportedModel:
    config, labels = EncoderConfig(**{**SMALL, **settings}), ("bad", "good", "odd")
    text = tokenizer(ENGLISH)
    model = randomised(config.build(text.vocab_size, len(labels)))
    return ExportedModel(model, config, "classification", {"text": text}, labels, length=48)


class _Holder(Config):
    model: ModelConfig


def baseline(kind: str, **settings: Any) -> Any:
    """The settings of a small model that is no Transformer."""
    return _Holder.from_tree({"model": {"kind": kind, "width": 16, "depth": 2, "dropout": 0.0, **settings}}).model


def baseline_pair(kind: str, **settings: Any) -> ExportedModel:
    config, text = baseline(kind, **settings), tokenizer(ENGLISH + GERMAN)
    model = randomised(config.build(text.vocab_size, text.vocab_size))
    return ExportedModel(model, config, "translation", {"source": text, "target": text}, length=48)


def baseline_decoder(kind: str, **settings: Any) -> ExportedModel:
    config, text = baseline(kind, **settings), tokenizer(ENGLISH)
    return ExportedModel(randomised(config.build(text.vocab_size)), config, "language_model", {"text": text}, length=48)


def baseline_encoder(kind: str, **settings: Any) -> ExportedModel:
    config, text, labels = baseline(kind, **settings), tokenizer(ENGLISH), ("bad", "good", "odd")
    model = randomised(config.build(text.vocab_size, len(labels)))
    return ExportedModel(model, config, "classification", {"text": text}, labels, length=48)


def tagger(**settings: Any) -> ExportedModel:
    config, text, labels = EncoderConfig(**{**SMALL, **settings}), tokenizer(ENGLISH), ("NOUN", "VERB", "OTHER")
    model = randomised(config.but(head={"kind": "token"}).build(text.vocab_size, len(labels)))
    return ExportedModel(model, config, "tagging", {"text": text}, labels, length=48)


def masked(**settings: Any) -> ExportedModel:
    config, text = EncoderConfig(**{**SMALL, **settings}), tokenizer(ENGLISH)
    model = randomised(config.build(text.vocab_size))
    return ExportedModel(model, config, "masked_language_model", {"text": text}, length=48)


def picture(seed: int, size: int = 8, channels: int = 3) -> Picture:
    shape = (size, size) if channels == 1 else (size, size, channels)
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    return Picture(Path(f"{seed}.png"), partial(encoded, pixels))


def encoded(pixels: Any) -> bytes:
    """An image file's bytes."""
    file = BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


IMAGE: dict[str, Any] = {**SMALL, "image": 8, "patch": 4}
PICTURES = HeldOut([], pictures=[picture(seed) for seed in range(4)])
DESCRIBED = HeldOut([], ENGLISH[:4], PICTURES.pictures)


def vision(channels: int = 3, resize: Any = "refuse", **settings: Any) -> ExportedModel:
    given = {"position": {"kind": "learned", "length": 5}, "head": None, **settings}
    config, labels = VisionConfig(**{**IMAGE, "channels": channels, **given}), ("cat", "dog", "street")
    form = ImageForm(8, channels, resize, (0.5,), (0.25,))
    return ExportedModel(
        randomised(config.build(len(labels))), config, "image_classification", {}, labels, length=48, images=form
    )


def describer(**settings: Any) -> ExportedModel:
    config, text = VisionEncoderDecoderConfig(**{**IMAGE, **settings}), tokenizer(ENGLISH)
    form = ImageForm(8, 3, "refuse", (0.5, 0.4, 0.3), (0.5, 0.6, 0.7))
    model = randomised(config.build(text.vocab_size))
    return ExportedModel(model, config, "image_description", {"target": text}, length=48, images=form)


BERT = {
    "norm_place": "after",
    "position": {"kind": "learned", "length": 64},
    "feedforward": {"kind": "plain", "activation": "gelu"},
    "norm": {"kind": "layer", "epsilon": 1e-12},
    "embedding": {"scale": False, "norm": True},
    "head": {"kind": "pooled", "pooling": "first", "hidden": 32},
}
T5 = {
    "position": {"kind": "t5", "buckets": 8, "farthest": 20},
    "norm": "rms",
    "attention": {"kind": "full", "bias": False, "scaled": False},
    "feedforward": {"kind": "plain", "bias": False},
    "embedding": {"scale": False},
    "head": {"kind": "vocabulary", "scale": True},
}
LLAMA = {
    "attention": {"kind": "full", "kv_heads": 2, "bias": False},
    "position": "rotary",
    "norm": "rms",
    "feedforward": "gated",
    "embedding": {"share": "none", "scale": False},
}
