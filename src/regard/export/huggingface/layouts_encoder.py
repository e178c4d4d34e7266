"""Hugging Face layouts of models that read and do not write: BERT with its three heads, ViT."""

from collections.abc import Mapping
from typing import Any

import torch

from regard.errors import ConfigError
from regard.export.huggingface import config_keys as library
from regard.export.huggingface import parameter_names as mappings
from regard.export.huggingface.layouts import TO_ACTIVATION, UNTIED, Ignored, Layout, Sizes, activation
from regard.export.huggingface.layouts_decoder import ADDED, LAYER_NORM
from regard.export.needs import WHOLE, Needs, even_heads
from regard.text.special_tokens import BOS, EOS, PAD

WITHOUT_HEAD: Needs = {path: wanted for path, wanted in WHOLE.items() if path != "head.transform"}


BERT_IGNORED = (
    Ignored(
        r"(^|\.)embeddings\.position_ids$",
        "the numbers of the positions",
        lambda tensor, settings: bool((tensor.flatten() == torch.arange(tensor.numel())).all()),
    ),
)
POOLER = r"(^|\.)pooler\.dense\.(weight|bias)$"


def _bert_needs(config: Any) -> Needs:  # noqa: ANN401
    return {
        **WITHOUT_HEAD,
        **LAYER_NORM,
        **ADDED,
        **even_heads(config),
        "norm_place": ("after",),
        "final_norm": (False,),
        "attention.scaled": (True,),
        "position.kind": ("learned", "sinusoidal"),
        "feedforward.kind": ("plain",),
        "embedding.norm": (True,),
        "embedding.scale": (False,),
    }


def _labels(labels: tuple[str, ...] | Any) -> dict[str, Any]:  # noqa: ANN401
    numbered = dict(enumerate(labels))
    return {"id2label": numbered, "label2id": {label: number for number, label in numbered.items()}} if labels else {}


def _bert_settings(config: Any, sizes: Sizes) -> dict[str, Any]:  # noqa: ANN401
    return {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "vocab_size": sizes.vocab,
        "hidden_size": config.width,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "intermediate_size": config.feedforward.hidden_of(config.width),
        "hidden_act": TO_ACTIVATION[config.feedforward.activation],
        "max_position_embeddings": config.position.length,
        "type_vocab_size": config.embedding.segments or 1,
        "layer_norm_eps": config.norm.epsilon,
        **_labels(sizes.labels),
    }


def _bert_read(given: dict[str, Any]) -> dict[str, Any]:
    epsilon, tied = given["layer_norm_eps"], given["tie_word_embeddings"] and not given[UNTIED]
    kind = activation(given["hidden_act"])
    return {
        "kind": "encoder",
        "width": given["hidden_size"],
        "depth": given["num_hidden_layers"],
        "heads": given["num_attention_heads"],
        "position": {"kind": "learned", "length": given["max_position_embeddings"]},
        "norm": {"kind": "layer", "epsilon": epsilon},
        "norm_place": "after",
        "feedforward": {"kind": "plain", "hidden": given["intermediate_size"], "activation": kind},
        "embedding": {
            "share": "all" if tied else "none",
            "scale": False,
            "norm": True,
            "segments": given["type_vocab_size"],
        },
        "head": {"kind": "vocabulary", "bias": True, "transform": kind, "transform_epsilon": epsilon},
        "initialise": {"kind": "normal", "shrink": False},
    }


