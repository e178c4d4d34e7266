"""Hugging Face layouts of encoder-decoders: Marian (norm after), Pegasus (norm before), T5."""

from typing import Any

from regard.errors import ConfigError
from regard.export.huggingface import config_keys as library
from regard.export.huggingface import parameter_names as mappings
from regard.export.huggingface.layouts import TO_ACTIVATION, UNTIED, Ignored, Layout, Sizes, activation
from regard.export.needs import WHOLE, Needs, even_heads, one_attention
from regard.text.special_tokens import BOS, EOS, PAD

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
SHARED: dict[str, str] = dict.fromkeys(
    ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"), "model.shared.weight"
)
HEADS = ("final_logits_bias", "lm_head.")


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
        "norm": {"kind": "layer", "epsilon": 1e-5},
        "embedding": {"share": "all", "scale": given["scale_embedding"]},
        "head": {"kind": "vocabulary", "bias": True},
    }


def _marian_read(given: dict[str, Any]) -> dict[str, Any]:
    tree = _bart_read(given)
    share = "all" if given["share_encoder_decoder_embeddings"] else "output"
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
    keys=library.MARIAN,
    tables=TABLES,
    scales=True,
    ties=lambda settings: (
        SHARED
        if settings["share_encoder_decoder_embeddings"]
        else {"lm_head.weight": "model.decoder.embed_tokens.weight"}
    ),
    prefix="model.",
    heads=HEADS,
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
    keys=library.PEGASUS,
    tables=TABLES,
    scales=True,
    ties=lambda settings: SHARED,
    prefix="model.",
    heads=HEADS,
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


def _t5_activation(given: dict[str, Any]) -> tuple[bool, str]:
    """Whether the feed-forward layer is gated, and its activation."""
    gate, _, name = given["feed_forward_proj"].rpartition("-")
    if gate not in ("", "gated"):
        raise ConfigError("feed_forward_proj", f"expected an activation or gated-…, got '{given['feed_forward_proj']}'")
    name = given.get("dense_act_fn", "gelu_new" if gate and name == "gelu" else name)
    gated = given.get("is_gated_act", bool(gate))
    if not isinstance(gated, bool):
        raise ConfigError("is_gated_act", f"expected true or false, got {gated!r}")
    return gated, activation(name, "dense_act_fn" if "dense_act_fn" in given else "feed_forward_proj")


def _t5_scales(given: dict[str, Any]) -> bool:
    """Whether vectors are divided by √width before the output layer: the library's reading of an older key."""
    scale = given.get("scale_decoder_outputs", given.get("tie_word_embeddings") is not False)
    if not isinstance(scale, bool):
        raise ConfigError("scale_decoder_outputs", f"expected true or false, got {scale!r}")
    return scale


def _t5_read(given: dict[str, Any]) -> dict[str, Any]:
    gated, kind = _t5_activation(given)
    layers = given["num_layers"]
    return {
        "kind": "encoder-decoder",
        "width": given["d_model"],
        "depth": layers,
        "decoder_depth": layers if given["num_decoder_layers"] is None else given["num_decoder_layers"],
        "heads": given["num_heads"],
        "attention": {"kind": "full", "bias": False, "scaled": False, "head_width": given["d_kv"]},
        "position": {
            "kind": "t5",
            "buckets": given["relative_attention_num_buckets"],
            "farthest": given["relative_attention_max_distance"],
        },
        "norm": {"kind": "rms", "epsilon": given["layer_norm_epsilon"]},
        "feedforward": {
            "kind": "gated" if gated else "plain",
            "hidden": given["d_ff"],
            "activation": kind,
            "bias": False,
        },
        "embedding": {"share": "inputs" if given[UNTIED] else "all", "scale": False},
        "head": {"kind": "vocabulary", "scale": _t5_scales(given)},
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
        config.depth,
        config.target_depth,
        gated=config.feedforward.kind == "gated",
        tied=config.embedding.shares_output,
    ),
    read=_t5_read,
    keys=library.T5,
    ties=lambda settings: dict.fromkeys(
        ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"), "shared.weight"
    ),
    output=("lm_head.weight",),
    ignored=(
        Ignored(
            r"^decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight$",
            "a table of distances to the source, which nothing is computed with",
        ),
    ),
)

PAIRS = (MARIAN, PEGASUS, T5)
