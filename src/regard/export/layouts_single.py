"""Hugging Face layouts of models with one stack: GPT-2, GPT-NeoX, Llama, BERT, ViT."""

from typing import Any

from regard.data.special import BOS, EOS, PAD
from regard.export import mappings
from regard.export.layouts import TO_ACTIVATION, Layout, Sizes, activation, expect_settings
from regard.export.needs import WHOLE, Needs, even_heads

SPECIAL = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
LAYER_NORM: Needs = {"norm.kind": ("layer",), "norm.epsilon_inside": (True,)}
DECODER: Needs = {
    **WHOLE,
    "norm_place": ("before",),
    "final_norm": (True,),
    "attention.scaled": (True,),
    "embedding.norm": (False,),
    "embedding.segments": (0,),
    "head.kind": ("vocabulary",),
    "head.bias": (False,),
    "head.scale": (False,),
}
ADDED: Needs = {"position.combine": ("add",), "position.layers": ("first",)}


def _gpt2_settings(config: Any, sizes: Sizes) -> dict[str, Any]:  # noqa: ANN401
    return {
        **SPECIAL,
        "vocab_size": sizes.vocab,
        "n_embd": config.width,
        "n_layer": config.depth,
        "n_head": config.heads,
        "n_inner": config.feedforward.hidden_of(config.width),
        "n_positions": config.position.length,
        "activation_function": TO_ACTIVATION[config.feedforward.activation],
        "layer_norm_epsilon": config.norm.epsilon,
        "tie_word_embeddings": config.embedding.shares_output,
    }


def _gpt2_read(given: dict[str, Any]) -> dict[str, Any]:
    expect_settings(given, {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False})
    return {
        "kind": "decoder",
        "width": given["n_embd"],
        "depth": given["n_layer"],
        "heads": given["n_head"],
        "position": {"kind": "learned", "length": given.get("n_positions", 1024)},
        "norm": {"kind": "layer", "epsilon": given.get("layer_norm_epsilon", 1e-5)},
        "feedforward": {
            "kind": "plain",
            "hidden": given.get("n_inner") or 4 * given["n_embd"],
            "activation": activation(given.get("activation_function", "gelu_new"), "activation_function"),
        },
        "embedding": {"share": "all" if given.get("tie_word_embeddings", True) else "none", "scale": False},
        "initialise": {"kind": "normal"},
    }


GPT2 = Layout(
    name="GPT-2",
    architecture="GPT2LMHeadModel",
    auto="AutoModelForCausalLM",
    model_type="gpt2",
    shape="decoder",
    needs=lambda config: {
        **DECODER,
        **LAYER_NORM,
        **ADDED,
        **even_heads(config),
        "position.kind": ("learned", "sinusoidal"),
        "feedforward.kind": ("plain",),
    },
    settings=_gpt2_settings,
    mapping=lambda config: mappings.gpt2(config.depth, tied=config.embedding.shares_output),
    read=_gpt2_read,
    learns_positions=True,
    renames=((r"^(wte|wpe|h|ln_f)\.", r"transformer.\1."),),
)


def _neox_settings(config: Any, sizes: Sizes) -> dict[str, Any]:  # noqa: ANN401
    return {
        **SPECIAL,
        "vocab_size": sizes.vocab,
        "hidden_size": config.width,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "intermediate_size": config.feedforward.hidden_of(config.width),
        "hidden_act": TO_ACTIVATION[config.feedforward.activation],
        "layer_norm_eps": config.norm.epsilon,
        "max_position_embeddings": sizes.length,
        "use_parallel_residual": False,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": config.position.theta,
            "partial_rotary_factor": config.position.share,
        },
        "tie_word_embeddings": config.embedding.shares_output,
    }


