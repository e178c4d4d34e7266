"""Llama: `LlamaForCausalLM`, usually with an output layer of its own and without biases."""

from collections.abc import Mapping
from typing import Any

from regard.errors import ConfigError
from regard.export.huggingface.architecture import (
    INITIALISATION,
    SPEED,
    TO_ACTIVATION,
    TRAINING,
    Architecture,
    Ignored,
    Sizes,
    activation,
    base_keys,
    register,
)
from regard.export.huggingface.architectures.decoder_only import (
    DECODER,
    ROPE_KEYS,
    ROPE_THETA,
    SPECIAL,
    embedding_settings,
    is_inverse_frequencies,
    rope,
    tied_head,
)
from regard.export.huggingface.config_keys import NO_DEFAULT, honoured, irrelevant, refused
from regard.export.huggingface.parameter_names import (
    ParameterNames,
    TensorView,
    attention,
    layers,
    linear,
    norm,
    prefixed,
)

KEYS = (
    base_keys("llama")
    | ROPE_KEYS
    | honoured(
        vocab_size=32000,
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=None,
        head_dim=None,
        hidden_act="silu",
        max_position_embeddings=2048,
        rms_norm_eps=1e-6,
        attention_bias=False,
        mlp_bias=False,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=None,
        rope_theta=NO_DEFAULT,
    )
    | irrelevant(TRAINING, attention_dropout=0.0)
    | irrelevant(INITIALISATION, initializer_range=0.02)
    | irrelevant(SPEED, use_cache=True, pretraining_tp=1)
    | irrelevant("an older name of max_position_embeddings", "max_sequence_length")
    | refused("partial_rotary_factor", 1.0, None)
)


def parameter_names(
    depth: int, *, tied: bool = False, attention_bias: bool = False, mlp_bias: bool = False
) -> ParameterNames:
    block = {
        **norm("around_attention.norm", "input_layernorm", shift=False),
        **prefixed("attention", "self_attn", attention("q_proj k_proj v_proj o_proj", bias=attention_bias)),
        **norm("around_feedforward.norm", "post_attention_layernorm", shift=False),
        **linear("feedforward.gate", "mlp.gate_proj", bias=mlp_bias),
        **linear("feedforward.up", "mlp.up_proj", bias=mlp_bias),
        **linear("feedforward.down", "mlp.down_proj", bias=mlp_bias),
    }
    return {
        "embedding.table.weight": TensorView("model.embed_tokens.weight"),
        **layers(depth, "stack.blocks", "model.layers", block),
        **norm("stack.final_norm", "model.norm", shift=False),
        **({} if tied else linear("head.linear", "lm_head", bias=False)),
    }


def _to_config(config: Any, sizes: Sizes) -> dict[str, Any]:  # noqa: ANN401
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


def _theta(hf: Mapping[str, Any]) -> float:
    theta, share = rope(hf, hf.get("rope_theta", ROPE_THETA), 1.0)
    if share != 1.0:  # the library rotates whole heads of a Llama, whatever this says
        raise ConfigError("rope_parameters.partial_rotary_factor", f"expected 1.0 of a Llama, got {share}")
    return theta


def _from_config(hf: dict[str, Any]) -> dict[str, Any]:
    heads = hf["num_attention_heads"]
    return {
        "kind": "decoder",
        "width": hf["hidden_size"],
        "depth": hf["num_hidden_layers"],
        "heads": heads,
        "attention": {
            "kind": "full",
            "kv_heads": heads if hf["num_key_value_heads"] is None else hf["num_key_value_heads"],
            "head_width": hf["hidden_size"] // heads if hf["head_dim"] is None else hf["head_dim"],
            "bias": hf["attention_bias"],
        },
        "position": {"kind": "rotary", "theta": _theta(hf)},
        "norm": {"kind": "rms", "epsilon": hf["rms_norm_eps"]},
        "feedforward": {
            "kind": "gated",
            "hidden": hf["intermediate_size"],
            "activation": activation(hf["hidden_act"]),
            "bias": hf["mlp_bias"],
        },
        "embedding": embedding_settings(hf),
        "initialise": {"kind": "normal"},
    }


LLAMA = register(
    Architecture(
        name="Llama",
        class_name="LlamaForCausalLM",
        auto_class="AutoModelForCausalLM",
        model_type="llama",
        shape="decoder",
        task="language_model",
        supported=lambda config: {
            **DECODER,
            "norm.kind": ("rms",),
            "position.kind": ("rotary",),
            "position.interleaved": (False,),
            "position.share": (1.0,),
            "feedforward.kind": ("gated",),
        },
        to_config=_to_config,
        from_config=_from_config,
        parameter_names=lambda config: parameter_names(
            config.depth,
            tied=config.embedding.shares_output,
            attention_bias=config.attention.bias,
            mlp_bias=config.feedforward.bias,
        ),
        keys=KEYS,
        ties=lambda settings: tied_head("model.embed_tokens.weight", settings),
        tied_head=("lm_head.weight",),
        ignored=(
            Ignored(
                r"(^|\.)rotary_emb\.inv_freq$",
                "the rotation that its settings describe",
                lambda tensor, settings: is_inverse_frequencies(tensor, _theta(settings)),
            ),
        ),
        base_model_prefix="model.",
        head_prefixes=("lm_head.",),
        base_class="LlamaModel",
    )
)
