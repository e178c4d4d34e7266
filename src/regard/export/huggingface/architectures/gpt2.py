"""GPT-2: `GPT2LMHeadModel`."""

from typing import Any

from regard.export.huggingface.architecture import (
    INITIALISATION,
    OTHER_HEAD,
    RECORD,
    SPEED,
    TO_ACTIVATION,
    TRAINING,
    Architecture,
    Sizes,
    activation,
    base_keys,
    register,
)
from regard.export.huggingface.architectures.decoder_only import (
    ADDED_POSITIONS,
    DECODER,
    LAYER_NORM,
    SPECIAL,
    causal_masks,
    embedding_settings,
    tied_head,
)
from regard.export.huggingface.config_keys import aliases, honoured, irrelevant, refused
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
from regard.export.supported_settings import standard_heads

KEYS = (
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


def parameter_names(depth: int, *, tied: bool = True) -> ParameterNames:
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
        **({} if tied else linear("head.linear", "lm_head", bias=False)),
    }


def _to_config(config: Any, sizes: Sizes) -> dict[str, Any]:  # noqa: ANN401
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


def _from_config(hf: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "decoder",
        "width": hf["n_embd"],
        "depth": hf["n_layer"],
        "heads": hf["n_head"],
        "position": {"kind": "learned", "length": hf["n_positions"]},
        "norm": {"kind": "layer", "epsilon": hf["layer_norm_epsilon"]},
        "feedforward": {
            "kind": "plain",
            "hidden": 4 * hf["n_embd"] if hf["n_inner"] is None else hf["n_inner"],
            "activation": activation(hf["activation_function"], "activation_function"),
        },
        "embedding": embedding_settings(hf),
        "initialise": {"kind": "normal"},
    }


GPT2 = register(
    Architecture(
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
        to_config=_to_config,
        from_config=_from_config,
        parameter_names=lambda config: parameter_names(config.depth, tied=config.embedding.shares_output),
        keys=KEYS,
        learned_positions_only=True,
        ties=lambda settings: tied_head("transformer.wte.weight", settings),
        tied_head=("lm_head.weight",),
        ignored=causal_masks(r"h\.\d+\.attn"),
        base_model_prefix="transformer.",
        head_prefixes=("lm_head.",),
        base_class="GPT2Model",
    )
)
