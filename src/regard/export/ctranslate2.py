"""A CTranslate2 folder: the model by the library's specifications, its vocabulary, and our tokenizer beside it.

An engine needs the folder and the libraries ctranslate2 and tokenizers, no torch: `regard.json` says the task, which
tokens surround a text, and how long it may be.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import ConfigError, RegardError
from regard.export.exported_model import ExportedModel, Row, TextConfig, sinusoid_table
from regard.export.huggingface.id_mapping import without_id_mapping
from regard.export.parity import Compared, ExportedFolder, ExportTarget, Scores, target_scores
from regard.export.supported_settings import (
    ABOVE_ZERO,
    STANDARD,
    Supported,
    feedforward_of,
    same_in_decoder,
    setting,
    unsupported_error,
    unsupported_settings,
)
from regard.models import DecoderConfig, EncoderDecoderConfig, ModelConfig
from regard.nn.head import VocabularyHeadConfig
from regard.nn.position import RelativeConfig, RotaryConfig, T5Config
from regard.text.special_tokens import BOS, EOS, SEP, SPECIAL_TOKENS, UNK
from regard.text.tokenizer import save_tokenizers

HINT = "train with settings that fit, or export to onnx, which takes any kind of model"
Spec = Any
"""A part of a specification of the library, which has no types: its attributes are weights and other parts."""
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu-tanh": "GELUTanh", "silu": "SWISH", "tanh": "Tanh"}


def require_ctranslate2() -> ModuleType:
    try:
        import ctranslate2
    except ImportError:
        raise RegardError("CTranslate2 folders need an extra library: pip install 'regard[ctranslate2]'") from None
    return ctranslate2


def _supported(config: TextConfig) -> Supported:
    decoder_only = not isinstance(config, EncoderDecoderConfig)
    positions = ("sinusoidal", "learned", "relative", *(("rotary", "alibi") if decoder_only else ("rotary", "t5")))
    return {
        **STANDARD,
        "norm.kind": ("layer", "rms"),
        "norm.epsilon": (ABOVE_ZERO,),
        "norm.epsilon_inside": (True,),
        "final_norm": (config.norm_place == "before",),
        "position.kind": positions,
        "position.combine": ("add",),
        "position.layers": ("first",),
        "position.values": (True,),
        "feedforward.kind": ("plain", "gated"),
        "feedforward.activation": tuple(ACTIVATIONS),
        "embedding.segments": (0,),
        "head.kind": ("vocabulary",),
        **({} if decoder_only else same_in_decoder(config)),
    }


def refuse_unsupported(config: ModelConfig) -> None:
    if not isinstance(config, EncoderDecoderConfig | DecoderConfig):
        raise ConfigError(
            "model.kind", f"CTranslate2 folders hold 'encoder-decoder' or 'decoder', got '{config.kind}'; {HINT}"
        )
    if unsupported := unsupported_settings(config, _supported(config)):
        raise unsupported_error("CTranslate2", unsupported, HINT)


def write_ctranslate2(exported: ExportedModel, folder: Path, *, int8: bool = False) -> str:
    """Writes model.bin, config.json, the vocabulary, tokenizer.json and regard.json; returns the specification."""
    refuse_unsupported(exported.resolved_config)
    config, weights = without_id_mapping(exported)
    filler = SpecFiller(config, weights, exported.max_positions, exported.spare_positions)
    spec = _encoder_decoder_spec(exported, filler) if exported.encoder_decoder else _decoder_spec(exported, filler)
    spec.config.bos_token, spec.config.eos_token = SPECIAL_TOKENS[BOS], SPECIAL_TOKENS[EOS]
    spec.config.unk_token, spec.config.layer_norm_epsilon = SPECIAL_TOKENS[UNK], setting(config, "norm.epsilon")
    spec.validate()
    # quantises in place: `weights` are copies
    spec.optimize(quantization="int8" if int8 else None)
    spec.save(str(folder))
    save_tokenizers(exported.tokenizers, folder)
    settings = {
        "task": exported.task,
        "longest": exported.length,
        "documents": exported.documents,
        "forbidden": _suppressed(exported),
        "joint": exported.joint,
        **exported.input_settings(),
    }
    (folder / "regard.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    return type(spec).__name__


def _suppressed(exported: ExportedModel) -> list[str]:
    return [SPECIAL_TOKENS[token] for token in exported.suppressed]


def _encoder_decoder_spec(exported: ExportedModel, filler: "SpecFiller") -> Spec:
    config, specs = filler.config, require_ctranslate2().specs.transformer_spec
    assert isinstance(config, EncoderDecoderConfig)
    options = filler.options()
    encoder = specs.TransformerEncoderSpec(config.depth, config.heads, **options)
    decoder = specs.TransformerDecoderSpec(config.target_depth, config.heads, **options)
    spec = specs.TransformerSpec(encoder, decoder)
    source = "target_embedding" if config.embedding.shares_inputs else "source_embedding"
    filler.fill_stack(spec.encoder, "encoder", source, config.depth)
    filler.fill_stack(spec.decoder, "decoder", "target_embedding", config.target_depth, cross=True)
    filler.fill_head(spec.decoder, "target_embedding")
    spec.register_source_vocabulary(exported.source.names)
    spec.register_target_vocabulary(exported.target.names)
    spec.config.add_source_eos = True
    spec.config.decoder_start_token = SPECIAL_TOKENS[BOS]
    return spec


def _decoder_spec(exported: ExportedModel, filler: "SpecFiller") -> Spec:
    config, specs = filler.config, require_ctranslate2().specs.transformer_spec
    decoder = specs.TransformerDecoderSpec(config.depth, config.heads, with_encoder_attention=False, **filler.options())
    spec = specs.TransformerDecoderModelSpec(decoder)
    filler.fill_stack(spec.decoder, "stack", "embedding", config.depth)
    filler.fill_head(spec.decoder, "embedding")
    spec.register_vocabulary(exported.target.names)
    return spec


@dataclass(frozen=True)
class SpecFiller:
    """A model's settings and weights, to be put into a specification."""

    config: TextConfig
    weights: Mapping[str, Tensor]
    max_positions: int
    """Rows of a table of sinusoids."""
    spare_positions: int = 0
    """Rows of zeros behind the end of a learned table."""

    def options(self) -> dict[str, object]:
        """The options of both encoder and decoder."""
        from ctranslate2.specs import common_spec

        config = self.config
        kv_heads = config.attention.kv_heads or config.heads
        return {
            "pre_norm": config.norm_place == "before",
            "activation": common_spec.Activation[ACTIVATIONS[feedforward_of(config).activation]],
            "layernorm_embedding": config.embedding.norm,
            "ffn_glu": config.feedforward.kind == "gated",
            "rms_norm": config.norm.kind == "rms",
            "num_heads_kv": kv_heads if kv_heads != config.heads else None,
            "head_dim": config.head_width if config.head_width * config.heads != config.width else None,
            **self._position_options(),
        }

    def _position_options(self) -> dict[str, object]:
        position = self.config.position
        if isinstance(position, RotaryConfig):
            return {
                "rotary_dim": int(self.config.head_width * position.share),
                "rotary_interleave": position.interleaved,
                "rotary_base": position.theta,
            }
        if position.kind == "alibi":
            return {"alibi": True, "alibi_use_positive_positions": True}
        if position.kind == "relative":
            return {"relative_position": True}
        return {"relative_attention_bias": True} if position.kind == "t5" else {}

    def fill_stack(self, spec: Spec, name: str, embedding: str, depth: int, cross: bool = False) -> None:
        """Embedding, positions, blocks and the norms at both ends."""
        config = self.config
        embeddings = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
        embeddings.weight = self._array(f"{embedding}.table.weight")
        spec.scale_embeddings = config.embedding.scale
        if hasattr(spec, "position_encodings") and config.position.kind in ("sinusoidal", "learned"):
            spec.position_encodings.encodings = self._position_table(name)
        elif hasattr(spec, "position_encodings"):
            del spec.position_encodings
        if config.embedding.norm:
            self._norm(spec.layernorm_embedding, f"{name}.input_norm")
        if config.has_final_norm:
            self._norm(spec.layer_norm, f"{name}.final_norm")
        for layer in range(depth):
            self._block(spec.layer[layer], name, layer, cross)

    def fill_head(self, spec: Spec, embedding: str) -> None:
        """The output layer; a division by √width is multiplied into its matrix."""
        head = self.config.head
        assert isinstance(head, VocabularyHeadConfig)
        name = f"{embedding}.table.weight" if self.config.embedding.shares_output else "head.linear.weight"
        weight = self.weights[name] * (self.config.width**-0.5 if head.scale else 1.0)
        spec.projection.weight = weight.numpy()
        if head.bias:
            spec.projection.bias = self._array("head.bias")

    def _block(self, spec: Spec, stack: str, layer: int, cross: bool) -> None:
        name = f"{stack}.blocks.{layer}"
        self._norm(spec.self_attention.layer_norm, f"{name}.around_attention.norm")
        self._attention(spec.self_attention, f"{name}.attention", ("query", "key", "value"), ("output",))
        self._relative_positions(spec.self_attention, stack, layer)
        if cross:
            self._norm(spec.attention.layer_norm, f"{name}.around_cross.norm")
            self._attention(spec.attention, f"{name}.cross", ("query",), ("key", "value"), ("output",))
        self._norm(spec.ffn.layer_norm, f"{name}.around_feedforward.norm")
        gated = self.config.feedforward.kind == "gated"
        self._linear(spec.ffn.linear_0, f"{name}.feedforward.{'gate' if gated else 'up'}")
        if gated:
            self._linear(spec.ffn.linear_0_noact, f"{name}.feedforward.up")
        self._linear(spec.ffn.linear_1, f"{name}.feedforward.down")

    def _attention(self, spec: Spec, name: str, *fused: tuple[str, ...]) -> None:
        """Projections of one input are fused into one matrix."""
        for linear, projections in zip(spec.linear, fused, strict=True):
            self._linear(linear, *(f"{name}.{projection}" for projection in projections))
        if not self.config.attention.scaled:
            spec.queries_scale = np.float32(1.0)

    def _relative_positions(self, spec: Spec, stack: str, layer: int) -> None:
        position = self.config.position
        if not isinstance(position, T5Config | RelativeConfig):
            return
        table = f"{stack}.positions.{0 if position.shared else layer}"
        if isinstance(position, T5Config):
            spec.relative_attention_bias = self._array(f"{table}.table")
            spec.relative_attention_max_distance = np.dtype("int32").type(position.farthest)
        else:
            spec.relative_position_keys = self._array(f"{table}.key_table")
            spec.relative_position_values = self._array(f"{table}.value_table")

    def _linear(self, spec: Spec, *names: str) -> None:
        spec.weight = torch.cat([self.weights[f"{name}.weight"] for name in names]).contiguous().numpy()
        if f"{names[0]}.bias" in self.weights:
            spec.bias = torch.cat([self.weights[f"{name}.bias"] for name in names]).numpy()

    def _norm(self, spec: Spec, name: str) -> None:
        width = self.config.width
        spec.gamma = self.weights.get(f"{name}.gain", torch.ones(width)).numpy()
        if self.config.norm.kind == "layer":
            spec.beta = self.weights.get(f"{name}.shift", torch.zeros(width)).numpy()

    def _position_table(self, stack: str) -> NDArray[np.float32]:
        learned = f"{stack}.positions.0.table.weight"
        if learned not in self.weights:
            return sinusoid_table(self.config, self.max_positions).numpy()
        return np.pad(self._array(learned), ((0, self.spare_positions), (0, 0)))

    def _array(self, name: str) -> NDArray[np.float32]:
        return self.weights[name].contiguous().numpy()


