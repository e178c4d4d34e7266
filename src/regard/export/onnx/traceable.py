"""Modules in a form that can be traced: nothing but tensors, symbolic sizes, a cache that grows by appending.

Recurrent layers become ONNX operators, experts are computed without sorting.
"""

import copy
from collections.abc import Sequence
from functools import partial
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.convolutional.convs2s import ROOT_HALF, GatedInputs, MultiStepAttention, SourceKV
from regard.models.stack import Stack
from regard.nn.attention.heads import join_heads
from regard.nn.attention.linformer import Linformer
from regard.nn.attention.memory_compressed import Compression, MemoryCompressed
from regard.nn.attention.module import NO_POSITION, Attention
from regard.nn.cache import CacheLengths, KVCache
from regard.nn.context import AttentionContext
from regard.nn.convolution import Convolution
from regard.nn.experts import Experts
from regard.nn.layout import PADDING, Layout
from regard.nn.pattern import Pattern
from regard.nn.position import Bias, Position, Relative
from regard.nn.position.base import Rule
from regard.nn.recurrent import HiddenState, RecurrentLayer

GATE_ORDER: dict[str, tuple[int, ...]] = {"rnn": (0,), "gru": (1, 0, 2), "lstm": (0, 3, 1, 2)}
"""Which of torch's gates stands where in ONNX: of an LSTM i, o, f, c, where torch has i, f, c, o."""
Attribute = int | float | str | bool | Sequence[int] | Sequence[float] | Sequence[str] | Sequence[bool]
"""Of an ONNX operator."""
LIFTED = "lifted"
"""Attribute of a traceable stack: its added tokens."""
AnyModule = TypeVar("AnyModule", bound=nn.Module)
DIRECTIONS = {"forward": "forward", "backward": "reverse", "both": "bidirectional"}


def traceable(model: AnyModule, max_positions: int) -> AnyModule:
    """A copy of a model whose parts can all be traced."""
    copied = copy.deepcopy(model).float().cpu().eval()
    for part in list(copied.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, RecurrentLayer):
                part._modules[name] = GraphRecurrence(child)
        for name, value in _replacements(part, max_positions).items():
            setattr(part, name, value)
    return copied


def _replacements(part: nn.Module, max_positions: int) -> dict[str, object]:
    """Attributes of a part that cannot be traced → what takes their place."""
    if isinstance(part, MultiStepAttention):
        return {"forward": partial(convs2s_attention, part)}
    if isinstance(part, Experts):
        return {"forward": partial(dense_experts, part)}
    if isinstance(part, Convolution):
        return {"_side_by_side": partial(windows, part)}
    if isinstance(part, GatedInputs):  # sizes are symbols, and the graph's own limits say how far it reaches
        return {"require_positions": lambda length: None}
    if isinstance(part, Stack):  # the graph prepends added tokens: the stack itself would count rows in Python
        return {LIFTED: part.added, "added": None}
    if not isinstance(part, Attention):
        return {}
    attend: dict[str, object] = {"_attend": GraphAttention(part)}
    if isinstance(part, Linformer):
        attend["forward"] = partial(linformer_attention, part)
    elif isinstance(part, MemoryCompressed):
        attend["forward"] = partial(memory_compressed_attention, part, max_positions)
    return attend


class GraphRecurrence(RecurrentLayer):
    """One recurrent layer as the operator that ONNX has for it; lengths say where rows end, as packing does here."""

    def __init__(self, layer: RecurrentLayer) -> None:
        nn.Module.__init__(self)
        self.inputs, self.width, self.cell, self.direction = layer.inputs, layer.width, layer.cell, layer.direction
        self.kernel = layer.kernel
        self.order = GATE_ORDER[layer.cell]
        self.input_weights: Tensor
        self.recurrent: Tensor
        self.biases: Tensor
        self.register_buffer("input_weights", self._sides("weight_ih_l0"))
        self.register_buffer("recurrent", self._sides("weight_hh_l0"))
        self.register_buffer("biases", torch.cat([self._sides("bias_ih_l0"), self._sides("bias_hh_l0")], 1))

    def _sides(self, name: str) -> Tensor:
        """A weight of each direction, its gates in the operator's order."""
        names = [name, f"{name}_reverse"] if self.kernel.bidirectional else [name]
        gates = [self.kernel.get_parameter(one).detach().split(self.kernel.hidden_size) for one in names]
        return torch.stack([torch.cat([side[gate] for gate in self.order]) for side in gates])

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, hidden_state: HiddenState | None = None
    ) -> tuple[Tensor, HiddenState]:
        """The vectors at all positions, and the state after each row's last token."""
        time, rows, sides, width = x.shape[1], x.shape[0], len(self.input_weights), self.kernel.hidden_size
        inputs = [x.transpose(0, 1), self.input_weights, self.recurrent, self.biases]
        inputs += [None if lengths is None else lengths.int(), None if hidden_state is None else hidden_state.hidden]
        settings: dict[str, Attribute] = {"hidden_size": width, "direction": DIRECTIONS[self.direction]}
        shapes = [[time, sides, rows, width], [sides, rows, width]]
        if self.cell == "lstm":
            inputs.append(None if hidden_state is None else hidden_state.cell)
            shapes.append([sides, rows, width])
        if self.cell == "gru":
            settings["linear_before_reset"] = 1
        types = [torch.float32] * len(shapes)
        y, *state = torch.onnx.ops.symbolic_multi_out(self.cell.upper(), inputs, settings, dtypes=types, shapes=shapes)
        return y.permute(2, 0, 1, 3).flatten(2), HiddenState(*state)


