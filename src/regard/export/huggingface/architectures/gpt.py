"""GPT-2 and GPT-NeoX (without parallel residuals), and what they share with other language models."""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.export.huggingface.architecture import (
    INITIALISATION,
    OTHER_HEAD,
    RECORD,
    SPEED,
    TRAINING,
    UNTIED,
    Architecture,
    Ignored,
    Sizes,
    base_keys,
)
from regard.export.huggingface.config_keys import NO_DEFAULT, Json, aliases, honoured, irrelevant, refused
from regard.export.huggingface.parameter_names import (
    ParameterNames,
    TensorView,
    conv1d,
    fused_qkv,
    layers,
    linear,
    norm,
    prefixed,
)
from regard.export.supported_settings import ABOVE_ZERO, STANDARD, Supported, setting, standard_heads
from regard.models import DecoderConfig
from regard.text.special_tokens import BOS, EOS, PAD

SPECIAL = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
LAYER_NORM: Supported = {
    "norm.kind": ("layer",),
    "norm.epsilon": (ABOVE_ZERO,),
    "norm.epsilon_inside": (True,),
}
ADDED_POSITIONS: Supported = {"position.combine": ("add",), "position.layers": ("first",)}
DECODER: Supported = {
    **STANDARD,
    "norm_place": ("before",),
    "final_norm": (True,),
    "attention.scaled": (True,),
    "embedding.norm": (False,),
    "embedding.segments": (0,),
    "head.kind": ("vocabulary",),
    "head.bias": (False,),
    "head.scale": (False,),
}
PRE_NORM = {"norm.kind": "layer", "feedforward.kind": "plain", "initialise.kind": "normal"}
"""What imported models of GPT-2 and GPT-NeoX have in common."""


def text_keys(config: DecoderConfig, sizes: Sizes) -> Json:
    return {**SPECIAL, "vocab_size": sizes.vocab, "tie_word_embeddings": config.embedding.shares_output}


def shared_embedding(hf: Json) -> Json:
    tied = hf["tie_word_embeddings"] and not hf[UNTIED]
    return {"embedding.share": "all" if tied else "none", "embedding.scale": False}


def ties(embedding: str, settings: Json) -> dict[str, str]:
    return {"lm_head.weight": embedding} if settings["tie_word_embeddings"] else {}


def untied_head(tied: bool) -> ParameterNames:
    return {} if tied else linear("head.linear", "lm_head", bias=False)


def _causal_masks(attention: str) -> tuple[Ignored, ...]:
    """The causal masks that older files keep beside each attention."""
    reason = "the mask of later tokens"
    return (
        Ignored(rf"(^|\.){attention}\.bias$", reason, lambda mask, settings: _is_causal(mask)),
        Ignored(rf"(^|\.){attention}\.masked_bias$", reason),
    )


def _is_causal(mask: Tensor) -> bool:
    square = mask.reshape(mask.shape[-2:]).bool()
    return bool((square == torch.ones_like(square).tril()).all())


GPT2_KEYS = (
    base_keys("gpt2")
    | honoured(
        vocab_size=50257,
        n_positions=1024,
        n_embd=768,
        n_layer=12,
        n_head=12,
        n_inner=None,
        activation_function="gelu_new",
        layer_norm_epsilon=1e-5,
        tie_word_embeddings=True,
        bos_token_id=50256,
        eos_token_id=50256,
        pad_token_id=None,
    )
    | irrelevant(TRAINING, resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1)
    | irrelevant(INITIALISATION, initializer_range=0.02)
    | irrelevant(SPEED, use_cache=True, reorder_and_upcast_attn=False)
    | irrelevant(
        OTHER_HEAD,
        summary_type="cls_index",
        summary_use_proj=True,
        summary_activation=None,
        summary_proj_to_labels=True,
        summary_first_dropout=0.1,
    )
    | irrelevant("an older name of n_positions, which the table of positions confirms", "n_ctx")
    | irrelevant(RECORD, "predict_special_tokens")
    | refused("scale_attn_weights", True, default=True)
    | refused("scale_attn_by_inverse_layer_idx", False, default=False)
    | refused("add_cross_attention", False, default=False)
    | aliases(
        hidden_size="n_embd",
        max_position_embeddings="n_positions",
        num_attention_heads="n_head",
        num_hidden_layers="n_layer",
    )
)


def gpt2_names(depth: int, *, tied: bool = True) -> ParameterNames:
    thirds = fused_qkv("c_attn.weight", "c_attn.bias", lambda third, tensor: tensor.t().chunk(3)[third])
    block = {
        **norm("around_attention.norm", "ln_1"),
        **prefixed("attention", "attn", thirds),
        **conv1d("attention.output", "attn.c_proj"),
        **norm("around_feedforward.norm", "ln_2"),
        **conv1d("feedforward.up", "mlp.c_fc"),
        **conv1d("feedforward.down", "mlp.c_proj"),
    }
    return {
        "embedding.table.weight": TensorView("transformer.wte.weight"),
        "stack.positions.0.table.weight": TensorView("transformer.wpe.weight"),
        **layers(depth, "stack.blocks", "transformer.h", block),
        **norm("stack.final_norm", "transformer.ln_f"),
        **untied_head(tied),
    }


