"""Each key of the configurations of transformers: the library's default, and what an import does with it."""

from collections.abc import Mapping
from typing import Any

from regard.export.huggingface.generation_keys import GENERATION
from regard.export.huggingface.keys import Keys

TRAINING = "acts in training only; a recipe that fine-tunes has its own"
INITIAL = "how weights are drawn before training"
OUTPUTS = "which further outputs the library returns"
OTHER_HEAD = "of an output layer that this architecture does not have"
SPEED = "how the same result is computed"
RECORD = "a record of where the file comes from"
TOKENIZER = "the tokenizer's files say how texts are cut"
PIPELINES = "suggestions to other programs; the model does not read it"
IN_GENERATION = "a setting of generation: read where generation_config.json is missing"

BASE: dict[str, Any] = {
    "transformers_version": None,
    "architectures": None,
    "output_hidden_states": False,
    "return_dict": True,
    "dtype": None,
    "chunk_size_feed_forward": 0,
    "is_encoder_decoder": False,
    "id2label": None,
    "label2id": None,
    "problem_type": None,
}
"""The library's defaults of the keys that all its configurations have."""

DEFAULTS: dict[str, dict[str, Any]] = {
    "bert": {
        **BASE,
        "vocab_size": 30522,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "use_cache": True,
        "classifier_dropout": None,
        "is_decoder": False,
        "add_cross_attention": False,
        "bos_token_id": None,
        "eos_token_id": None,
        "tie_word_embeddings": True,
    },
    "gpt2": {
        **BASE,
        "vocab_size": 50257,
        "n_positions": 1024,
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "n_inner": None,
        "activation_function": "gelu_new",
        "resid_pdrop": 0.1,
        "embd_pdrop": 0.1,
        "attn_pdrop": 0.1,
        "layer_norm_epsilon": 1e-5,
        "initializer_range": 0.02,
        "summary_type": "cls_index",
        "summary_use_proj": True,
        "summary_activation": None,
        "summary_proj_to_labels": True,
        "summary_first_dropout": 0.1,
        "scale_attn_weights": True,
        "use_cache": True,
        "bos_token_id": 50256,
        "eos_token_id": 50256,
        "pad_token_id": None,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    },
    "gpt_neox": {
        **BASE,
        "vocab_size": 50432,
        "hidden_size": 6144,
        "num_hidden_layers": 44,
        "num_attention_heads": 64,
        "intermediate_size": 24576,
        "hidden_act": "gelu",
        "attention_dropout": 0.0,
        "hidden_dropout": 0.0,
        "classifier_dropout": 0.1,
        "max_position_embeddings": 2048,
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-5,
        "use_cache": True,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "pad_token_id": None,
        "tie_word_embeddings": False,
        "use_parallel_residual": True,
        "rope_parameters": None,
        "attention_bias": True,
        "is_decoder": False,
    },
    "llama": {
        **BASE,
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": None,
        "hidden_act": "silu",
        "max_position_embeddings": 2048,
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-6,
        "use_cache": True,
        "pad_token_id": None,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pretraining_tp": 1,
        "tie_word_embeddings": False,
        "rope_parameters": None,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "mlp_bias": False,
        "head_dim": None,
    },
    "t5": {
        **BASE,
        "is_encoder_decoder": True,
        "vocab_size": 32128,
        "d_model": 512,
        "d_kv": 64,
        "d_ff": 2048,
        "num_layers": 6,
        "num_decoder_layers": None,
        "num_heads": 8,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
        "dropout_rate": 0.1,
        "layer_norm_epsilon": 1e-6,
        "initializer_factor": 1.0,
        "feed_forward_proj": "relu",
        "use_cache": True,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "classifier_dropout": 0.0,
        "is_decoder": False,
    },
    "vit": {
        **BASE,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
        "image_size": 224,
        "patch_size": 16,
        "num_channels": 3,
        "qkv_bias": True,
        "encoder_stride": 16,
        "pooler_output_size": None,
        "pooler_act": "tanh",
    },
}
BART: dict[str, Any] = {
    **BASE,
    "is_encoder_decoder": True,
    "max_position_embeddings": 1024,
    "encoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_layers": 12,
    "decoder_ffn_dim": 4096,
    "decoder_attention_heads": 16,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    "use_cache": True,
    "activation_function": "gelu",
    "d_model": 1024,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "init_std": 0.02,
    "scale_embedding": False,
    "is_decoder": False,
    "tie_word_embeddings": True,
}
DEFAULTS["marian"] = {
    **BART,
    "vocab_size": 58101,
    "decoder_vocab_size": None,
    "decoder_start_token_id": 58100,
    "pad_token_id": 58100,
    "eos_token_id": 0,
    "bos_token_id": None,
    "forced_eos_token_id": 0,
    "share_encoder_decoder_embeddings": True,
}
DEFAULTS["pegasus"] = {
    **BART,
    "vocab_size": 50265,
    "decoder_start_token_id": 0,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "forced_eos_token_id": 1,
}

