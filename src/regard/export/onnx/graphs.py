"""Graphs before they are traced, modules with named input and output tensors; and those of Transformers.

Transformers have an encoder of texts or images, a decoding step with KV cache, and scores of labels or tokens.
"""

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from regard.export.onnx.traceable import LIFTED, AppendedCache, MaskPattern
from regard.models import Decoder, Encoder, EncoderDecoder, VisionEncoderDecoder, VisionTransformer
from regard.models.stack import Stack
from regard.models.vision import PatchConfig
from regard.nn.cache import CacheLengths, KVCache
from regard.nn.context import AttentionContext
from regard.nn.head import PooledHead

SIZES = {"rows": 2, "time": 3, "written": 4, "source": 5, "columns": 12}
"""Symbolic axes, and their size while a graph is traced."""
MOST_ROWS = 4096
Mapped = TypeVar("Mapped")


@dataclass(frozen=True)
class GraphTensor:
    """An input or output of a graph."""

    name: str
    axes: tuple[int | str, ...]
    """The size of an axis, or its name in `SIZES` where it is symbolic."""
    integer: bool = False
    """Whether it holds int64."""

    def example(self) -> Tensor:
        """A tensor to trace with."""
        sizes = [SIZES[axis] if isinstance(axis, str) else axis for axis in self.axes]
        return torch.ones(sizes, dtype=torch.long) if self.integer else torch.zeros(sizes)

    def dynamic(self, dims: Mapping[str, Dim]) -> dict[int, Dim]:
        """Its symbolic axes."""
        return {number: dims[axis] for number, axis in enumerate(self.axes) if isinstance(axis, str)}

    def tree(self) -> dict[str, object]:
        """For regard.json."""
        return {"axes": list(self.axes), "type": "int64" if self.integer else "float32"}


TOKENS = GraphTensor("tokens", ("rows", "time"), integer=True)
SOURCE = GraphTensor("tokens", ("rows", "source"), integer=True)
LENGTHS = GraphTensor("lengths", ("rows",), integer=True)


class Graph(nn.Module):
    """A module whose forward takes `inputs`, in that order, and returns one tensor for each of `outputs`."""

    file: str
    inputs: Mapping[str, GraphTensor | Sequence[GraphTensor]]
    outputs: Sequence[str]

    def write(self, folder: Path, max_positions: int) -> None:
        """Traces the module into a file that holds its weights, too."""
        dims = {
            axis: Dim(axis, min=0 if axis == "written" else 1, max=limit)
            for axis, limit in _limits(max_positions).items()
        }
        parts = [part for one in self.inputs.values() for part in ([one] if isinstance(one, GraphTensor) else one)]
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # the exporter warns about itself
            # captured here, since torch.onnx itself would silently fix a size that it cannot keep symbolic
            captured = torch.export.export(
                self.eval(),
                (),
                {name: _mapped(one, GraphTensor.example) for name, one in self.inputs.items()},
                dynamic_shapes={
                    name: _mapped(one, lambda part: part.dynamic(dims)) for name, one in self.inputs.items()
                },
                strict=False,
                prefer_deferred_runtime_asserts_over_guards=True,
            )
            torch.onnx.export(
                captured,
                f=str(folder / self.file),
                input_names=[part.name for part in parts],
                output_names=list(self.outputs),
                dynamo=True,
                external_data=False,
                verbose=False,
            )


def _limits(max_positions: int) -> dict[str, int]:
    return {**dict.fromkeys(SIZES, max_positions), "rows": MOST_ROWS, "columns": MOST_ROWS * max_positions}


def _mapped(
    tensors: GraphTensor | Sequence[GraphTensor], function: Callable[[GraphTensor], Mapped]
) -> Mapped | list[Mapped]:
    return function(tensors) if isinstance(tensors, GraphTensor) else [function(one) for one in tensors]


class StepGraph(Graph):
    """One decoding step: tokens, state (`past`), keys and values of the source → logits, new state."""

    file = "step.onnx"

    def __init__(self, past: Sequence[GraphTensor], source_kv: Sequence[GraphTensor] = ()) -> None:
        super().__init__()
        self.past = list(past)
        self.inputs = {"tokens": TOKENS, "past": self.past, **({"source_kv": list(source_kv)} if source_kv else {})}
        self.outputs = ["logits", *(part.name.replace("past.", "now.", 1) for part in past)]


