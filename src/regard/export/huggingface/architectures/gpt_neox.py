"""GPT-NeoX: `GPTNeoXForCausalLM` without parallel residuals."""

from collections.abc import Mapping
from typing import Any

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
    LAYER_NORM,
    ROPE_KEYS,
    ROPE_THETA,
    SPECIAL,
    causal_masks,
    embedding_settings,
    is_inverse_frequencies,
    rope,
    tied_head,
)
from regard.export.huggingface.config_keys import NO_DEFAULT, honoured, irrelevant, refused
from regard.export.huggingface.parameter_names import (
    ParameterNames,
    TensorView,
    fused_qkv,
    layers,
    linear,
    norm,
    prefixed,
)
from regard.export.supported_settings import standard_heads

ROTARY_SHARE = 0.25
"""The part of each head that the library rotates where a file does not say."""

KEYS = (
    base_keys("gpt_neox")
    | ROPE_KEYS
    | honoured(
        vocab_size=50432,
        hidden_size=6144,
        num_hidden_layers=44,
        num_attention_heads=64,
        intermediate_size=24576,
        hidden_act="gelu",
        max_position_embeddings=2048,
        layer_norm_eps=1e-5,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=2,
        pad_token_id=None,
        rotary_pct=NO_DEFAULT,
        rotary_emb_base=NO_DEFAULT,
    )
    | irrelevant(
        TRAINING,
        *("attention_probs_dropout_prob", "hidden_dropout_prob"),
        attention_dropout=0.0,
        hidden_dropout=0.0,
        classifier_dropout=0.1,
    )
    | irrelevant(INITIALISATION, initializer_range=0.02)
    | irrelevant(SPEED, use_cache=True)
    | refused("use_parallel_residual", False, default=True)
    | refused("attention_bias", True, default=True)
    | refused("is_decoder", False, default=False)
)


def parameter_names(depth: int, heads: int, *, tied: bool = True) -> ParameterNames:
    """Query, key and value of each head are stored together."""
    thirds = fused_qkv("weight", "bias", lambda third, tensor: tensor.unflatten(0, (heads, 3, -1))[:, third])
    block = {
        **norm("around_attention.norm", "input_layernorm"),
        **prefixed("attention", "attention.query_key_value", thirds),
        **linear("attention.output", "attention.dense"),
        **norm("around_feedforward.norm", "post_attention_layernorm"),
        **linear("feedforward.up", "mlp.dense_h_to_4h"),
        **linear("feedforward.down", "mlp.dense_4h_to_h"),
    }
    return {
        "embedding.table.weight": TensorView("gpt_neox.embed_in.weight"),
        **layers(depth, "stack.blocks", "gpt_neox.layers", block),
        **norm("stack.final_norm", "gpt_neox.final_layer_norm"),
        **({} if tied else linear("head.linear", "lm_head", bias=False)),
    }


def _to_config(config: Any, sizes: Sizes) -> dict[str, Any]:  # noqa: ANN401
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


def _rope(hf: Mapping[str, Any]) -> tuple[float, float]:
    return rope(hf, hf.get("rotary_emb_base", ROPE_THETA), hf.get("rotary_pct", ROTARY_SHARE))


def _from_config(hf: dict[str, Any]) -> dict[str, Any]:
    theta, share = _rope(hf)
    return {
        "kind": "decoder",
        "width": hf["hidden_size"],
        "depth": hf["num_hidden_layers"],
        "heads": hf["num_attention_heads"],
        "position": {"kind": "rotary", "theta": theta, "share": share},
        "norm": {"kind": "layer", "epsilon": hf["layer_norm_eps"]},
        "feedforward": {
            "kind": "plain",
            "hidden": hf["intermediate_size"],
            "activation": activation(hf["hidden_act"]),
        },
        "embedding": embedding_settings(hf),
        "initialise": {"kind": "normal"},
    }


GPT_NEOX = register(
    Architecture(
        name="GPT-NeoX",
        class_name="GPTNeoXForCausalLM",
        auto_class="AutoModelForCausalLM",
        model_type="gpt_neox",
        shape="decoder",
        task="language_model",
        supported=lambda config: {
            **DECODER,
            **LAYER_NORM,
            **standard_heads(config),
            "position.kind": ("rotary",),
            "position.interleaved": (False,),
            "feedforward.kind": ("plain",),
        },
        to_config=_to_config,
        from_config=_from_config,
        parameter_names=lambda config: parameter_names(config.depth, config.heads, tied=config.embedding.shares_output),
        keys=KEYS,
        renames=((r"^embed_out\.", "lm_head."),),
        ties=lambda settings: tied_head("gpt_neox.embed_in.weight", settings),
        tied_head=("lm_head.weight",),
        ignored=(
            *causal_masks(r"layers\.\d+\.attention"),
            Ignored(
                r"(^|\.)rotary_emb\.inv_freq$",
                "the rotation that its settings describe",
                lambda tensor, settings: is_inverse_frequencies(tensor, _rope(settings)[0]),
            ),
        ),
        base_model_prefix="gpt_neox.",
        head_prefixes=("lm_head.",),
    )
)
