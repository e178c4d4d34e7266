"""Tiny models with random weights and real vocabularies, to be sent away and fetched back."""

from typing import Any

import torch
from torch import nn

from regard.data.tokenizer import BpeConfig, Tokenizer
from regard.export.subject import HeldOut, Subject
from regard.models import DecoderConfig, EncoderConfig, EncoderDecoderConfig

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


def pair(joint: bool = True, **settings: Any) -> Subject:
    config = EncoderDecoderConfig(**{**SMALL, **settings})
    source = tokenizer(ENGLISH + GERMAN if joint else ENGLISH)
    target = source if joint else tokenizer(GERMAN)
    model = randomised(config.build(source.vocab_size, target.vocab_size))
    return Subject(model, config, "translation", {"source": source, "target": target}, length=48)


def decoder(documents: bool = True, **settings: Any) -> Subject:
    config = DecoderConfig(**{**SMALL, **settings})
    text = tokenizer(ENGLISH)
    return Subject(
        randomised(config.build(text.vocab_size)), config, "language_model", {"text": text}, (), documents, 48
    )


def encoder(**settings: Any) -> Subject:
    config, labels = EncoderConfig(**{**SMALL, **settings}), ("bad", "good", "odd")
    text = tokenizer(ENGLISH)
    model = randomised(config.build(text.vocab_size, len(labels)))
    return Subject(model, config, "classification", {"text": text}, labels, length=48)


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
