"""BERT with its three heads: masked language model, classifier, tagger (which is exported only)."""

import torch

from regard.export.huggingface.architecture import (
    INITIALISATION,
    OTHER_HEAD,
    RECORD,
    SPEED,
    TRAINING,
    Architecture,
    Ignored,
    Sizes,
    base_keys,
    our_activation,
)
from regard.export.huggingface.architectures.gpt import ADDED_POSITIONS, LAYER_NORM, SPECIAL, shared_embedding
from regard.export.huggingface.config_keys import Json, honoured, irrelevant, refused
from regard.export.huggingface.parameter_names import (
    ParameterNames,
    TensorView,
    attention,
    layers,
    linear,
    norm,
    prefixed,
)
from regard.export.supported_settings import STANDARD, Supported, setting, standard_heads
from regard.models import EncoderConfig

BERT_KEYS = (
    honoured(
        vocab_size=30522,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        hidden_act="gelu",
        max_position_embeddings=512,
        type_vocab_size=2,
        layer_norm_eps=1e-12,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
    )
    | irrelevant(TRAINING, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, classifier_dropout=None)
    | irrelevant(INITIALISATION, initializer_range=0.02)
    | irrelevant(SPEED, use_cache=True)
    | irrelevant(
        RECORD,
        *("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers"),
        *("pooler_size_per_head", "pooler_type"),
    )
    | refused("position_embedding_type", "absolute")
    | refused("is_decoder", False, default=False)
    | refused("add_cross_attention", False, default=False)
)
KEYS = base_keys("bert") | BERT_KEYS | honoured(tie_word_embeddings=True)
LABEL_KEYS = (
    base_keys("bert", labels=True, several_labels=True) | BERT_KEYS | irrelevant(OTHER_HEAD, tie_word_embeddings=True)
)


def encoder_names(depth: int) -> ParameterNames:
    """`BertModel` and `BigBirdModel` without their pooler."""
    block = {
        **prefixed("attention", "attention", attention("self.query self.key self.value output.dense")),
        **norm("around_attention.norm", "attention.output.LayerNorm"),
        **linear("feedforward.up", "intermediate.dense"),
        **linear("feedforward.down", "output.dense"),
        **norm("around_feedforward.norm", "output.LayerNorm"),
    }
    return {
        "embedding.table.weight": TensorView("embeddings.word_embeddings.weight"),
        "embedding.segments.weight": TensorView("embeddings.token_type_embeddings.weight"),
        "stack.positions.0.table.weight": TensorView("embeddings.position_embeddings.weight"),
        **norm("stack.input_norm", "embeddings.LayerNorm"),
        **layers(depth, "stack.blocks", "encoder.layer", block),
    }


def masked_lm_names(depth: int, *, tied: bool = True) -> ParameterNames:
    """`BertForMaskedLM`, `BigBirdForMaskedLM`."""
    untied = {
        "head.linear.weight": TensorView("cls.predictions.decoder.weight"),
        "head.bias": TensorView("cls.predictions.decoder.bias"),
    }
    return {
        **prefixed("", "bert", encoder_names(depth)),
        **linear("head.transform", "cls.predictions.transform.dense"),
        **norm("head.transform_norm", "cls.predictions.transform.LayerNorm"),
        **({"head.bias": TensorView("cls.predictions.bias")} if tied else untied),
    }


def classifier_names(depth: int) -> ParameterNames:
    return {
        **prefixed("", "bert", encoder_names(depth)),
        **linear("head.hidden", "bert.pooler.dense"),
        **linear("head.linear", "classifier"),
    }


def tagger_names(depth: int) -> ParameterNames:
    return {**prefixed("", "bert", encoder_names(depth)), **linear("head", "classifier")}


def _supported(config: EncoderConfig, **head: tuple[object, ...]) -> Supported:
    return {
        **{path: values for path, values in STANDARD.items() if path != "head.transform"},
        **LAYER_NORM,
        **ADDED_POSITIONS,
        **standard_heads(config),
        "norm_place": ("after",),
        "final_norm": (False,),
        "attention.scaled": (True,),
        "position.kind": ("learned", "sinusoidal"),
        "feedforward.kind": ("plain",),
        "embedding.norm": (True,),
        "embedding.scale": (False,),
        **{f"head.{name}": values for name, values in head.items()},
    }