SPECIAL = frozenset(f"{name}_token_id" for name in ("pad", "bos", "eos", "sep", "unk", "cls", "mask"))
LABELS = frozenset({"id2label", "num_labels"})

IRRELEVANT = {
    "transformers_version": RECORD,
    "_name_or_path": RECORD,
    "name_or_path": RECORD,
    "_commit_hash": RECORD,
    "finetuning_task": RECORD,
    "language": RECORD,
    "output_hidden_states": OUTPUTS,
    "output_attentions": OUTPUTS,
    "output_past": OUTPUTS,
    "return_dict": OUTPUTS,
    "use_return_dict": OUTPUTS,
    "tie_last_hidden_states": OUTPUTS,
    "chunk_size_feed_forward": SPEED,
    "use_cache": SPEED,
    "gradient_checkpointing": SPEED,
    "torchscript": SPEED,
    "use_bfloat16": SPEED,
    "attn_implementation": SPEED,
    "_attn_implementation": SPEED,
    "_attn_implementation_autoset": SPEED,
    "experts_implementation": SPEED,
    "tf_legacy_loss": TRAINING,
    "label2id": "labels are read from id2label",
    "_num_labels": "labels are counted in id2label",
    "tokenizer_class": TOKENIZER,
    "prefix": TOKENIZER,
    "task_specific_params": PIPELINES,
    "summary_type": OTHER_HEAD,
    "summary_use_proj": OTHER_HEAD,
    "summary_activation": OTHER_HEAD,
    "summary_proj_to_labels": OTHER_HEAD,
    "summary_first_dropout": OTHER_HEAD,
}
"""Keys of any configuration that do not change what a model computes."""

DTYPES = (None, "float32", "float16", "bfloat16", "auto")
REFUSED: dict[str, tuple[Any, ...]] = {
    "dtype": DTYPES,
    "torch_dtype": DTYPES,
    "quantization_config": (None,),
    "auto_map": (None, {}),
    "per_layer_config": (None, {}),
    "pruned_heads": ({}, None),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (None,),
    "tie_encoder_decoder": (False,),
}
"""Keys of any configuration that would make it another model → the values that leave it as it is."""

OLD_BART: dict[str, tuple[Any, ...]] = {
    "normalize_embedding": (False,),
    "static_position_embeddings": (True,),
    "add_bias_logits": (False,),
    "force_bos_token_to_be_generated": (False,),
}
"""Keys of older Marian and Pegasus folders → what the library computes, whatever they say."""


def keys(
    model_type: str,
    honoured: str,
    *,
    labels: bool = False,
    irrelevant: Mapping[str, str] | None = None,
    refused: Mapping[str, tuple[Any, ...]] | None = None,
    aliases: Mapping[str, str] | None = None,
) -> Keys:
    """The three lists of an architecture; `labels`: whether it has an output layer over labels."""
    defaults = DEFAULTS[model_type]
    taken = frozenset({*honoured.split(), "architectures", *SPECIAL, *(LABELS if labels else ())})
    other_head = {} if labels else dict.fromkeys([*LABELS, "problem_type"], OTHER_HEAD)
    generation = dict.fromkeys(
        [*GENERATION.honoured, *GENERATION.irrelevant, *GENERATION.refused, *GENERATION.noted], IN_GENERATION
    )
    unchanged = {**generation, **IRRELEVANT, **other_head, **(irrelevant or {})}
    fixed = {
        **REFUSED,
        "model_type": (model_type,),
        "is_encoder_decoder": (defaults["is_encoder_decoder"],),
        **({"problem_type": (None, "single_label_classification")} if labels else {}),
        **(refused or {}),
    }
    unchanged = {name: reason for name, reason in unchanged.items() if name not in taken and name not in fixed}
    return Keys(defaults, taken, unchanged, fixed, aliases=aliases or {})


BERT_KEYS = (
    "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act max_position_embeddings "
    "type_vocab_size layer_norm_eps"
)
BERT_IRRELEVANT = {
    "hidden_dropout_prob": TRAINING,
    "attention_probs_dropout_prob": TRAINING,
    "classifier_dropout": TRAINING,
    "initializer_range": INITIAL,
    "directionality": RECORD,
    "pooler_fc_size": RECORD,
    "pooler_num_attention_heads": RECORD,
    "pooler_num_fc_layers": RECORD,
    "pooler_size_per_head": RECORD,
    "pooler_type": RECORD,
}
BERT_REFUSED = {"position_embedding_type": ("absolute",)}
BERT = keys("bert", f"{BERT_KEYS} tie_word_embeddings", irrelevant=BERT_IRRELEVANT, refused=BERT_REFUSED)
BERT_CLASSIFIER = keys(
    "bert",
    BERT_KEYS,
    labels=True,
    irrelevant={**BERT_IRRELEVANT, "tie_word_embeddings": OTHER_HEAD},
    refused=BERT_REFUSED,
)

