"""Hugging Face layouts of models that read and do not write: BERT with its three heads, ViT."""

from typing import Any

from regard.data.special import BOS, EOS, PAD
from regard.export import mappings
from regard.export.layouts import TO_ACTIVATION, Layout, Sizes, activation, expect_settings
from regard.export.layouts_single import ADDED, LAYER_NORM
from regard.export.needs import WHOLE, Needs, even_heads

WITHOUT_HEAD: Needs = {path: wanted for path, wanted in WHOLE.items() if path != "head.transform"}


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
    expect_settings(given, {"position_embedding_type": "absolute", "is_decoder": False})
    epsilon = given.get("layer_norm_eps", 1e-12)
    bend = activation(given.get("hidden_act", "gelu"))
    return {
        "kind": "encoder",
        "width": given["hidden_size"],
        "depth": given["num_hidden_layers"],
        "heads": given["num_attention_heads"],
        "position": {"kind": "learned", "length": given.get("max_position_embeddings", 512)},
        "norm": {"kind": "layer", "epsilon": epsilon},
        "norm_place": "after",
        "feedforward": {"kind": "plain", "hidden": given["intermediate_size"], "activation": bend},
        "embedding": {"share": "all", "scale": False, "norm": True, "segments": given.get("type_vocab_size", 2)},
        "head": {"kind": "vocabulary", "bias": True, "transform": bend, "transform_epsilon": epsilon},
        "initialise": {"kind": "normal", "shrink": False},
    }


BERT = Layout(
    name="BERT",
    architecture="BertForMaskedLM",
    auto="AutoModelForMaskedLM",
    model_type="bert",
    shape="encoder",
    needs=lambda config: {
        **_bert_needs(config),
        "embedding.share": ("all", "output"),
        "head.kind": ("vocabulary",),
        "head.transform": (config.feedforward.activation if config.feedforward.kind == "plain" else "gelu",),
        "head.transform_epsilon": (getattr(config.norm, "epsilon", 1e-12),),
        "head.scale": (False,),
    },
    settings=_bert_settings,
    mapping=lambda config: mappings.bert(config.depth),
    read=_bert_read,
    learns_positions=True,
    renames=((r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias")),
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
    learns_positions=True,
    renames=BERT.renames,
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


def _vit_read(given: dict[str, Any]) -> dict[str, Any]:
    expect_settings(given, {"qkv_bias": True})
    image, patch = given.get("image_size", 224), given.get("patch_size", 16)
    return {
        "kind": "vision",
        "width": given["hidden_size"],
        "depth": given["num_hidden_layers"],
        "heads": given["num_attention_heads"],
        "image": image,
        "patch": patch,
        "channels": given.get("num_channels", 3),
        "position": {"kind": "learned", "length": (image // patch) ** 2 + 1},
        "norm": {"kind": "layer", "epsilon": given.get("layer_norm_eps", 1e-12)},
        "feedforward": {
            "kind": "plain",
            "hidden": given["intermediate_size"],
            "activation": activation(given.get("hidden_act", "gelu")),
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