SETTINGS = {
    "width": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "position.length": "max_position_embeddings",
    "norm.epsilon": "layer_norm_eps",
    "feedforward.hidden": "intermediate_size",
    "feedforward.activation": "hidden_act",
    "embedding.segments": "type_vocab_size",
}
FIXED = {
    "position.kind": "learned",
    "norm.kind": "layer",
    "norm_place": "after",
    "feedforward.kind": "plain",
    "embedding.norm": True,
    "initialise.kind": "normal",
    "initialise.shrink": False,
}


def _more_keys(config: EncoderConfig, sizes: Sizes) -> Json:
    return {**SPECIAL, "vocab_size": sizes.vocab, "type_vocab_size": config.embedding.segments or 1}


RENAMES = ((r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias"))
POSITION_IDS = Ignored(
    r"(^|\.)embeddings\.position_ids$",
    "the numbers of the positions",
    lambda tensor, settings: bool((tensor.flatten() == torch.arange(tensor.numel())).all()),
)
TIES = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}

BERT = Architecture[EncoderConfig](
    name="BERT",
    class_name="BertForMaskedLM",
    auto_class="AutoModelForMaskedLM",
    model_type="bert",
    shape="encoder",
    task="masked_language_model",
    supported=lambda config: _supported(
        config,
        kind=("vocabulary",),
        transform=(setting(config, "feedforward.activation") if config.feedforward.kind == "plain" else "gelu",),
        transform_epsilon=(getattr(config.norm, "epsilon", 1e-12),),
        scale=(False,),
    ),
    keys=KEYS,
    settings=SETTINGS,
    fixed={**FIXED, "head.kind": "vocabulary", "head.bias": True},
    more_keys=lambda config, sizes: {
        **_more_keys(config, sizes),
        "tie_word_embeddings": config.embedding.shares_output,
    },
    more_settings=lambda hf: {
        **shared_embedding(hf),
        "head.transform": our_activation(hf["hidden_act"], "hidden_act"),
        "head.transform_epsilon": hf["layer_norm_eps"],
    },
    parameter_names=lambda config: masked_lm_names(config.depth, tied=config.embedding.shares_output),
    learned_positions_only=True,
    renames=RENAMES,
    ties=lambda settings: TIES if settings["tie_word_embeddings"] else {},
    tied_head=tuple(TIES),
    unused_if_untied=("cls.predictions.bias",),
    ignored=(
        POSITION_IDS,
        Ignored(r"(^|\.)pooler\.dense\.(weight|bias)$", "the pooler, which masked tokens are not predicted with"),
        Ignored(r"^cls\.seq_relationship\.(weight|bias)$", "next-sentence prediction, of pre-training only"),
    ),
    base_model_prefix="bert.",
    head_prefixes=("cls.",),
)

BERT_CLASSIFIER = Architecture[EncoderConfig](
    name="BERT",
    class_name="BertForSequenceClassification",
    auto_class="AutoModelForSequenceClassification",
    model_type="bert",
    shape="encoder",
    task="classification",
    supported=lambda config: _supported(config, kind=("pooled",), pooling=("first",), hidden=(config.width,)),
    keys=LABEL_KEYS,
    settings={**SETTINGS, "head.hidden": "hidden_size"},
    fixed={**FIXED, "head.kind": "pooled", "head.pooling": "first"},
    more_keys=_more_keys,
    more_settings=shared_embedding,
    parameter_names=lambda config: classifier_names(config.depth),
    learned_positions_only=True,
    renames=RENAMES,
    ignored=(POSITION_IDS,),
    base_model_prefix="bert.",
    head_prefixes=("classifier.",),
    base_class="BertModel",
)

BERT_TAGGER = Architecture[EncoderConfig](
    name="BERT",
    class_name="BertForTokenClassification",
    auto_class="AutoModelForTokenClassification",
    model_type="bert",
    shape="encoder",
    task="tagging",
    supported=lambda config: _supported(config, kind=("token",)),
    keys=LABEL_KEYS,
    settings=SETTINGS,
    fixed={**FIXED, "head.kind": "token"},
    more_keys=_more_keys,
    more_settings=shared_embedding,
    parameter_names=lambda config: tagger_names(config.depth),
    learned_positions_only=True,
    renames=RENAMES,
    imported=False,
)
