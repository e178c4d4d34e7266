"""Hugging Face layouts of decoders: GPT-2, GPT-NeoX, Llama."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.export.huggingface import config_keys as library
from regard.export.huggingface import parameter_names as mappings
from regard.export.huggingface.layouts import TO_ACTIVATION, UNTIED, Ignored, Layout, Sizes, activation
from regard.export.needs import WHOLE, Needs, even_heads
from regard.text.special_tokens import BOS, EOS, PAD

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
ROPE_THETA, ROTARY_SHARE = 1e4, 0.25
"""The library's base period where a file has none, and the part of a GPT-NeoX's head that is rotated."""
ADDED: Needs = {"position.combine": ("add",), "position.layers": ("first",)}


CAUSAL_MASK = "the mask of later tokens"


def _embedding(given: Mapping[str, Any]) -> dict[str, Any]:
    tied = given["tie_word_embeddings"] and not given[UNTIED]
    return {"share": "all" if tied else "none", "scale": False}


def _is_causal(mask: Tensor, settings: Mapping[str, Any]) -> bool:
    """Whether each token attends to itself and all before it."""
    square = mask.reshape(mask.shape[-2:]).bool()
    return bool((square == torch.ones_like(square).tril()).all())


def rope(given: Mapping[str, Any], theta: float, share: float) -> tuple[float, float]:
    """Base period and rotated part of each head; refused where positions are scaled."""
    tree = given.get("rope_scaling") or given["rope_parameters"] or {}
    if not isinstance(tree, dict):
        raise ConfigError("rope_parameters", f"expected a table, got {tree!r}")
    kind = tree.get("rope_type", tree.get("type", "default"))
    if kind != "default":
        raise ConfigError("rope_parameters.rope_type", f"expected 'default', got {kind!r}")
    if unknown := [key for key in tree if key not in ("rope_type", "type", "rope_theta", "partial_rotary_factor")]:
        raise ConfigError(f"rope_parameters.{unknown[0]}", f"no setting of a rotation of the kind '{kind}'")
    numbers = {"rope_theta": theta, "partial_rotary_factor": share}
    numbers = {key: tree.get(key, usual) for key, usual in numbers.items()}
    for key, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ConfigError(f"rope_parameters.{key}", f"expected a number above 0, got {value!r}")
    return numbers["rope_theta"], numbers["partial_rotary_factor"]


def _rotates(frequencies: Tensor, theta: float) -> bool:
    """Whether these are the frequencies of a base period, as far as 16 bits tell."""
    expected = theta ** -torch.linspace(0, 1, len(frequencies) + 1)[:-1]
    return bool(torch.allclose(frequencies.float(), expected, rtol=0.02, atol=1e-7))


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
    return {
        "kind": "decoder",
        "width": given["n_embd"],
        "depth": given["n_layer"],
        "heads": given["n_head"],
        "position": {"kind": "learned", "length": given["n_positions"]},
        "norm": {"kind": "layer", "epsilon": given["layer_norm_epsilon"]},
        "feedforward": {
            "kind": "plain",
            "hidden": 4 * given["n_embd"] if given["n_inner"] is None else given["n_inner"],
            "activation": activation(given["activation_function"], "activation_function"),
        },
        "embedding": _embedding(given),
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
    keys=library.GPT2,
    learns_positions=True,
    ties=lambda settings: {"lm_head.weight": "transformer.wte.weight"} if settings["tie_word_embeddings"] else {},
    output=("lm_head.weight",),
    ignored=(
        Ignored(r"(^|\.)h\.\d+\.attn\.bias$", CAUSAL_MASK, _is_causal),
        Ignored(r"(^|\.)h\.\d+\.attn\.masked_bias$", CAUSAL_MASK),
    ),
    prefix="transformer.",
    heads=("lm_head.",),
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


def _neox_rope(given: Mapping[str, Any]) -> tuple[float, float]:
    return rope(given, given.get("rotary_emb_base", ROPE_THETA), given.get("rotary_pct", ROTARY_SHARE))


def _neox_read(given: dict[str, Any]) -> dict[str, Any]:
    theta, share = _neox_rope(given)
    return {
        "kind": "decoder",
        "width": given["hidden_size"],
        "depth": given["num_hidden_layers"],
        "heads": given["num_attention_heads"],
        "position": {"kind": "rotary", "theta": theta, "share": share},
        "norm": {"kind": "layer", "epsilon": given["layer_norm_eps"]},
        "feedforward": {
            "kind": "plain",
            "hidden": given["intermediate_size"],
            "activation": activation(given["hidden_act"]),
        },
        "embedding": _embedding(given),
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
    keys=library.GPT_NEOX,
    renames=((r"^embed_out\.", "lm_head."),),
    ties=lambda settings: {"lm_head.weight": "gpt_neox.embed_in.weight"} if settings["tie_word_embeddings"] else {},
    output=("lm_head.weight",),
    ignored=(
        Ignored(r"(^|\.)layers\.\d+\.attention\.bias$", CAUSAL_MASK, _is_causal),
        Ignored(r"(^|\.)layers\.\d+\.attention\.masked_bias$", CAUSAL_MASK),
        Ignored(
            r"(^|\.)rotary_emb\.inv_freq$",
            "the rotation that its settings describe",
            lambda tensor, settings: _rotates(tensor, _neox_rope(settings)[0]),
        ),
    ),
    prefix="gpt_neox.",
    heads=("lm_head.",),
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


def _llama_theta(given: Mapping[str, Any]) -> float:
    theta, share = rope(given, given.get("rope_theta", ROPE_THETA), 1.0)
    if share != 1.0:  # the library rotates whole heads of a Llama, whatever this says
        raise ConfigError("rope_parameters.partial_rotary_factor", f"expected 1.0 of a Llama, got {share}")
    return theta


def _llama_read(given: dict[str, Any]) -> dict[str, Any]:
    heads = given["num_attention_heads"]
    return {
        "kind": "decoder",
        "width": given["hidden_size"],
        "depth": given["num_hidden_layers"],
        "heads": heads,
        "attention": {
            "kind": "full",
            "kv_heads": heads if given["num_key_value_heads"] is None else given["num_key_value_heads"],
            "head_width": given["hidden_size"] // heads if given["head_dim"] is None else given["head_dim"],
            "bias": given["attention_bias"],
        },
        "position": {"kind": "rotary", "theta": _llama_theta(given)},
        "norm": {"kind": "rms", "epsilon": given["rms_norm_eps"]},
        "feedforward": {
            "kind": "gated",
            "hidden": given["intermediate_size"],
            "activation": activation(given["hidden_act"]),
            "bias": given["mlp_bias"],
        },
        "embedding": _embedding(given),
        "initialise": {"kind": "normal"},
    }


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
    keys=library.LLAMA,
    ties=lambda settings: {"lm_head.weight": "model.embed_tokens.weight"} if settings["tie_word_embeddings"] else {},
    output=("lm_head.weight",),
    ignored=(
        Ignored(
            r"(^|\.)rotary_emb\.inv_freq$",
            "the rotation that its settings describe",
            lambda tensor, settings: _rotates(tensor, _llama_theta(settings)),
        ),
    ),
    prefix="model.",
    heads=("lm_head.",),
)

DECODERS = (GPT2, GPT_NEOX, LLAMA)