BERT_TIES = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
BERT = Layout(
    name="BERT",
    architecture="BertForMaskedLM",
    auto="AutoModelForMaskedLM",
    model_type="bert",
    shape="encoder",
    needs=lambda config: {
        **_bert_needs(config),
        "head.kind": ("vocabulary",),
        "head.transform": (config.feedforward.activation if config.feedforward.kind == "plain" else "gelu",),
        "head.transform_epsilon": (getattr(config.norm, "epsilon", 1e-12),),
        "head.scale": (False,),
    },
    settings=lambda config, sizes: {
        **_bert_settings(config, sizes),
        "tie_word_embeddings": config.embedding.shares_output,
    },
    mapping=lambda config: mappings.bert(config.depth, tied=config.embedding.shares_output),
    read=_bert_read,
    keys=library.BERT,
    learns_positions=True,
    renames=((r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias")),
    ties=lambda settings: BERT_TIES if settings["tie_word_embeddings"] else {},
    output=tuple(BERT_TIES),
    idle=("cls.predictions.bias",),
    ignored=(
        *BERT_IGNORED,
        Ignored(POOLER, "the pooling of the first token, which hidden words are not guessed with"),
        Ignored(r"^cls\.seq_relationship\.(weight|bias)$", "the guess of the next sentence, of pre-training only"),
    ),
    prefix="bert.",
    heads=("cls.",),
)

BERT_CLASSIFIER = Layout(
    name="BERT",
    architecture="BertForSequenceClassification",
    auto="AutoModelForSequenceClassification",
    model_type="bert",
    shape="encoder",
    needs=lambda config: {
        **_bert_needs(config),
        "head.kind": ("pooled",),
        "head.pooling": ("first",),
        "head.hidden": (config.width,),
    },
    settings=_bert_settings,
    mapping=lambda config: mappings.bert_classifier(config.depth),
    read=lambda given: {
        **_bert_read(given),
        "head": {"kind": "pooled", "pooling": "first", "hidden": given["hidden_size"]},
    },
    keys=library.BERT_CLASSIFIER,
    learns_positions=True,
    renames=BERT.renames,
    ignored=BERT_IGNORED,
    prefix="bert.",
    heads=("classifier.",),
)

BERT_TAGGER = Layout(
    name="BERT",
    architecture="BertForTokenClassification",
    auto="AutoModelForTokenClassification",
    model_type="bert",
    shape="encoder",
    needs=lambda config: {**_bert_needs(config), "head.kind": ("token",)},
    settings=_bert_settings,
    mapping=lambda config: mappings.bert_tagger(config.depth),
    read=lambda given: {**_bert_read(given), "head": {"kind": "token"}},
    keys=library.BERT_CLASSIFIER,
    learns_positions=True,
    renames=BERT.renames,
)


def _vit_settings(config: Any, sizes: Sizes) -> dict[str, Any]:  # noqa: ANN401
    return {
        "hidden_size": config.width,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "intermediate_size": config.feedforward.hidden_of(config.width),
        "hidden_act": TO_ACTIVATION[config.feedforward.activation],
        "layer_norm_eps": config.norm.epsilon,
        "image_size": config.image,
        "patch_size": config.patch,
        "num_channels": config.channels,
        **_labels(sizes.labels),
    }


def _side(given: Mapping[str, Any], name: str) -> int:
    """The side of a square."""
    value = given[name]
    if isinstance(value, list) and len(value) == 2 and value[0] == value[1]:
        value = value[0]
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(name, f"expected the side of a square in pixels, got {given[name]!r}")
    return value


def _vit_read(given: dict[str, Any]) -> dict[str, Any]:
    image, patch = (_side(given, name) for name in ("image_size", "patch_size"))
    return {
        "kind": "vision",
        "width": given["hidden_size"],
        "depth": given["num_hidden_layers"],
        "heads": given["num_attention_heads"],
        "image": image,
        "patch": patch,
        "channels": given["num_channels"],
        "position": {"kind": "learned", "length": (image // patch) ** 2 + 1},
        "norm": {"kind": "layer", "epsilon": given["layer_norm_eps"]},
        "feedforward": {
            "kind": "plain",
            "hidden": given["intermediate_size"],
            "activation": activation(given["hidden_act"]),
        },
        "initialise": {"kind": "normal", "shrink": False},
    }


VIT = Layout(
    name="ViT",
    architecture="ViTForImageClassification",
    auto="AutoModelForImageClassification",
    model_type="vit",
    shape="vision",
    needs=lambda config: {
        **WITHOUT_HEAD,
        **LAYER_NORM,
        **ADDED,
        **even_heads(config),
        "norm_place": ("before",),
        "final_norm": (True,),
        "attention.scaled": (True,),
        "class_token": (True,),
        "position.kind": ("learned",),
        "position.length": (config.tokens,),
        "feedforward.kind": ("plain",),
        "head.pooling": ("first",),
        "head.hidden": (None,),
    },
    settings=_vit_settings,
    mapping=lambda config: mappings.vit(config.depth),
    read=_vit_read,
    keys=library.VIT,
    ignored=(
        Ignored(POOLER, "a pooling of the first token, which images are not classified with"),
        Ignored(r"(^|\.)embeddings\.mask_token$", "the token of hidden patches, of pre-training only"),
    ),
    prefix="vit.",
    heads=("classifier.",),
    renames=(
        (r"^vit\.encoder\.layer\.", "vit.layers."),
        (r"\.attention\.attention\.(query|key|value)\.", r".attention.\1."),
        (r"\.attention\.query\.", ".attention.q_proj."),
        (r"\.attention\.key\.", ".attention.k_proj."),
        (r"\.attention\.value\.", ".attention.v_proj."),
        (r"\.attention\.output\.dense\.", ".attention.o_proj."),
        (r"\.intermediate\.dense\.", ".mlp.fc1."),
        (r"\.output\.dense\.", ".mlp.fc2."),
    ),
)

READERS = (BERT, BERT_CLASSIFIER, VIT)