class EncoderGraph(Graph):
    """An encoder: source → what the decoder attends to, and the state it begins with."""

    file = "encoder.onnx"

    def __init__(self, source: Mapping[str, GraphTensor], outputs: Sequence[GraphTensor]) -> None:
        super().__init__()
        self.inputs, self.outputs = source, [part.name for part in outputs]


class ScoreGraph(Graph):
    """A whole text or image → scores of labels, or of tokens at each position."""

    file = "model.onnx"
    outputs = ("logits",)

    def __init__(self, source: Mapping[str, GraphTensor]) -> None:
        super().__init__()
        self.inputs = source


def allowed_pairs(stack: Stack, turn: int, max_positions: int, queries: Tensor, keys: Tensor) -> Tensor:
    """Which keys each query may attend to by the pattern; padding is masked elsewhere."""
    zero = torch.zeros(1, 1, 1, 1, dtype=torch.long)
    heads = torch.arange(stack.config.heads)[None, :, None, None]
    query, key = queries[:, None, :, None], keys[:, None, None, :]
    pattern = stack.layer_kinds[turn].pattern(stack.config.heads, max_positions, stack.causal, "cpu")
    everything = (query >= 0) & (key >= 0)
    return everything if pattern is None else everything & pattern.allowed(zero, heads, query, key)


def run_stack(stack: Stack, x: Tensor, lengths: Tensor | None, max_positions: int) -> Tensor:
    """A stack over whole rows, padded where lengths are given."""
    tokens: Tensor | None = getattr(stack, LIFTED)
    added = 0 if tokens is None else tokens.shape[0]
    if tokens is not None:
        x = torch.cat([tokens.expand(x.shape[0], -1, -1), x], 1)
    index = torch.arange(x.shape[1])[None]
    positions = F.pad(index[:, added:] - added, (added, 0))  # added tokens have the position of the first token
    valid = None if lengths is None else index < lengths[:, None] + added
    turns = []
    for turn in range(len(stack.layer_kinds)):
        mask = allowed_pairs(stack, turn, max_positions + added, index, index)
        mask = mask if valid is None else mask & valid[:, None, None]
        pattern = MaskPattern(mask, valid, may_mask_all_keys=stack.attention.strict)
        turns.append(AttentionContext(pattern, positions, positions))
    return stack(x, AttentionContext.alternating(turns), valid)[:, added:]


def cache_tensors(stack: Stack, prefix: str, axis: str) -> list[GraphTensor]:
    """The keys and values of each block of a stack."""
    kv_heads = stack.attention.kv_heads or stack.config.heads
    value_width = stack.attention.width_of_value(stack.config.width, stack.config.heads)
    widths = {"key": stack.config.head_width, "value": value_width}
    return [
        GraphTensor(f"{prefix}.{block}.{part}", ("rows", kv_heads, axis, width))
        for block in range(len(stack.blocks))
        for part, width in widths.items()
    ]


class TransformerEncoder(EncoderGraph):
    """The encoder, and the keys and values of its output for each block of the decoder."""

    def __init__(self, model: EncoderDecoder, max_positions: int) -> None:
        super().__init__({"tokens": SOURCE, "lengths": LENGTHS}, cache_tensors(model.decoder, "heard", "source"))
        self.model, self.max_positions = model, max_positions

    def forward(self, tokens: Tensor, lengths: Tensor) -> list[Tensor]:
        encoded = run_stack(self.model.encoder, self.model.source_embedding(tokens), lengths, self.max_positions)
        return unpaired(self.model.decoder.project_source(encoded))


class ImageEncoder(EncoderGraph):
    """The same for an image."""

    def __init__(self, model: VisionEncoderDecoder, max_positions: int) -> None:
        assert isinstance(model.config, PatchConfig)
        super().__init__({"images": image_tensor(model.config)}, cache_tensors(model.decoder, "heard", "source"))
        self.model, self.config = model, model.config

    def forward(self, images: Tensor) -> list[Tensor]:
        x = self.model.patch_embedding(patches(images, self.config.patch))
        encoded = run_stack(self.model.encoder, x, None, self.config.tokens)
        return unpaired(self.model.decoder.project_source(encoded))


