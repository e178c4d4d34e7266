"""The graphs of Transformers: the encoder of a text or an image, one step of the decoder with its cache, the reader."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.export.onnx.attention import Growing, Seen
from regard.export.onnx.graphs import LENGTHS, SOURCE, TOKENS, Label, Part, Read, Step
from regard.export.onnx.parts import for_graph
from regard.models.stack import Stack
from regard.nn.cache import CacheLengths, KVCache
from regard.nn.context import AttentionContext
from regard.nn.head import PooledHead


def seen(stack: Stack, turn: int, room: int, queries: Tensor, keys: Tensor) -> Tensor:
    """Which of the keys' places each query's place may see, padding aside."""
    zero = torch.zeros(1, 1, 1, 1, dtype=torch.long)
    heads = torch.arange(stack.config.heads)[None, :, None, None]
    query, key = queries[:, None, :, None], keys[:, None, None, :]
    pattern = stack.layer_kinds[turn].pattern(stack.config.heads, room, stack.causal, "cpu")
    everything = (query >= 0) & (key >= 0)
    return everything if pattern is None else everything & pattern.allowed(zero, heads, query, key)


def read_whole(stack: Stack, x: Tensor, lengths: Tensor | None, room: int) -> Tensor:
    """A stack over whole rows, padded where lengths are given."""
    lifted: Tensor | None = stack.lifted  # type: ignore[assignment]
    added = 0 if lifted is None else lifted.shape[0]
    if lifted is not None:
        x = torch.cat([lifted.expand(x.shape[0], -1, -1), x], 1)
    index = torch.arange(x.shape[1])[None]
    places = F.pad(index[:, added:] - added, (added, 0))  # added tokens stand where the first token stands
    valid = None if lengths is None else index < lengths[:, None] + added
    turns = []
    for turn in range(len(stack.layer_kinds)):
        mask = seen(stack, turn, room + added, index, index)
        mask = mask if valid is None else mask & valid[:, None, None]
        turns.append(AttentionContext(Seen(mask, valid, may_mask_all_keys=stack.attention.strict), places, places))
    return stack(x, AttentionContext.alternating(turns), valid)[:, added:]


def cache_parts(stack: Stack, what: str, axis: str) -> list[Part]:
    """The keys and values of each block of a stack."""
    kv_heads = stack.attention.kv_heads or stack.config.heads
    axes = ("rows", kv_heads, axis, stack.config.head_width)
    return [Part(f"{what}.{block}.{part}", axes) for block in range(len(stack.blocks)) for part in ("key", "value")]


class ReadText(Read):
    """The encoder, and the keys and values that each block of the decoder listens to."""

    def __init__(self, model: nn.Module, room: int) -> None:
        twin = for_graph(model, room)
        super().__init__({"tokens": SOURCE, "lengths": LENGTHS}, cache_parts(twin.decoder, "heard", "source"))
        self.model, self.room = twin, room

    def forward(self, tokens: Tensor, lengths: Tensor) -> list[Tensor]:
        """Key and value of every block."""
        encoded = read_whole(self.model.encoder, self.model.source_embedding(tokens), lengths, self.room)
        return [part for heard in self.model.decoder.project_source(encoded) for part in (heard.keys, heard.values)]


class ReadImage(Read):
    """The same for an image."""

    def __init__(self, model: nn.Module, room: int) -> None:
        twin = for_graph(model, room)
        super().__init__({"images": image_part(twin.config)}, cache_parts(twin.decoder, "heard", "source"))
        self.model = twin

    def forward(self, images: Tensor) -> list[Tensor]:
        """Key and value of every block."""
        x = self.model.patch_embedding(patches(images, self.model.config.patch))
        encoded = read_whole(self.model.encoder, x, None, self.model.config.tokens)
        return [part for heard in self.model.decoder.project_source(encoded) for part in (heard.keys, heard.values)]


class WriteOn(Step):
    """One step of a decoder, alone or with a source to listen to."""

    def __init__(self, model: nn.Module, room: int, *, hears: bool = False, padded: bool = True) -> None:
        """`hears`: there is a source to listen to; `padded`: its rows differ in length."""
        twin = for_graph(model, room)
        stack: Stack = twin.decoder if hears else twin.stack
        heard = [*cache_parts(stack, "heard", "source"), *([LENGTHS] if padded else [])] if hears else []
        super().__init__(cache_parts(stack, "past", "written"), heard)
        self.model, self.stack, self.room = twin, stack, room
        self.embedding = twin.target_embedding if hears else twin.embedding
        self.cache_lengths = CacheLengths.empty(1, room, "cpu")

    def forward(self, tokens: Tensor, past: list[Tensor], heard: list[Tensor] | None = None) -> list[Tensor]:
        """Logits of what follows each token, and the cache with these tokens in it."""
        written = past[0].shape[2]
        queries = (torch.arange(tokens.shape[1]) + written)[None]
        keys = torch.arange(written + tokens.shape[1])[None]
        strict = self.stack.attention.strict
        masks = [seen(self.stack, turn, self.room, queries, keys) for turn in range(len(self.stack.layer_kinds))]
        context = AttentionContext.alternating(
            [AttentionContext(Seen(mask, may_mask_all_keys=strict), queries, keys) for mask in masks]
        )
        source, across = None, None
        if heard is not None:
            source, across = self._listening(heard, queries)
        caches = paired(past, Growing)
        x = self.stack(self.embedding(tokens), context, None, source, across, caches, self.cache_lengths)
        return [self.model.head(x), *(part for cache in caches for part in (cache.keys, cache.values))]

    def _listening(self, heard: list[Tensor], queries: Tensor) -> tuple[list[KVCache], AttentionContext]:
        """What is heard; a source with lengths is padded beyond them."""
        places = torch.arange(heard[0].shape[2])[None]
        if len(heard) % 2 == 0:
            return paired(heard, KVCache), AttentionContext(None, queries, places)
        mask = places[:, None, None, :] < heard[-1][:, None, None, None]
        return paired(heard[:-1], KVCache), AttentionContext(Seen(mask), queries, places)


class ReadTokens(Label):
    """A text to the scores of its labels, or of each of its tokens."""

    def __init__(self, model: nn.Module, room: int) -> None:
        super().__init__({"tokens": TOKENS, "lengths": LENGTHS})
        self.model, self.room = for_graph(model, room), room

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """One row of scores a text, or a token."""
        x = read_whole(self.model.stack, self.model.embedding(tokens), lengths, self.room)
        return scores(self.model.head, x, lengths)


class LabelImage(Label):
    """An image to the scores of its labels."""

    def __init__(self, model: nn.Module, room: int) -> None:
        twin = for_graph(model, room)
        super().__init__({"images": image_part(twin.config)})
        self.model = twin

    def forward(self, images: Tensor) -> Tensor:
        """One row of scores an image."""
        config = self.model.config
        x = self.model.embedding(patches(images, config.patch))
        if self.model.class_token is not None:
            x = torch.cat([self.model.class_token.expand(x.shape[0], 1, -1), x], dim=1)
        x = read_whole(self.model.stack, x, None, config.tokens)
        return scores(self.model.head, x, torch.full_like(x[:, 0, 0], x.shape[1], dtype=torch.long))


def scores(head: nn.Module, x: Tensor, lengths: Tensor) -> Tensor:
    """What an output layer says of padded rows."""
    if not isinstance(head, PooledHead):
        return head(x)
    if head.pooling != "last":
        return head(x, torch.arange(x.shape[1])[None] < lengths[:, None])
    last = x.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, x.shape[2]))[:, 0]
    return head.linear(last if head.hidden is None else torch.tanh(head.hidden(last)))


def image_part(config: Any) -> Part:  # noqa: ANN401
    """Images as numbers, channel by channel."""
    return Part("images", ("rows", config.channels, config.image, config.image))


def patches(images: Tensor, patch: int) -> Tensor:
    """The image cut up, row by row; each patch one vector, channel by channel."""
    across = images.shape[3] // patch
    cut = images.unflatten(3, (across, patch)).unflatten(2, (across, patch))
    return cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def paired(parts: Sequence[Tensor], kind: type[KVCache]) -> list[KVCache]:
    """Keys and values by turns, block by block."""
    return [kind(keys, values) for keys, values in zip(parts[::2], parts[1::2], strict=True)]