def dense_experts(part: Experts, x: Tensor, valid: Tensor | None = None) -> Tensor:
    """Every token through every expert; the gates of experts that were not chosen are zero."""
    best, expert = part.router(x).topk(part.chosen, dim=-1)
    gates = torch.zeros_like(part.router(x)).scatter(-1, expert, best.softmax(-1))
    if valid is not None:
        gates = gates * valid[..., None]
    outputs = torch.relu(x[:, None] @ part.up) @ part.down
    return (outputs * gates.transpose(1, 2)[..., None]).sum(1)


def windows(part: Convolution, x: Tensor, time: int) -> Tensor:
    """The vectors of each window, of symbolic number."""
    starts = range(0, part.reach + 1, part.dilation)
    return torch.cat([x[:, start : start + time] for start in starts], dim=-1)


def padded_layout(lengths: Tensor, time: int, max_positions: int) -> Layout:
    """One sequence a row, padded on the right, of symbolic sizes."""
    index = torch.arange(time)[None].expand(lengths.shape[0], time)
    document = torch.where(index < lengths[:, None], 0, PADDING)
    return Layout(document, index, lengths, longest=max_positions, packed=False)


MASKED_SCORE = -1e30
"""The score of a masked pair; −∞ would make 0/0 of a query whose keys are all masked."""


class MaskPattern(Pattern):
    """A pattern that is a mask already."""

    def __init__(self, mask: Tensor, valid: Tensor | None = None, *, may_mask_all_keys: bool = False) -> None:
        self.mask, self.may_mask_all_keys = mask, may_mask_all_keys
        self.valid = valid
        """False at padding; None where there is none."""


class AppendedCache(KVCache):
    """Keys and values to which new ones are appended."""

    def append(self, keys: Tensor, values: Tensor, cache_lengths: CacheLengths) -> tuple[Tensor, Tensor]:
        self.keys, self.values = torch.cat([self.keys, keys], 2), torch.cat([self.values, values], 2)
        return self.keys, self.values