GPT2 = Architecture[DecoderConfig](
    name="GPT-2",
    class_name="GPT2LMHeadModel",
    auto_class="AutoModelForCausalLM",
    model_type="gpt2",
    shape="decoder",
    task="language_model",
    supported=lambda config: {
        **DECODER,
        **LAYER_NORM,
        **ADDED_POSITIONS,
        **standard_heads(config),
        "position.kind": ("learned", "sinusoidal"),
        "feedforward.kind": ("plain",),
    },
    keys=GPT2_KEYS,
    settings={
        "width": "n_embd",
        "depth": "n_layer",
        "heads": "n_head",
        "position.length": "n_positions",
        "norm.epsilon": "layer_norm_epsilon",
        "feedforward.hidden": "n_inner",
        "feedforward.activation": "activation_function",
    },
    fixed={**PRE_NORM, "position.kind": "learned"},
    more_keys=text_keys,
    more_settings=lambda hf: {
        **shared_embedding(hf),
        **({"feedforward.hidden": 4 * hf["n_embd"]} if hf["n_inner"] is None else {}),
    },
    parameter_names=lambda config: gpt2_names(config.depth, tied=config.embedding.shares_output),
    learned_positions_only=True,
    ties=lambda settings: ties("transformer.wte.weight", settings),
    tied_head=("lm_head.weight",),
    ignored=_causal_masks(r"h\.\d+\.attn"),
    base_model_prefix="transformer.",
    head_prefixes=("lm_head.",),
    base_class="GPT2Model",
)

ROPE_THETA = 1e4
"""The library's base period where a file has none."""
ROPE_KEYS = honoured(rope_parameters=None, rope_scaling=NO_DEFAULT)
ROTARY_SHARE = 0.25
"""The part of each head that the library rotates where a file does not say."""


def rope(hf: Json, theta: float, share: float) -> tuple[float, float]:
    """Base period and rotated part of each head; refused where positions are scaled."""
    tree = hf.get("rope_scaling") or hf["rope_parameters"] or {}
    if not isinstance(tree, dict):
        raise ConfigError("rope_parameters", f"expected a table, got {tree!r}")
    kind = tree.get("rope_type", tree.get("type", "default"))
    if kind != "default":
        raise ConfigError("rope_parameters.rope_type", f"expected 'default', got {kind!r}")
    if unknown := [key for key in tree if key not in ("rope_type", "type", "rope_theta", "partial_rotary_factor")]:
        raise ConfigError(f"rope_parameters.{unknown[0]}", f"no setting of a rotation of the kind '{kind}'")
    values = {"rope_theta": tree.get("rope_theta", theta)}
    values["partial_rotary_factor"] = tree.get("partial_rotary_factor", share)
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ConfigError(f"rope_parameters.{key}", f"expected a number above 0, got {value!r}")
    return values["rope_theta"], values["partial_rotary_factor"]


def inverse_frequencies(theta_of: Callable[[Json], float]) -> Ignored:
    """The frequencies of the base period, within the precision of 16 bits."""

    def check(tensor: Tensor, settings: Json) -> bool:
        expected = theta_of(settings) ** -torch.linspace(0, 1, len(tensor) + 1)[:-1]
        return bool(torch.allclose(tensor.float(), expected, rtol=0.02, atol=1e-7))

    return Ignored(r"(^|\.)rotary_emb\.inv_freq$", "the rotation that its settings describe", check)


GPT_NEOX_KEYS = (
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


def gpt_neox_names(depth: int, heads: int, *, tied: bool = True) -> ParameterNames:
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
        **untied_head(tied),
    }


def _neox_rope(hf: Json) -> tuple[float, float]:
    return rope(hf, hf.get("rotary_emb_base", ROPE_THETA), hf.get("rotary_pct", ROTARY_SHARE))


GPT_NEOX = Architecture[DecoderConfig](
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
    keys=GPT_NEOX_KEYS,
    settings={
        "width": "hidden_size",
        "depth": "num_hidden_layers",
        "heads": "num_attention_heads",
        "norm.epsilon": "layer_norm_eps",
        "feedforward.hidden": "intermediate_size",
        "feedforward.activation": "hidden_act",
    },
    fixed={**PRE_NORM, "position.kind": "rotary"},
    more_keys=lambda config, sizes: {
        **text_keys(config, sizes),
        "max_position_embeddings": sizes.length,
        "use_parallel_residual": False,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": setting(config, "position.theta"),
            "partial_rotary_factor": setting(config, "position.share"),
        },
    },
    more_settings=lambda hf: {
        **shared_embedding(hf),
        **dict(zip(("position.theta", "position.share"), _neox_rope(hf), strict=True)),
    },
    parameter_names=lambda config: gpt_neox_names(config.depth, config.heads, tied=config.embedding.shares_output),
    renames=((r"^embed_out\.", "lm_head."),),
    ties=lambda settings: ties("gpt_neox.embed_in.weight", settings),
    tied_head=("lm_head.weight",),
    ignored=(*_causal_masks(r"layers\.\d+\.attention"), inverse_frequencies(lambda hf: _neox_rope(hf)[0])),
    base_model_prefix="gpt_neox.",
    head_prefixes=("lm_head.",),
)