def _neox_read(given: dict[str, Any]) -> dict[str, Any]:
    expect_settings(given, {"use_parallel_residual": False, "attention_bias": True})
    rope = _rope(given)
    return {
        "kind": "decoder",
        "width": given["hidden_size"],
        "depth": given["num_hidden_layers"],
        "heads": given["num_attention_heads"],
        "position": {
            "kind": "rotary",
            "theta": rope.get("rope_theta", given.get("rotary_emb_base", 1e4)),
            "share": rope.get("partial_rotary_factor", given.get("rotary_pct", 0.25)),
        },
        "norm": {"kind": "layer", "epsilon": given.get("layer_norm_eps", 1e-5)},
        "feedforward": {
            "kind": "plain",
            "hidden": given["intermediate_size"],
            "activation": activation(given.get("hidden_act", "gelu")),
        },
        "embedding": {"share": "all" if given.get("tie_word_embeddings", False) else "none", "scale": False},
        "initialise": {"kind": "normal"},
    }


GPT_NEOX = Layout(
    name="GPT-NeoX",
    architecture="GPTNeoXForCausalLM",
    auto="AutoModelForCausalLM",
    model_type="gpt_neox",
    shape="decoder",
    needs=lambda config: {
        **DECODER,
        **LAYER_NORM,
        **even_heads(config),
        "position.kind": ("rotary",),
        "position.interleaved": (False,),
        "feedforward.kind": ("plain",),
    },
    settings=_neox_settings,
    mapping=lambda config: mappings.gpt_neox(config.depth, config.heads, tied=config.embedding.shares_output),
    read=_neox_read,
)


def _llama_settings(config: Any, sizes: Sizes) -> dict[str, Any]:  # noqa: ANN401
    return {
        **SPECIAL,
        "vocab_size": sizes.vocab,
        "hidden_size": config.width,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.attention.kv_heads or config.heads,
        "head_dim": config.head_width,
        "intermediate_size": config.feedforward.hidden_of(config.width),
        "hidden_act": TO_ACTIVATION[config.feedforward.activation],
        "rms_norm_eps": config.norm.epsilon,
        "max_position_embeddings": sizes.length,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.position.theta},
        "attention_bias": config.attention.bias,
        "mlp_bias": config.feedforward.bias,
        "tie_word_embeddings": config.embedding.shares_output,
    }


def _llama_read(given: dict[str, Any]) -> dict[str, Any]:
    heads = given["num_attention_heads"]
    return {
        "kind": "decoder",
        "width": given["hidden_size"],
        "depth": given["num_hidden_layers"],
        "heads": heads,
        "attention": {
            "kind": "full",
            "kv_heads": given.get("num_key_value_heads") or heads,
            "head_width": given.get("head_dim") or given["hidden_size"] // heads,
            "bias": given.get("attention_bias", False),
        },
        "position": {"kind": "rotary", "theta": _rope(given).get("rope_theta", given.get("rope_theta", 1e4))},
        "norm": {"kind": "rms", "epsilon": given.get("rms_norm_eps", 1e-6)},
        "feedforward": {
            "kind": "gated",
            "hidden": given["intermediate_size"],
            "activation": activation(given.get("hidden_act", "silu")),
            "bias": given.get("mlp_bias", False),
        },
        "embedding": {"share": "all" if given.get("tie_word_embeddings", False) else "none", "scale": False},
        "initialise": {"kind": "normal"},
    }


def _rope(given: dict[str, Any]) -> dict[str, Any]:
    """The settings of the rotation; refused where it is stretched."""
    rope = given.get("rope_parameters") or given.get("rope_scaling") or {}
    expect_settings({"rope_type": rope.get("rope_type", rope.get("type", "default"))}, {"rope_type": "default"})
    return rope


LLAMA = Layout(
    name="Llama",
    architecture="LlamaForCausalLM",
    auto="AutoModelForCausalLM",
    model_type="llama",
    shape="decoder",
    needs=lambda config: {
        **DECODER,
        "norm.kind": ("rms",),
        "position.kind": ("rotary",),
        "position.interleaved": (False,),
        "position.share": (1.0,),
        "feedforward.kind": ("gated",),
    },
    settings=_llama_settings,
    mapping=lambda config: mappings.llama(
        config.depth,
        tied=config.embedding.shares_output,
        attention_bias=config.attention.bias,
        mlp_bias=config.feedforward.bias,
    ),
    read=_llama_read,
)

DECODERS = (GPT2, GPT_NEOX, LLAMA)
