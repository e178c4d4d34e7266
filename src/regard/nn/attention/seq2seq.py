"""Attention of a recurrent or convolutional decoder to the source, as it was before the Transformer.

score     e_ij  dot       s_i · h_j                      (the lectures; widths must agree)
                general   s_i · W h_j                    (Luong 2015)
                additive  v · tanh(W s_i + U h_j + b)    (Bahdanau 2015)
softmax   α_ij = exp(e_ij) / Σ_j exp(e_ij)               over the tokens j of the source, padding left out
weigh     c_i = Σ_j α_ij h_j
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import PositiveInt
from torch import Tensor, nn

from regard.config import BARE_KIND, BY_KIND, Config
from regard.errors import ConfigError
from regard.nn.attention.reference import AttentionSteps
from regard.nn.dropout import Dropout

Queries = Float[Tensor, "batch query width"]
Source = Float[Tensor, "batch key source_width"]
Scores = Float[Tensor, "batch query key"]


@dataclass(frozen=True, eq=False)
class SourceKV:
    """Keys and values of the source for a decoder's attention, computed once per source."""

    keys: Float[Tensor, "batch key key_width"]
    values: Float[Tensor, "batch key source_width"]
    valid: Bool[Tensor, "batch key"] | None = None
    """False for padding; None: no padding."""

    def reorder(self, rows: Int[Tensor, " rows"]) -> "SourceKV":
        return SourceKV(self.keys[rows], self.values[rows], None if self.valid is None else self.valid[rows])


class Seq2SeqAttention(nn.Module):
    """c_i = Σ_j α_ij h_j; kinds differ in their keys and scores."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.scale = 1.0
        self.recorder: Callable[[AttentionSteps], None] | None = None

    def project_source(
        self, source: Source, valid: Bool[Tensor, "batch key"] | None = None, values: Source | None = None
    ) -> SourceKV:
        """`values` are the source itself unless given."""
        return SourceKV(self.keys(source), source if values is None else values, valid)

    def forward(self, x: Queries, source_kv: SourceKV) -> Float[Tensor, "batch query source_width"]:
        scores = self.scores(x, source_kv.keys)
        scaled = masked = scores * self.scale
        if source_kv.valid is not None:
            masked = scaled.masked_fill(~source_kv.valid[:, None], -torch.inf)
        weights = _softmax(masked, source_kv.valid)
        output = self.dropout(weights) @ source_kv.values.to(weights.dtype)
        if self.recorder is not None:
            self.recorder(AttentionSteps(*(step[:, None] for step in (scores, scaled, masked, weights, output))))
        return output

    def keys(self, source: Source) -> Float[Tensor, "batch key key_width"]:
        """What the queries are scored against."""
        return source

    def scores(self, x: Queries, keys: Float[Tensor, "batch key key_width"]) -> Scores:
        """e_ij, by default the dot product."""
        return x @ keys.transpose(1, 2).to(x.dtype)


def _softmax(scores: Scores, valid: Bool[Tensor, "batch key"] | None) -> Scores:
    """Softmax over the source; zero weights instead of 0/0 for an empty source."""
    if valid is None:
        return scores.softmax(-1)
    empty = ~valid.any(-1)[:, None, None]
    return scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)


class Seq2SeqAttentionConfig(Config):
    """Settings that all kinds share."""

    def build(self, width: int, source_width: int, dropout: float = 0.0) -> Seq2SeqAttention:
        raise TypeError(f"{type(self).__name__} must build its part")

    def num_params(self, width: int, source_width: int) -> int:
        return 0

    def flops(self, width: int, source_width: int, batch: int, queries: int, keys: int) -> int:
        return 2 * batch * queries * keys * (width + source_width)


class DotConfig(Seq2SeqAttentionConfig):
    """e = s·h, as in the lectures; source and target need one width."""

    kind: Literal["dot"] = "dot"
    scaled: bool = False
    """Divide scores by √width, as the Transformer does."""

    def build(self, width: int, source_width: int, dropout: float = 0.0) -> "DotAttention":
        return DotAttention(width, source_width, scaled=self.scaled, dropout=dropout)


class DotAttention(Seq2SeqAttention):
    """e_ij = s_i · h_j, by 1/√width if scaled."""

    def __init__(self, width: int, source_width: int, *, scaled: bool = False, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        if width != source_width:
            raise ConfigError(
                "model.attention", f"'dot' needs one width on both sides, got {width} and {source_width}; use 'general'"
            )
        self.scale = 1 / math.sqrt(width) if scaled else 1.0


class GeneralConfig(Seq2SeqAttentionConfig):
    """e = s·W h: the dot product after a learned projection (Luong 2015)."""

    kind: Literal["general"] = "general"
    scaled: bool = False
    """Divide scores by √width, as the Transformer does."""

    def build(self, width: int, source_width: int, dropout: float = 0.0) -> "GeneralAttention":
        return GeneralAttention(width, source_width, scaled=self.scaled, dropout=dropout)

    def num_params(self, width: int, source_width: int) -> int:
        return width * source_width

    def flops(self, width: int, source_width: int, batch: int, queries: int, keys: int) -> int:
        """Matmul FLOPs of one pass: the map of the source, then the dot products."""
        return super().flops(width, source_width, batch, queries, keys) + 2 * batch * keys * source_width * width


class GeneralAttention(Seq2SeqAttention):
    """e_ij = s_i · W h_j, by 1/√width if scaled."""

    def __init__(self, width: int, source_width: int, *, scaled: bool = False, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.map = nn.Linear(source_width, width, bias=False)
        self.scale = 1 / math.sqrt(width) if scaled else 1.0

    def keys(self, source: Source) -> Float[Tensor, "batch key key_width"]:
        return self.map(source)


class AdditiveConfig(Seq2SeqAttentionConfig):
    """e = v·tanh(W s + U h + b): a small network scores each pair (Bahdanau 2015). Slower: it has no fused form."""

    kind: Literal["additive"] = "additive"
    hidden: PositiveInt | None = None
    """Hidden width; the decoder's when left out."""

    def build(self, width: int, source_width: int, dropout: float = 0.0) -> "AdditiveAttention":
        return AdditiveAttention(width, source_width, self.hidden or width, dropout=dropout)

    def num_params(self, width: int, source_width: int) -> int:
        return (self.hidden or width) * (width + source_width + 2)

    def flops(self, width: int, source_width: int, batch: int, queries: int, keys: int) -> int:
        """Matmul FLOPs of one pass: both maps, the product with v, the sums."""
        hidden = self.hidden or width
        projections = 2 * batch * hidden * (queries * width + keys * source_width)
        return projections + 2 * batch * queries * keys * (hidden + source_width)


class AdditiveAttention(Seq2SeqAttention):
    """e_ij = v · tanh(W s_i + U h_j + b)."""

    def __init__(self, width: int, source_width: int, hidden: int, *, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.query = nn.Linear(width, hidden, bias=False)
        self.key = nn.Linear(source_width, hidden)
        self.vector = nn.Linear(hidden, 1, bias=False)

    def keys(self, source: Source) -> Float[Tensor, "batch key key_width"]:
        return self.key(source)

    def scores(self, x: Queries, keys: Float[Tensor, "batch key key_width"]) -> Scores:
        return self.vector(torch.tanh(self.query(x)[:, :, None] + keys[:, None])).squeeze(-1)


AnySeq2SeqAttentionConfig = Annotated[DotConfig | GeneralConfig | AdditiveConfig, BY_KIND, BARE_KIND]
