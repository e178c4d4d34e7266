"""Llama: `LlamaForCausalLM`, usually with an output layer of its own and without biases."""

from regard.errors import ConfigError
from regard.export.huggingface.architecture import INITIALISATION, SPEED, TRAINING, Architecture, base_keys
from regard.export.huggingface.architectures.gpt import (
    DECODER,
    ROPE_KEYS,
    ROPE_THETA,
    inverse_frequencies,
    rope,
    shared_embedding,
    text_keys,
    ties,
    untied_head,
)
from regard.export.huggingface.config_keys import NO_DEFAULT, Json, honoured, irrelevant, refused
from regard.export.huggingface.parameter_names import (
    ParameterNames,
    TensorView,
    attention,
    layers,
    linear,
    norm,
    prefixed,
)
from regard.export.supported_settings import setting
from regard.models import DecoderConfig

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
        **untied_head(tied),
    }


def _theta(hf: Json) -> float:
    theta, share = rope(hf, hf.get("rope_theta", ROPE_THETA), 1.0)
    if share != 1.0:  # the library rotates whole heads of a Llama, whatever this says
        raise ConfigError("rope_parameters.partial_rotary_factor", f"expected 1.0 of a Llama, got {share}")
    return theta


def _settings(hf: Json) -> Json:
    heads, kv_heads, head_width = hf["num_attention_heads"], hf["num_key_value_heads"], hf["head_dim"]
    return {
        "attention.kv_heads": heads if kv_heads is None else kv_heads,
        "attention.head_width": hf["hidden_size"] // heads if head_width is None else head_width,
        "position.theta": _theta(hf),
        **shared_embedding(hf),
    }


LLAMA = Architecture[DecoderConfig](
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
    keys=KEYS,
    settings={
        "width": "hidden_size",
        "depth": "num_hidden_layers",
        "heads": "num_attention_heads",
        "attention.kv_heads": "num_key_value_heads",
        "attention.head_width": "head_dim",
        "attention.bias": "attention_bias",
        "norm.epsilon": "rms_norm_eps",
        "feedforward.hidden": "intermediate_size",
        "feedforward.activation": "hidden_act",
        "feedforward.bias": "mlp_bias",
    },
    fixed={
        "attention.kind": "full",
        "position.kind": "rotary",
        "norm.kind": "rms",
        "feedforward.kind": "gated",
        "initialise.kind": "normal",
    },
    more_keys=lambda config, sizes: {
        **text_keys(config, sizes),
        "max_position_embeddings": sizes.length,
        "rope_parameters": {"rope_type": "default", "rope_theta": setting(config, "position.theta")},
    },
    more_settings=_settings,
    parameter_names=lambda config: parameter_names(
        config.depth,
        tied=config.embedding.shares_output,
        attention_bias=config.attention.bias,
        mlp_bias=setting(config, "feedforward.bias") is True,
    ),
    ties=lambda settings: ties("model.embed_tokens.weight", settings),
    tied_head=("lm_head.weight",),
    ignored=(inverse_frequencies(_theta),),
    base_model_prefix="model.",
    head_prefixes=("lm_head.",),
    base_class="LlamaModel",
)
