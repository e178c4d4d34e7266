"""Marian (norm after each sub-layer) and Pegasus (norm before): the family of BART with sinusoidal positions."""

from regard.errors import ConfigError
from regard.export.huggingface.architecture import (
    IN_GENERATION,
    INITIALISATION,
    SPEED,
    TRAINING,
    Architecture,
    Sizes,
    base_keys,
)
from regard.export.huggingface.config_keys import Json, Keys, aliases, honoured, irrelevant, refused
from regard.export.huggingface.parameter_names import (
    ParameterNames,
    TensorView,
    attention,
    layers,
    linear,
    norm,
    prefixed,
)
from regard.export.supported_settings import STANDARD, Supported, same_in_decoder, setting, standard_heads
from regard.models import EncoderDecoderConfig
from regard.text.special_tokens import BOS, EOS, PAD

SPECIAL = {
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": BOS,
    "forced_eos_token_id": None,
}
POSITION_TABLES = {
    "model.encoder.embed_positions.weight": "encoder.positions.0.table.weight",
    "model.decoder.embed_positions.weight": "decoder.positions.0.table.weight",
}
SHARED: dict[str, str] = dict.fromkeys(
    ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"), "model.shared.weight"
)
HEAD_PREFIXES = ("final_logits_bias", "lm_head.")


def _keys(model_type: str, *, norm_before: bool) -> Keys:
    return (
        base_keys(model_type, encoder_decoder=True)
        | honoured(
            max_position_embeddings=1024,
            encoder_layers=12,
            encoder_ffn_dim=4096,
            encoder_attention_heads=16,
            decoder_layers=12,
            decoder_ffn_dim=4096,
            decoder_attention_heads=16,
            activation_function="gelu",
            d_model=1024,
            scale_embedding=False,
        )
        | irrelevant(
            TRAINING,
            *("classif_dropout", "classifier_dropout"),
            encoder_layerdrop=0.0,
            decoder_layerdrop=0.0,
            dropout=0.1,
            attention_dropout=0.0,
            activation_dropout=0.0,
        )
        | irrelevant(INITIALISATION, init_std=0.02)
        | irrelevant(SPEED, use_cache=True)
        | irrelevant("rows that older position tables had; the rows of the table are counted", "extra_pos_embeddings")
        | refused("is_decoder", False, default=False)
        | refused("tie_word_embeddings", True, default=True)
        # of older folders: the library computes this, whatever they say
        | refused("normalize_embedding", False)
        | refused("static_position_embeddings", True)
        | refused("add_bias_logits", False)
        | refused("force_bos_token_to_be_generated", False)
        | refused("normalize_before", norm_before)
        | refused("add_final_layer_norm", norm_before)
        | aliases(
            num_attention_heads="encoder_attention_heads", hidden_size="d_model", num_hidden_layers="encoder_layers"
        )
    )