class TransformerStep(StepGraph):
    """One step of a decoder, alone or with cross-attention to rows of the same length or of several (`padded`)."""

    def __init__(self, model: Decoder | EncoderDecoder, max_positions: int, *, padded: bool = True) -> None:
        source_kv: list[GraphTensor] = []
        if isinstance(model, Decoder):
            stack, embedding = model.stack, model.embedding
        else:
            stack, embedding = model.decoder, model.target_embedding
            source_kv = [*cache_tensors(stack, "heard", "source"), *([LENGTHS] if padded else [])]
        super().__init__(cache_tensors(stack, "past", "written"), source_kv)
        self.model, self.stack, self.embedding, self.max_positions = model, stack, embedding, max_positions
        self.cache_lengths = CacheLengths.empty(1, max_positions, "cpu")

    def forward(self, tokens: Tensor, past: list[Tensor], source_kv: list[Tensor] | None = None) -> list[Tensor]:
        length = past[0].shape[2]
        queries = (torch.arange(tokens.shape[1]) + length)[None]
        keys = torch.arange(length + tokens.shape[1])[None]
        strict = self.stack.attention.strict
        turns = range(len(self.stack.layer_kinds))
        masks = [allowed_pairs(self.stack, turn, self.max_positions, queries, keys) for turn in turns]
        context = AttentionContext.alternating(
            [AttentionContext(MaskPattern(mask, may_mask_all_keys=strict), queries, keys) for mask in masks]
        )
        source, cross_context = (None, None) if source_kv is None else self._source(source_kv, queries)
        caches = paired(past, AppendedCache)
        x = self.stack(self.embedding(tokens), context, None, source, cross_context, caches, self.cache_lengths)
        return [self.model.head(x), *unpaired(caches)]

    def _source(self, source_kv: list[Tensor], queries: Tensor) -> tuple[list[KVCache], AttentionContext]:
        """Keys and values of the source, and which of them are tokens where lengths are given."""
        positions = torch.arange(source_kv[0].shape[2])[None]
        if len(source_kv) % 2 == 0:
            return paired(source_kv, KVCache), AttentionContext(None, queries, positions)
        mask = positions[:, None, None, :] < source_kv[-1][:, None, None, None]
        return paired(source_kv[:-1], KVCache), AttentionContext(MaskPattern(mask), queries, positions)


class TransformerScores(ScoreGraph):
    """A text to the scores of its labels, or of each of its tokens."""

    def __init__(self, model: Encoder | Decoder, max_positions: int) -> None:
        super().__init__({"tokens": TOKENS, "lengths": LENGTHS})
        self.model, self.max_positions = model, max_positions

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        x = run_stack(self.model.stack, self.model.embedding(tokens), lengths, self.max_positions)
        return scores(self.model.head, x, lengths)


class ImageScores(ScoreGraph):
    """An image to the scores of its labels."""

    def __init__(self, model: VisionTransformer, max_positions: int) -> None:
        super().__init__({"images": image_tensor(model.config)})
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        config = self.model.config
        x = self.model.embedding(patches(images, config.patch))
        if self.model.class_token is not None:
            x = torch.cat([self.model.class_token.expand(x.shape[0], 1, -1), x], dim=1)
        x = run_stack(self.model.stack, x, None, config.tokens)
        return scores(self.model.head, x, torch.full_like(x[:, 0, 0], x.shape[1], dtype=torch.long))


def scores(head: nn.Module, x: Tensor, lengths: Tensor) -> Tensor:
    """The output of a head for padded rows."""
    if not isinstance(head, PooledHead):
        return head(x)
    if head.pooling != "last":
        return head(x, torch.arange(x.shape[1])[None] < lengths[:, None])
    last = x.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, x.shape[2]))[:, 0]
    return head.linear(last if head.hidden is None else torch.tanh(head.hidden(last)))


def image_tensor(config: PatchConfig) -> GraphTensor:
    """Pixels, channel by channel."""
    return GraphTensor("images", ("rows", config.channels, config.image, config.image))


def patches(images: Tensor, patch: int) -> Tensor:
    """The image cut up, row by row; each patch one vector, channel by channel."""
    count = images.shape[3] // patch
    grid = images.unflatten(3, (count, patch)).unflatten(2, (count, patch))
    return grid.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def paired(parts: Sequence[Tensor], kind: type[KVCache]) -> list[KVCache]:
    """The caches of keys and values that alternate, block by block."""
    return [kind(keys, values) for keys, values in zip(parts[::2], parts[1::2], strict=True)]


def unpaired(caches: Sequence[KVCache]) -> list[Tensor]:
    return [tensor for cache in caches for tensor in (cache.keys, cache.values)]
