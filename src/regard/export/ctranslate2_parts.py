"""Our weights in the specifications of CTranslate2, part by part."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.export.huggingface.architecture import sinusoid_table

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu-tanh": "GELUTanh", "silu": "SWISH", "tanh": "Tanh"}

Numbers = NDArray[np.float32]


def activation_of(config: Any) -> Any:  # noqa: ANN401
    """The library's name of a bend."""
    from ctranslate2.specs import common_spec

    return common_spec.Activation[ACTIVATIONS[config.feedforward.activation]]


def positions_of(config: Any, decoder: bool = True) -> dict[str, Any]:  # noqa: ANN401
    """The options of a specification that say the kind of positions."""
    position = config.position
    if position.kind == "rotary":
        return {
            "rotary_dim": int(config.head_width * position.share),
            "rotary_interleave": position.interleaved,
            "rotary_base": position.theta,
        }
    if position.kind == "alibi":
        return {"alibi": True, "alibi_use_positive_positions": True}
    if position.kind == "relative":
        return {"relative_position": True}
    return {"relative_attention_bias": True} if position.kind == "t5" else {}


@dataclass(frozen=True)
class Parts:
    """A model's settings and weights, to be put into a specification."""

    config: Any
    weights: Mapping[str, Tensor]
    room: int
    """Places in a table of positions."""
    spare: int = 0
    """Zeros behind the end of a learned table."""

    def options(self) -> dict[str, Any]:
        """What encoder and decoder are told alike."""
        config = self.config
        kv_heads = config.attention.kv_heads or config.heads
        return {
            "pre_norm": config.norm_place == "before",
            "activation": activation_of(config),
            "layernorm_embedding": config.embedding.norm,
            "ffn_glu": config.feedforward.kind == "gated",
            "rms_norm": config.norm.kind == "rms",
            "num_heads_kv": kv_heads if kv_heads != config.heads else None,
            "head_dim": config.head_width if config.head_width * config.heads != config.width else None,
        }

    def fill_stack(self, spec: Any, name: str, embedding: str, depth: int, cross: bool = False) -> None:  # noqa: ANN401
        """Embedding, positions, blocks and the norms at both ends."""
        config = self.config
        tables = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
        tables.weight = self._numbers(f"{embedding}.table.weight")
        spec.scale_embeddings = config.embedding.scale
        if hasattr(spec, "position_encodings") and config.position.kind in ("sinusoidal", "learned"):
            spec.position_encodings.encodings = self._table(name)
        elif hasattr(spec, "position_encodings"):
            del spec.position_encodings
        if config.embedding.norm:
            self._norm(spec.layernorm_embedding, f"{name}.input_norm")
        if config.has_final_norm:
            self._norm(spec.layer_norm, f"{name}.final_norm")
        for layer in range(depth):
            self._block(spec.layer[layer], name, layer, cross)

    def fill_head(self, spec: Any, embedding: str) -> None:  # noqa: ANN401
        """The output layer; a division by √width is multiplied into its matrix."""
        head = self.config.head
        own = f"{embedding}.table.weight" if self.config.embedding.shares_output else "head.linear.weight"
        weight = self.weights[own] * (self.config.width**-0.5 if head.scale else 1.0)
        spec.projection.weight = weight.numpy()
        if head.bias:
            spec.projection.bias = self._numbers("head.bias")

    def _block(self, spec: Any, stack: str, layer: int, cross: bool) -> None:  # noqa: ANN401
        name = f"{stack}.blocks.{layer}"
        self._norm(spec.self_attention.layer_norm, f"{name}.around_attention.norm")
        self._attention(spec.self_attention, f"{name}.attention", fused=("query", "key", "value"))
        self._distances(spec.self_attention, stack, layer)
        if cross:
            self._norm(spec.attention.layer_norm, f"{name}.around_cross.norm")
            self._attention(spec.attention, f"{name}.cross", fused=("key", "value"))
        self._norm(spec.ffn.layer_norm, f"{name}.around_feedforward.norm")
        gated = self.config.feedforward.kind == "gated"
        self._linear(spec.ffn.linear_0, f"{name}.feedforward.{'gate' if gated else 'up'}")
        if gated:
            self._linear(spec.ffn.linear_0_noact, f"{name}.feedforward.up")
        self._linear(spec.ffn.linear_1, f"{name}.feedforward.down")

    def _attention(self, spec: Any, name: str, fused: tuple[str, ...]) -> None:  # noqa: ANN401
        """Maps of one input lie one below the other; the scale is another's business where scores are not divided."""
        maps = [(f"{name}.{part}",) for part in ("query",) if part not in fused]
        maps += [tuple(f"{name}.{part}" for part in fused), (f"{name}.output",)]
        for linear, names in zip(spec.linear, maps, strict=True):
            self._linear(linear, *names)
        if not self.config.attention.scaled:
            spec.queries_scale = np.float32(1.0)

    def _distances(self, spec: Any, stack: str, layer: int) -> None:  # noqa: ANN401
        """What scores owe to distances: a bias for buckets, or vectors on keys and values."""
        position = self.config.position
        if position.kind not in ("t5", "relative"):
            return
        table = f"{stack}.positions.{0 if position.shared else layer}"
        if position.kind == "t5":
            spec.relative_attention_bias = self._numbers(f"{table}.table")
            spec.relative_attention_max_distance = np.dtype("int32").type(position.farthest)
        else:
            spec.relative_position_keys = self._numbers(f"{table}.key_table")
            spec.relative_position_values = self._numbers(f"{table}.value_table")

    def _linear(self, spec: Any, *names: str) -> None:  # noqa: ANN401
        weights = [self.weights[f"{name}.weight"] for name in names]
        spec.weight = torch.cat(weights).contiguous().numpy()
        if f"{names[0]}.bias" in self.weights:
            spec.bias = torch.cat([self.weights[f"{name}.bias"] for name in names]).numpy()

    def _norm(self, spec: Any, name: str) -> None:  # noqa: ANN401
        width = self.config.width
        spec.gamma = self.weights.get(f"{name}.gain", torch.ones(width)).numpy()
        if self.config.norm.kind == "layer":
            spec.beta = self.weights.get(f"{name}.shift", torch.zeros(width)).numpy()

    def _table(self, stack: str) -> Numbers:
        learned = f"{stack}.positions.0.table.weight"
        if learned not in self.weights:
            return sinusoid_table(self.config, self.room).numpy()
        return np.pad(self._numbers(learned), ((0, self.spare), (0, 0)))

    def _numbers(self, name: str) -> Numbers:
        return self.weights[name].contiguous().numpy()