class CTranslate2:
    """The exported folder, run by ctranslate2."""

    def __init__(self, exported: ExportedModel, folder: Path, *, int8: bool = False) -> None:
        library = require_ctranslate2()
        self.exported = exported
        self.source, self.target = exported.source.names, exported.target.names
        self.ids = {token: number for number, token in enumerate(self.target)}
        kind = library.Translator if exported.encoder_decoder else library.Generator
        precision = "int8" if int8 else "float32"
        self.model = kind(str(folder), device="cpu", compute_type=precision, inter_threads=1, intra_threads=1)
        self.compared: Compared = "log-probabilities" if exported.encoder_decoder else "logits"

    def scores(self, rows: list[Row]) -> list[Scores]:
        """Log-probabilities of an encoder-decoder's target and its end; logits of a decoder."""
        if self.exported.encoder_decoder:
            results = self.model.score_batch(self._sources(rows), [self._tokens(row.target[1:]) for row in rows])
            return [np.array(result.log_probs, dtype=np.float32) for result in results]
        logits = self.model.forward_batch([self._tokens(row.target) for row in rows])
        return target_scores(torch.as_tensor(np.array(logits)).float().numpy(), rows)

    def greedy(self, rows: list[Row], max_length: int) -> list[list[int]]:
        suppressed = [[token] for token in _suppressed(self.exported)]
        options: dict[str, object] = {"suppress_sequences": suppressed, "beam_size": 1}
        if self.exported.encoder_decoder:
            results = self.model.translate_batch(
                self._sources(rows), max_decoding_length=max_length, max_input_length=0, **options
            )
            return [[self.ids[token] for token in result.hypotheses[0]] for result in results]
        if not self.exported.documents:
            options["end_token"] = []
        return self._continue([self._tokens(row.prompt) for row in rows], max_length=max_length, **options)

    def _continue(self, prompts: list[list[str]], **options: object) -> list[list[int]]:
        """Prompts of one length share a batch: of longer ones, the library would return the rest as if generated."""
        outputs: dict[int, list[int]] = {}
        for length in {len(prompt) for prompt in prompts}:
            indices = [index for index, prompt in enumerate(prompts) if len(prompt) == length]
            batch = [prompts[index] for index in indices]
            results = self.model.generate_batch(batch, include_prompt_in_result=False, **options)
            ids = [[self.ids[token] for token in result.sequences[0] if token != "<eos>"] for result in results]
            outputs.update(zip(indices, ids, strict=True))
        return [outputs[index] for index in range(len(prompts))]

    def _sources(self, rows: list[Row]) -> list[list[str]]:
        return [[self.source[token] for token in row.source[:-1]] for row in rows]

    def _tokens(self, ids: list[int]) -> list[str]:
        return [self.target[token] for token in ids]


