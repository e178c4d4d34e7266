"""Hugging Face layouts of encoder-decoders: Marian (norm after), Pegasus (norm before), T5."""

from typing import Any

from regard.data.special import BOS, EOS, PAD
from regard.errors import ConfigError
from regard.export import mappings
from regard.export.layouts import TO_ACTIVATION, Layout, Sizes, activation, expect_settings
from regard.export.needs import WHOLE, Needs, even_heads, one_attention

SPECIAL = {
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": BOS,
    "forced_eos_token_id": None,
}
TABLES = {
    "model.encoder.embed_positions.weight": "encoder.positions.0.table.weight",
    "model.decoder.embed_positions.weight": "decoder.positions.0.table.weight",
}
SHARED = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")


def _bart_needs(config: Any) -> Needs:  # noqa: ANN401
    return {
        **WHOLE,
        "norm.kind": ("layer",),
        "norm.epsilon": (1e-5,),
        "norm.epsilon_inside": (True,),
        "attention.scaled": (True,),
        "position.kind": ("sinusoidal", "learned"),
        "position.combine": ("add",),
        "position.layers": ("first",),
        "feedforward.kind": ("plain",),
        "embedding.norm": (False,),
        "embedding.segments": (0,),
        "head.scale": (False,),
        **even_heads(config),
        **one_attention(config),
    }


def _bart_settings(config: Any, sizes: Sizes) -> dict[str, Any]:  # noqa: ANN401
    hidden = config.feedforward.hidden_of(config.width)
    return {
        **SPECIAL,
        "vocab_size": sizes.vocab,
        "d_model": config.width,
        "encoder_layers": config.depth,
        "decoder_layers": config.target_depth,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": hidden,
        "decoder_ffn_dim": hidden,
        "activation_function": TO_ACTIVATION[config.feedforward.activation],
        "scale_embedding": config.embedding.scale,
        "max_position_embeddings": config.position.longest or sizes.length,
        "tie_word_embeddings": True,
    }


def _bart_read(given: dict[str, Any]) -> dict[str, Any]:
    for one, other in (
        ("encoder_attention_heads", "decoder_attention_heads"),
        ("encoder_ffn_dim", "decoder_ffn_dim"),
    ):
        if given[one] != given[other]:
            raise ConfigError(other, f"expected that of the encoder, {given[one]}, got {given[other]}")
    expect_settings(given, {"tie_word_embeddings": True})
    return {
        "kind": "encoder-decoder",
        "width": given["d_model"],
        "depth": given["encoder_layers"],
        "decoder_depth": given["decoder_layers"],
        "heads": given["encoder_attention_heads"],
        "position": {"kind": "sinusoidal", "interleaved": False},
        "feedforward": {
            "kind": "plain",
            "hidden": given["encoder_ffn_dim"],
            "activation": activation(given["activation_function"], "activation_function"),
        },
        "embedding": {"share": "all", "scale": given.get("scale_embedding", False)},
        "head": {"kind": "vocabulary", "bias": True},
    }


def _marian_read(given: dict[str, Any]) -> dict[str, Any]:
    tree = _bart_read(given)
    share = "all" if given.get("share_encoder_decoder_embeddings", True) else "output"
    return {**tree, "norm_place": "after", "embedding": {**tree["embedding"], "share": share}}


MARIAN = Layout(
    name="Marian",
    architecture="MarianMTModel",
    auto="AutoModelForSeq2SeqLM",
    model_type="marian",
    shape="encoder-decoder",
    needs=lambda config: {
        **_bart_needs(config),
        "norm_place": ("after",),
        "final_norm": (False,),
        "embedding.share": ("all", "output"),
    },
    settings=lambda config, sizes: {
        **_bart_settings(config, sizes),
        "decoder_vocab_size": sizes.target_vocab,
        "share_encoder_decoder_embeddings": config.embedding.shares_inputs,
    },
    mapping=lambda config: mappings.marian(
        config.depth, config.target_depth, one_vocabulary=config.embedding.shares_inputs
    ),
    read=_marian_read,
    tables=TABLES,
    scales=True,
    tied={"model.shared.weight": SHARED},
)