GPT2 = keys(
    "gpt2",
    "vocab_size n_positions n_embd n_layer n_head n_inner activation_function layer_norm_epsilon tie_word_embeddings",
    irrelevant={
        "resid_pdrop": TRAINING,
        "embd_pdrop": TRAINING,
        "attn_pdrop": TRAINING,
        "initializer_range": INITIAL,
        "reorder_and_upcast_attn": SPEED,
        "n_ctx": "an older name of n_positions, which the table of positions confirms",
        "predict_special_tokens": RECORD,
    },
    refused={"scale_attn_weights": (True,), "scale_attn_by_inverse_layer_idx": (False,)},
    aliases={
        "hidden_size": "n_embd",
        "max_position_embeddings": "n_positions",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    },
)

ROTARY_KEYS = (
    "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act max_position_embeddings "
    "tie_word_embeddings rope_parameters rope_scaling"
)
GPT_NEOX = keys(
    "gpt_neox",
    f"{ROTARY_KEYS} layer_norm_eps rotary_pct rotary_emb_base",
    irrelevant={
        "attention_dropout": TRAINING,
        "hidden_dropout": TRAINING,
        "classifier_dropout": TRAINING,
        "attention_probs_dropout_prob": TRAINING,
        "hidden_dropout_prob": TRAINING,
        "initializer_range": INITIAL,
    },
    refused={"use_parallel_residual": (False,), "attention_bias": (True,)},
)

LLAMA = keys(
    "llama",
    f"{ROTARY_KEYS} rms_norm_eps num_key_value_heads head_dim attention_bias mlp_bias rope_theta",
    irrelevant={
        "attention_dropout": TRAINING,
        "initializer_range": INITIAL,
        "pretraining_tp": SPEED,
        "max_sequence_length": "an older name of max_position_embeddings",
    },
    refused={"partial_rotary_factor": (1.0, None)},
)

BART_KEYS = (
    "vocab_size max_position_embeddings encoder_layers encoder_ffn_dim encoder_attention_heads decoder_layers "
    "decoder_ffn_dim decoder_attention_heads activation_function d_model scale_embedding decoder_start_token_id"
)
BART_IRRELEVANT = {
    "encoder_layerdrop": TRAINING,
    "decoder_layerdrop": TRAINING,
    "dropout": TRAINING,
    "attention_dropout": TRAINING,
    "activation_dropout": TRAINING,
    "classif_dropout": TRAINING,
    "classifier_dropout": TRAINING,
    "init_std": INITIAL,
    "extra_pos_embeddings": "rows that older tables of positions had; the table's own rows are counted",
}
BART_ALIASES = {
    "num_attention_heads": "encoder_attention_heads",
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
}
MARIAN = keys(
    "marian",
    f"{BART_KEYS} decoder_vocab_size share_encoder_decoder_embeddings",
    irrelevant=BART_IRRELEVANT,
    refused={
        **OLD_BART,
        "tie_word_embeddings": (True,),
        "normalize_before": (False,),
        "add_final_layer_norm": (False,),
    },
    aliases=BART_ALIASES,
)
PEGASUS = keys(
    "pegasus",
    BART_KEYS,
    irrelevant=BART_IRRELEVANT,
    refused={
        **OLD_BART,
        "tie_word_embeddings": (True,),
        "normalize_before": (True,),
        "add_final_layer_norm": (True,),
    },
    aliases=BART_ALIASES,
)

T5 = keys(
    "t5",
    "vocab_size d_model d_kv d_ff num_layers num_decoder_layers num_heads relative_attention_num_buckets "
    "relative_attention_max_distance layer_norm_epsilon feed_forward_proj decoder_start_token_id "
    "tie_word_embeddings scale_decoder_outputs dense_act_fn is_gated_act",
    irrelevant={
        "dropout_rate": TRAINING,
        "classifier_dropout": TRAINING,
        "initializer_factor": INITIAL,
        "n_positions": "the length of texts in its training; relative positions know no limit",
    },
    aliases={
        "hidden_size": "d_model",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers",
        "head_dim": "d_kv",
    },
)

VIT = keys(
    "vit",
    "hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act layer_norm_eps image_size "
    "patch_size num_channels",
    labels=True,
    irrelevant={
        "hidden_dropout_prob": TRAINING,
        "attention_probs_dropout_prob": TRAINING,
        "initializer_range": INITIAL,
        "encoder_stride": OTHER_HEAD,
        "pooler_output_size": OTHER_HEAD,
        "pooler_act": OTHER_HEAD,
        "tie_word_embeddings": OTHER_HEAD,
    },
    refused={"qkv_bias": (True,)},
)
