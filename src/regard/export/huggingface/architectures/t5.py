"""T5: `T5ForConditionalGeneration`, without biases, one table of distances for each stack, kept in its first layer."""

from regard.errors import ConfigError
from regard.export.huggingface.architecture import (
    INITIALISATION,
    SPEED,
    TO_ACTIVATION,
    TRAINING,
    UNTIED,
    Architecture,
    Ignored,
    Sizes,
    base_keys,
    our_activation,
)
from regard.export.huggingface.architectures.bart import SPECIAL
from regard.export.huggingface.config_keys import NO_DEFAULT, Json, aliases, honoured, irrelevant, refused
from regard.export.huggingface.parameter_names import (
    ParameterNames,
    TensorView,
    attention,
    layers,
    linear,
    norm,
    prefixed,
    union,
)
from regard.export.supported_settings import STANDARD, Supported, same_in_decoder, setting
from regard.models import EncoderDecoderConfig

KEYS = (
    base_keys("t5", encoder_decoder=True)
    | honoured(
        vocab_size=32128,
        d_model=512,
        d_kv=64,
        d_ff=2048,
        num_layers=6,
        num_decoder_layers=None,
        num_heads=8,
        relative_attention_num_buckets=32,
        relative_attention_max_distance=128,
        layer_norm_epsilon=1e-6,
        feed_forward_proj="relu",
        pad_token_id=0,
        eos_token_id=1,
        **dict.fromkeys(
            ("decoder_start_token_id", "tie_word_embeddings", "scale_decoder_outputs", "dense_act_fn", "is_gated_act"),
            NO_DEFAULT,
        ),
    )
    | irrelevant(TRAINING, dropout_rate=0.1, classifier_dropout=0.0)
    | irrelevant(INITIALISATION, initializer_factor=1.0)
    | irrelevant(SPEED, use_cache=True)
    | irrelevant("the length of texts in its training; relative positions know no limit", "n_positions")
    | refused("is_decoder", False, default=False)
    | aliases(hidden_size="d_model", num_attention_heads="num_heads", num_hidden_layers="num_layers", head_dim="d_kv")
)


def _attention(ours: str, theirs: str) -> ParameterNames:
    """One attention with its norm."""
    projections = prefixed(ours, theirs, attention("q k v o", bias=False))
    return projections | norm(f"around_{ours}.norm", f"{theirs.rpartition('.')[0]}.layer_norm", shift=False)


def _feedforward(theirs: str, *, gated: bool) -> ParameterNames:
    """The feed-forward part with its norm."""
    names = {"gate": "wi_0", "up": "wi_1", "down": "wo"} if gated else {"up": "wi", "down": "wo"}
    matrices = union(linear(our, f"DenseReluDense.{their}", bias=False) for our, their in names.items())
    return prefixed("feedforward", theirs, matrices) | norm(
        "around_feedforward.norm", f"{theirs}.layer_norm", shift=False
    )


def parameter_names(depth: int, decoder_depth: int | None = None, *, gated: bool, tied: bool = True) -> ParameterNames:
    self_attention = _attention("attention", "layer.0.SelfAttention")
    encoder = self_attention | _feedforward("layer.1", gated=gated)
    cross = _attention("cross", "layer.1.EncDecAttention")
    decoder = self_attention | cross | _feedforward("layer.2", gated=gated)
    distances = TensorView("block.0.layer.0.SelfAttention.relative_attention_bias.weight")
    stack = {"positions.0.table": distances, **norm("final_norm", "final_layer_norm", shift=False)}
    return {
        "target_embedding.table.weight": TensorView("shared.weight"),
        **prefixed("encoder", "encoder", stack | layers(depth, "blocks", "block", encoder)),
        **prefixed("decoder", "decoder", stack | layers(decoder_depth or depth, "blocks", "block", decoder)),
        **({} if tied else linear("head.linear", "lm_head", bias=False)),
    }


def _supported(config: EncoderDecoderConfig) -> Supported:
    gated = config.feedforward.kind == "gated"
    return {
        **STANDARD,
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
        **same_in_decoder(config),
    }


def _more_keys(config: EncoderDecoderConfig, sizes: Sizes) -> Json:
    theirs = TO_ACTIVATION[str(setting(config, "feedforward.activation"))]
    gated = "gated-gelu" if theirs == "gelu_new" else f"gated-{theirs}"
    return {
        **SPECIAL,
        "vocab_size": sizes.vocab,
        "num_decoder_layers": config.target_depth,
        "feed_forward_proj": gated if config.feedforward.kind == "gated" else theirs,
        "tie_word_embeddings": True,
    }


def _activation(hf: Json) -> tuple[bool, str]:
    """Whether the feed-forward layer is gated, and its activation."""
    gate, _, name = hf["feed_forward_proj"].rpartition("-")
    if gate not in ("", "gated"):
        raise ConfigError("feed_forward_proj", f"expected an activation or gated-…, got '{hf['feed_forward_proj']}'")
    name = hf.get("dense_act_fn", "gelu_new" if gate and name == "gelu" else name)
    gated = hf.get("is_gated_act", bool(gate))
    if not isinstance(gated, bool):
        raise ConfigError("is_gated_act", f"expected true or false, got {gated!r}")
    return gated, our_activation(name, "dense_act_fn" if "dense_act_fn" in hf else "feed_forward_proj")


def _scales(hf: Json) -> bool:
    """Whether vectors are divided by √width before the output layer: the library's reading of an older key."""
    scale = hf.get("scale_decoder_outputs", hf.get("tie_word_embeddings") is not False)
    if not isinstance(scale, bool):
        raise ConfigError("scale_decoder_outputs", f"expected true or false, got {scale!r}")
    return scale


def _more_settings(hf: Json) -> Json:
    gated, activation = _activation(hf)
    return {
        "decoder_depth": hf["num_layers"] if hf["num_decoder_layers"] is None else hf["num_decoder_layers"],
        "feedforward.kind": "gated" if gated else "plain",
        "feedforward.activation": activation,
        "embedding.share": "inputs" if hf[UNTIED] else "all",
        "head.scale": _scales(hf),
    }


T5 = Architecture[EncoderDecoderConfig](
    name="T5",
    class_name="T5ForConditionalGeneration",
    auto_class="AutoModelForSeq2SeqLM",
    model_type="t5",
    shape="encoder-decoder",
    task="translation",
    supported=_supported,
    keys=KEYS,
    settings={
        "width": "d_model",
        "depth": "num_layers",
        "decoder_depth": "num_decoder_layers",
        "heads": "num_heads",
        "attention.head_width": "d_kv",
        "position.buckets": "relative_attention_num_buckets",
        "position.farthest": "relative_attention_max_distance",
        "norm.epsilon": "layer_norm_epsilon",
        "feedforward.hidden": "d_ff",
    },
    fixed={
        "attention.kind": "full",
        "attention.bias": False,
        "attention.scaled": False,
        "position.kind": "t5",
        "norm.kind": "rms",
        "feedforward.bias": False,
        "embedding.scale": False,
        "head.kind": "vocabulary",
    },
    more_keys=_more_keys,
    more_settings=_more_settings,
    parameter_names=lambda config: parameter_names(
        config.depth,
        config.target_depth,
        gated=config.feedforward.kind == "gated",
        tied=config.embedding.shares_output,
    ),
    ties=lambda settings: dict.fromkeys(
        ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"), "shared.weight"
    ),
    tied_head=("lm_head.weight",),
    ignored=(
        Ignored(
            r"^decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight$",
            "a table of distances to the source, which nothing is computed with",
        ),
    ),
)
