"""Scaled dot-product attention as the lectures write it: slow, obvious, every intermediate result kept.

The 'fuzzy hash table' in four steps:

    1. project   q = W_q x,  k = W_k x,  v = W_v x          `Attention` in module.py
    2. score     e_ij = q_i·k_j / √d_k                      batch × heads × query × key
    3. softmax   α_ij = exp(e_ij) / Σ_j exp(e_ij)           over the keys j that query i may attend to
    4. weigh     y_i = Σ_j α_ij v_j                         batch × heads × query × value_width

Fast paths (`nn/fast`) are tested against `reference_attention`, and the page shows its steps.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.nn.pattern import Pattern
from regard.nn.position import Bias

Query = Float[Tensor, "batch heads query head_width"]
Key = Float[Tensor, "batch kv_heads key head_width"]
Value = Float[Tensor, "batch kv_heads key value_width"]
Output = Float[Tensor, "batch heads query value_width"]
Scores = Float[Tensor, "batch heads query key"]


@dataclass(frozen=True, eq=False)
class AttentionSteps:
    """Everything between the projections and the output projection."""

    scores: Scores
    """q_i·k_j"""
    scaled: Scores
    """divided by √d_k, plus the position bias if there is one"""
    masked: Scores
    """−∞ where the query may not attend"""
    weights: Scores
    """after the softmax: rows sum to one, or are zero where all keys are masked"""
    output: Output
    """Σ_j α_ij v_j"""


def reference_attention(
    q: Query,
    k: Key,
    v: Value,
    pattern: Pattern | None = None,
    bias: Bias | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    values_by_distance: Callable[[Scores], Output | None] | None = None,
) -> AttentionSteps:
    """softmax(QKᵀ/√d_k + bias) V over the pairs that the pattern allows."""
    batch, heads, queries, head_width = q.shape
    k, v = _repeat_kv(k, heads), _repeat_kv(v, heads)
    scores = q @ k.transpose(-2, -1)
    scaled = scores * (1 / math.sqrt(head_width) if scale is None else scale)
    if bias is not None:
        scaled = scaled + bias.dense(batch, queries, k.shape[2])
    masked = scaled
    if pattern is not None:
        masked = scaled.masked_fill(~pattern.dense(batch, heads, queries, k.shape[2], q.device), -torch.inf)
    weights = _softmax(masked, pattern is not None and pattern.may_mask_all_keys)
    dropped = F.dropout(weights, dropout)
    output = dropped @ v
    extra = values_by_distance(dropped) if values_by_distance else None
    return AttentionSteps(scores, scaled, masked, weights, output if extra is None else output + extra)


def _softmax(scores: Scores, may_mask_all_keys: bool) -> Scores:
    """Softmax over the keys; zero weights instead of 0/0 where all keys are masked."""
    if not may_mask_all_keys:
        return scores.softmax(-1)
    all_masked = (scores == -torch.inf).all(-1, keepdim=True)
    return scores.masked_fill(all_masked, 0.0).softmax(-1).masked_fill(all_masked, 0.0)


def _repeat_kv(x: Tensor, heads: int) -> Tensor:
    """Grouped-query attention: keys or values repeated for each query head that shares them."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def self_attention(x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
    """y_i = Σ_j softmax_j(x_i·x_j) x_j: attention in its plainest form, without any parameter."""
    return reference_attention(x[:, None], x[:, None], x[:, None], scale=1.0).output[:, 0]


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, list[AttentionSteps]]]:
    """Records the steps of every attention of a model, by module name, while the `with` block lasts.

    Works on any model, however it was trained: recorded passes use `reference_attention`.
    """
    records: dict[str, list[AttentionSteps]] = {}
    modules = {name: module for name, module in model.named_modules() if hasattr(module, "recorder")}
    for name, module in modules.items():
        vars(module)["recorder"] = records.setdefault(name, []).append
    try:
        yield records
    finally:
        for module in modules.values():
            vars(module)["recorder"] = None