MARIAN_KEYS = (
    _keys("marian", norm_before=False)
    | honoured(
        vocab_size=58101,
        decoder_vocab_size=None,
        share_encoder_decoder_embeddings=True,
        decoder_start_token_id=58100,
        pad_token_id=58100,
        eos_token_id=0,
        bos_token_id=None,
    )
    | irrelevant(IN_GENERATION, forced_eos_token_id=0)
)
PEGASUS_KEYS = (
    _keys("pegasus", norm_before=True)
    | honoured(vocab_size=50265, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    | irrelevant(IN_GENERATION, forced_eos_token_id=1)
)


def marian_names(depth: int, decoder_depth: int | None = None, *, joint: bool = True) -> ParameterNames:
    """`MarianMTModel`, of one vocabulary (`joint`) or two; its position tables are constants, not parameters."""
    block = {
        **prefixed("attention", "self_attn", attention("q_proj k_proj v_proj out_proj")),
        **norm("around_attention.norm", "self_attn_layer_norm"),
        **linear("feedforward.up", "fc1"),
        **linear("feedforward.down", "fc2"),
        **norm("around_feedforward.norm", "final_layer_norm"),
    }
    cross = {
        **prefixed("cross", "encoder_attn", attention("q_proj k_proj v_proj out_proj")),
        **norm("around_cross.norm", "encoder_attn_layer_norm"),
    }
    separate = {
        "source_embedding.table.weight": TensorView("model.encoder.embed_tokens.weight"),
        "target_embedding.table.weight": TensorView("model.decoder.embed_tokens.weight"),
    }
    return {
        **({"target_embedding.table.weight": TensorView("model.shared.weight")} if joint else separate),
        **layers(depth, "encoder.blocks", "model.encoder.layers", block),
        **layers(decoder_depth or depth, "decoder.blocks", "model.decoder.layers", block | cross),
        "head.bias": TensorView("final_logits_bias"),
    }


def pegasus_names(depth: int, decoder_depth: int | None = None) -> ParameterNames:
    """`PegasusForConditionalGeneration`: Marian's names, and a norm after the last layer."""
    return {
        **marian_names(depth, decoder_depth),
        **norm("encoder.final_norm", "model.encoder.layer_norm"),
        **norm("decoder.final_norm", "model.decoder.layer_norm"),
    }


def _supported(config: EncoderDecoderConfig) -> Supported:
    return {
        **STANDARD,
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
        **standard_heads(config),
        **same_in_decoder(config),
    }


SETTINGS = {
    "width": "d_model",
    "depth": "encoder_layers",
    "decoder_depth": "decoder_layers",
    "heads": "encoder_attention_heads",
    "feedforward.hidden": "encoder_ffn_dim",
    "feedforward.activation": "activation_function",
    "embedding.scale": "scale_embedding",
}
FIXED = {
    "position.kind": "sinusoidal",
    "position.interleaved": False,
    "feedforward.kind": "plain",
    "norm.kind": "layer",
    "norm.epsilon": 1e-5,
    "head.kind": "vocabulary",
    "head.bias": True,
}


def _more_keys(config: EncoderDecoderConfig, sizes: Sizes) -> Json:
    return {
        **SPECIAL,
        "vocab_size": sizes.vocab,
        "decoder_layers": config.target_depth,
        "decoder_attention_heads": config.heads,
        "decoder_ffn_dim": setting(config, "feedforward.hidden"),
        "max_position_embeddings": config.position.longest or sizes.length,
        "tie_word_embeddings": True,
    }


def _more_settings(hf: Json, share: str) -> Json:
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = hf[f"encoder_{name}"], hf[f"decoder_{name}"]
        if encoder != decoder:
            raise ConfigError(f"decoder_{name}", f"expected that of the encoder, {encoder}, got {decoder}")
    return {"embedding.share": share}


MARIAN = Architecture[EncoderDecoderConfig](
    name="Marian",
    class_name="MarianMTModel",
    auto_class="AutoModelForSeq2SeqLM",
    model_type="marian",
    shape="encoder-decoder",
    task="translation",
    supported=lambda config: {
        **_supported(config),
        "norm_place": ("after",),
        "final_norm": (False,),
        "embedding.share": ("all", "output"),
    },
    keys=MARIAN_KEYS,
    settings=SETTINGS,
    fixed={**FIXED, "norm_place": "after"},
    more_keys=lambda config, sizes: {
        **_more_keys(config, sizes),
        "decoder_vocab_size": sizes.target_vocab,
        "share_encoder_decoder_embeddings": config.embedding.shares_inputs,
    },
    more_settings=lambda hf: _more_settings(hf, "all" if hf["share_encoder_decoder_embeddings"] else "output"),
    parameter_names=lambda config: marian_names(
        config.depth, config.target_depth, joint=config.embedding.shares_inputs
    ),
    position_tables=POSITION_TABLES,
    scales_embedding=True,
    ties=lambda settings: (
        SHARED
        if settings["share_encoder_decoder_embeddings"]
        else {"lm_head.weight": "model.decoder.embed_tokens.weight"}
    ),
    base_model_prefix="model.",
    head_prefixes=HEAD_PREFIXES,
)

PEGASUS = Architecture[EncoderDecoderConfig](
    name="Pegasus",
    class_name="PegasusForConditionalGeneration",
    auto_class="AutoModelForSeq2SeqLM",
    model_type="pegasus",
    shape="encoder-decoder",
    task="translation",
    supported=lambda config: {
        **_supported(config),
        "norm_place": ("before",),
        "final_norm": (True,),
        "embedding.share": ("all",),
    },
    keys=PEGASUS_KEYS,
    settings=SETTINGS,
    fixed={**FIXED, "norm_place": "before"},
    more_keys=_more_keys,
    more_settings=lambda hf: _more_settings(hf, "all"),
    parameter_names=lambda config: pegasus_names(config.depth, config.target_depth),
    position_tables=POSITION_TABLES,
    scales_embedding=True,
    ties=lambda settings: SHARED,
    base_model_prefix="model.",
    head_prefixes=HEAD_PREFIXES,
)