class GraphAttention:
    """Scores, softmax and weighted sum of attention with nothing but tensors."""

    def __init__(self, attention: Attention) -> None:
        self.scale, self.heads = attention.scale, attention.heads

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, context: AttentionContext, position: Position
    ) -> Tensor:
        """softmax(QKᵀ·scale + bias) V over the allowed pairs."""
        key, value = self._for_each_head(key), self._for_each_head(value)
        scores = query @ key.transpose(-2, -1) * self.scale
        bias = position.on_scores(query, self.scale, context)
        if bias is not None:
            scores = scores + dense_bias(bias, query.shape[2], key.shape[2])
        weights = masked_softmax(scores, context.pattern)
        if isinstance(position, Relative) and position.value_table is not None:
            return weights @ value + relative_values(weights, position, position.value_table, context)
        return weights @ value

    def _for_each_head(self, x: Tensor) -> Tensor:
        return x if x.shape[1] == self.heads else x.repeat_interleave(self.heads // x.shape[1], dim=1)


def masked_softmax(scores: Tensor, pattern: Pattern | None) -> Tensor:
    """Softmax over the allowed keys; zero where there are none."""
    if not isinstance(pattern, MaskPattern):
        return scores.softmax(-1)
    weights = scores.masked_fill(~pattern.mask, MASKED_SCORE).softmax(-1)
    return weights * pattern.mask.any(-1, keepdim=True) if pattern.may_mask_all_keys else weights


def bias_columns(rule: Rule, queries: int, keys: int) -> Tensor:
    """A rule's column for each pair, of symbolic sizes."""
    query, key = torch.arange(queries)[None, :, None], torch.arange(keys)[None, None, :]
    return rule(torch.zeros(1, 1, 1, dtype=torch.long), query, key)[:, None]


def relative_values(weights: Tensor, position: Relative, table: Tensor, context: AttentionContext) -> Tensor:
    """Σ_j α_ij b_ij: the weight on each distance times that distance's vector."""
    columns = bias_columns(position.column(context)[0], weights.shape[2], weights.shape[3])
    sums = weights.new_zeros(weights.shape[0], weights.shape[1], weights.shape[2], table.shape[0])
    return sums.scatter_add(3, columns.expand_as(weights), weights) @ table


def dense_bias(bias: Bias, queries: int, keys: int) -> Tensor:
    """The bias as a matrix."""
    columns, table = bias_columns(bias.rule, queries, keys), bias.table
    table = table.expand(table.shape[0], table.shape[1], queries, table.shape[3])
    return torch.gather(table, 3, columns.expand(table.shape[0], table.shape[1], queries, keys))


def linformer_attention(part: Linformer, x: Tensor, context: AttentionContext, *without_cache: None) -> Tensor:
    """Linformer over padded rows: padding is zero before it is mixed in."""
    positions = torch.arange(x.shape[1])[None]
    query, key = (part.position.rotate(project(x), positions) for project in (part.query, part.key))
    key, value = (zero_padding(one, context) for one in (key, part.position.on_values(part.value(x), positions)))
    for_keys, for_values = part.projections()
    key, value = for_keys(key), for_values(value)
    mixtures = torch.arange(key.shape[2])[None]
    unmasked = AttentionContext(None, positions, mixtures)
    return part.output(join_heads(part._attend(query, key, value, unmasked, NO_POSITION)))


def memory_compressed_attention(
    part: MemoryCompressed,
    max_positions: int,
    x: Tensor,
    context: AttentionContext,
    cache: KVCache | None = None,
    cache_lengths: CacheLengths | None = None,
) -> Tensor:
    """An encoder attends to all compressed slots; a decoder to the complete ones and to its own block."""
    query, key, value = part.position.rotate(part.query(x), context.query_positions), part.key(x), part.value(x)
    if cache is not None and cache_lengths is not None:
        key, value = cache.append(key, value, cache_lengths)
    key, value = zero_padding(key, context), zero_padding(value, context)
    slot_keys, slot_values = compress(part.compress_keys, key), compress(part.compress_values, value)
    slots, tokens = torch.arange(slot_keys.shape[2]), torch.arange(key.shape[2])
    begins = (slots * part.stride)[None]
    slot_keys = part.position.rotate(slot_keys, begins)
    if not part.causal:
        holds_token = begins < _lengths(context, tokens)[:, None]
        allowed = AttentionContext(
            MaskPattern(holds_token[:, None, None]), context.query_positions, begins, length=max_positions
        )
        return part.output(join_heads(part._attend(query, slot_keys, slot_values, allowed, part.position)))
    query_position = context.query_positions[..., None]
    complete = (slots + 1) * part.stride <= query_position
    same_block = (tokens // part.block == query_position // part.block) & (tokens <= query_position)
    keys = torch.cat([slot_keys, part.position.rotate(key, tokens[None])], 2)
    positions = torch.cat([begins, tokens[None]], 1)
    mask = MaskPattern(torch.cat([complete, same_block], -1)[:, None])
    allowed = AttentionContext(mask, context.query_positions, positions, length=max_positions)
    output = part._attend(query, keys, torch.cat([slot_values, value], 2), allowed, part.position)
    return part.output(join_heads(output))


def compress(part: Compression, x: Tensor) -> Tensor:
    """One vector for each span, by strided slices of the first tokens of all spans, their second tokens and so on.

    One empty slot is appended, which is always masked: tracing would specialise on a single slot.
    """
    stride, end = part.stride, x.shape[2] + part.stride
    padded = F.pad(x, (0, 0, 0, 2 * stride - 1))
    y = torch.cat([padded[:, :, first : first + end : stride] for first in range(stride)], -1) @ part.weight
    return y if part.bias is None else y + part.bias


def zero_padding(x: Tensor, context: AttentionContext) -> Tensor:
    """Zeros at padding."""
    valid = context.pattern.valid if isinstance(context.pattern, MaskPattern) else None
    return x if valid is None else x.masked_fill(~valid[:, None, :, None], 0.0)


def _lengths(context: AttentionContext, tokens: Tensor) -> Tensor:
    valid = context.pattern.valid if isinstance(context.pattern, MaskPattern) else None
    return (tokens + 1).amax()[None] if valid is None else valid.sum(-1)


def convs2s_attention(part: MultiStepAttention, h: Tensor, written: Tensor, source_kv: SourceKV) -> Tensor:
    """The attention of a ConvS2S layer."""
    query = (part.query(h) + written) * ROOT_HALF
    mask = torch.arange(source_kv.keys.shape[1]) < source_kv.lengths[:, None, None]
    context = masked_softmax(query @ source_kv.keys.transpose(1, 2), MaskPattern(mask)) @ source_kv.values
    return part.output(context * source_kv.lengths[:, None, None].to(context.dtype).sqrt())