def usage(exported: ExportedModel) -> str:
    """An example for the README."""
    cut = f"[:{exported.input_tokens - 1}]" if exported.input_tokens else ""
    lines = ["import ctranslate2", "from tokenizers import Tokenizer", ""]
    if exported.encoder_decoder:
        source = "tokenizer.json" if exported.joint else "tokenizer.source.json"
        target = "tokenizer" if exported.joint else 'Tokenizer.from_file("tokenizer.target.json")'
        lines += [
            f'tokenizer = Tokenizer.from_file("{source}")',
            'model = ctranslate2.Translator(".")',
            *exported.input_comment(),
            f'tokens = tokenizer.encode("Your text", add_special_tokens=False).tokens{cut}',
            "written = model.translate_batch([tokens], max_input_length=0)[0].hypotheses[0]",
            f"{target}.decode([{target}.token_to_id(token) for token in written])",
        ]
        return "\n".join(lines)
    lines += ['tokenizer, model = Tokenizer.from_file("tokenizer.json"), ctranslate2.Generator(".")']
    if not exported.prompted:
        lines += [
            'tokens = tokenizer.encode("Once upon", add_special_tokens=False).tokens',
            "model.generate_batch([tokens], max_length=100)[0].sequences[0]",
        ]
        return "\n".join(lines)
    options = f"max_length={exported.max_new_tokens}, include_prompt_in_result=False"
    separator = SPECIAL_TOKENS[SEP]
    lines += [
        *exported.input_comment(),
        f'tokens = tokenizer.encode("Your text", add_special_tokens=False).tokens{cut} + ["{separator}"]',
        f"written = model.generate_batch([tokens], {options})[0].sequences[0]",
        "tokenizer.decode([tokenizer.token_to_id(token) for token in written])",
    ]
    return "\n".join(lines)


def _write(exported: ExportedModel, folder: Path, int8: bool) -> ExportedFolder:
    layout = write_ctranslate2(exported, folder, int8=int8)
    return ExportedFolder(CTranslate2(exported, folder, int8=int8), layout, usage(exported))


TARGET = ExportTarget("ctranslate2", _write, int8=True)