PEGASUS = Layout(
    name="Pegasus",
    architecture="PegasusForConditionalGeneration",
    auto="AutoModelForSeq2SeqLM",
    model_type="pegasus",
    shape="encoder-decoder",
    needs=lambda config: {
        **_bart_needs(config),
        "norm_place": ("before",),
        "final_norm": (True,),
        "embedding.share": ("all",),
    },
    settings=_bart_settings,
    mapping=lambda config: mappings.pegasus(config.depth, config.target_depth),
    read=lambda given: {**_bart_read(given), "norm_place": "before"},
    tables=TABLES,
    scales=True,
    tied={"model.shared.weight": SHARED},
)


def _t5_needs(config: Any) -> Needs:  # noqa: ANN401
    gated = config.feedforward.kind == "gated"
    return {
        **WHOLE,
        "norm.kind": ("rms",),
        "norm_place": ("before",),
        "final_norm": (True,),
        "attention.scaled": (False,),
        "attention.bias": (False,),
        "attention.kv_heads": (config.heads,),
        "position.kind": ("t5",),
        "position.shared": (True,),
        "feedforward.kind": ("plain", "gated"),
        "feedforward.bias": (False,),
        "feedforward.activation": ("gelu-tanh", "silu", "relu") if gated else ("relu", "silu", "gelu"),
        "embedding.share": ("all",),
        "embedding.scale": (False,),
        "embedding.norm": (False,),
        "embedding.segments": (0,),
        "head.bias": (False,),
        "head.scale": (True,),
        **one_attention(config),
    }


def _t5_settings(config: Any, sizes: Sizes) -> dict[str, Any]:  # noqa: ANN401
    feedforward = config.feedforward
    bend = TO_ACTIVATION[feedforward.activation]
    gated = {"gelu_new": "gated-gelu"}.get(bend, f"gated-{bend}")
    return {
        **SPECIAL,
        "vocab_size": sizes.vocab,
        "d_model": config.width,
        "d_kv": config.head_width,
        "d_ff": feedforward.hidden_of(config.width),
        "num_layers": config.depth,
        "num_decoder_layers": config.target_depth,
        "num_heads": config.heads,
        "relative_attention_num_buckets": config.position.buckets,
        "relative_attention_max_distance": config.position.farthest,
        "layer_norm_epsilon": config.norm.epsilon,
        "feed_forward_proj": gated if feedforward.kind == "gated" else bend,
        "tie_word_embeddings": True,
    }


def _t5_read(given: dict[str, Any]) -> dict[str, Any]:
    expect_settings(given, {"tie_word_embeddings": True, "scale_decoder_outputs": True})
    gate, _, bend = given.get("feed_forward_proj", "relu").rpartition("-")
    bend = "gelu-tanh" if gate and bend == "gelu" else activation(bend, "feed_forward_proj")
    return {
        "kind": "encoder-decoder",
        "width": given["d_model"],
        "depth": given["num_layers"],
        "decoder_depth": given.get("num_decoder_layers") or given["num_layers"],
        "heads": given["num_heads"],
        "attention": {"kind": "full", "bias": False, "scaled": False, "head_width": given["d_kv"]},
        "position": {
            "kind": "t5",
            "buckets": given.get("relative_attention_num_buckets", 32),
            "farthest": given.get("relative_attention_max_distance", 128),
        },
        "norm": {"kind": "rms", "epsilon": given.get("layer_norm_epsilon", 1e-6)},
        "feedforward": {
            "kind": "gated" if gate else "plain",
            "hidden": given["d_ff"],
            "activation": bend,
            "bias": False,
        },
        "embedding": {"share": "all", "scale": False},
        "head": {"kind": "vocabulary", "scale": True},
    }


T5 = Layout(
    name="T5",
    architecture="T5ForConditionalGeneration",
    auto="AutoModelForSeq2SeqLM",
    model_type="t5",
    shape="encoder-decoder",
    needs=_t5_needs,
    settings=_t5_settings,
    mapping=lambda config: mappings.t5(
        config.depth, config.target_depth, gated=config.feedforward.kind == "gated", tied=True
    ),
    read=_t5_read,
    tied={"shared.weight": ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")},
)

PAIRS = (MARIAN, PEGASUS, T5)
