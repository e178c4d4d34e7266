"""The newest token of each row in a block of five kernels: what stands around a product is computed with it."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.models.decoding.step import Moments, NewestToken, OneToken
from regard.nn.attention.heads import HeadProjection, split_heads
from regard.nn.block import Block, Residual
from regard.nn.cache import KVCache
from regard.nn.context import AttentionContext
from regard.nn.fast.decode import attend_in_rooms
from regard.nn.fast.linear import MOST_ROWS, Folded, fused, fused_onto, known
from regard.nn.fast.static_cache import Room
from regard.nn.feedforward import FeedForward, GatedFeedForward
from regard.nn.head import VocabularyHead

Rows = Float[Tensor, "rows width"]
Vectors = Float[Tensor, "rows one width"]
FORMATS = (torch.float32, torch.bfloat16, torch.float16)


def fusable(block: Block) -> bool:
    """Whether the kernels know all parts of a block: norms before the sub-layers, plain maps, one kind of weights."""
    around = [block.around_attention, block.around_cross, block.around_feedforward]
    maps = [block.attention.query, block.attention.key, block.attention.value]
    outputs = [block.attention.output]
    if block.cross is not None:
        maps, outputs = [*maps, block.cross.query], [*outputs, block.cross.output]
    return (
        all(_known(one) for one in around if one is not None)
        and all(type(one) is HeadProjection for one in maps)
        and all(type(one) is nn.Linear for one in outputs)
        and (block.feedforward is None or type(block.feedforward) in (FeedForward, GatedFeedForward))
        and {weight.dtype for weight in block.parameters()} <= {block.attention.query.weight.dtype} & set(FORMATS)  # type: ignore[union-attr]
    )


def fused_where_known(block: Block) -> NewestToken:
    """The block by few kernels, or else by torch's."""
    return FusedToken(block) if fusable(block) else NewestToken(block)


def _known(around: Residual) -> bool:
    return around.place == "before" and around.connected and known(around.norm)


class FusedToken(NewestToken):
    """x ← x + W f(norm(x)) by one kernel for each matrix, and one for each attention.

    Matrices behind a norm are copied, with its gain in them.
    """

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        assert self.joined is not None
        own, cross, part = block.attention, block.cross, block.feedforward
        self.maps = Folded.of(self.joined.weight, self.joined.bias, block.around_attention.norm)
        self.output = _alone(own.output)  # type: ignore[arg-type]
        if cross is not None and block.around_cross is not None:
            self.asking = Folded.of(cross.query.weight, cross.query.bias, block.around_cross.norm)  # type: ignore[arg-type]
            self.heard = _alone(cross.output)  # type: ignore[arg-type]
        if part is not None and block.around_feedforward is not None:
            self.up = Folded.of(*_below(part), block.around_feedforward.norm)
            self.down = _alone(part.down)  # type: ignore[union-attr, arg-type]

    def forward(
        self, x: Vectors, moments: Moments, context: AttentionContext, own: KVCache, heard: KVCache | None, room: Room
    ) -> tuple[Vectors, Moments]:
        """All sub-layers in turn; the token's key and value go into `own`."""
        if len(x) > MOST_ROWS:
            return super().forward(x, moments, context, own, heard, room)
        rows, moments = self._attended(x[:, 0], moments, context, own, room)
        if heard is not None:
            rows, moments = self._listened(rows, moments, heard, room)
        rows, moments = self._fed(rows, moments)
        return rows[:, None], moments

    def _attended(
        self, x: Rows, moments: Moments, context: AttentionContext, own: KVCache, room: Room
    ) -> tuple[Rows, Moments]:
        assert self.joined is not None
        mapped = fused(x, self.maps, moments=moments)
        answer = self.answer(*self.joined.cut(mapped[:, None]), context, own, room.lengths)
        return fused_onto(x, answer, self.output)

    def _listened(self, x: Rows, moments: Moments, heard: KVCache, room: Room) -> tuple[Rows, Moments]:
        cross = self.block.cross
        assert cross is not None
        query = split_heads(fused(x, self.asking, moments=moments)[:, None], cross.heads)[:, :, 0]
        answer = attend_in_rooms(query, heard.keys, heard.values, room.heard_lengths, room.listens_to, cross.scale)
        return fused_onto(x, answer.flatten(1), self.heard)

    def _fed(self, x: Rows, moments: Moments) -> tuple[Rows, Moments]:
        part = self.block.feedforward
        if part is None:
            return x, moments
        gated = isinstance(part, GatedFeedForward)
        inner = fused(x, self.up, part.activation, gated, moments=moments)  # type: ignore[arg-type]
        return fused_onto(x, inner, self.down)


def fused_head(step: OneToken) -> Callable[[Vectors, Moments], Tensor]:
    """The last norm and the scores by one kernel, where the kernel knows all of them; else by torch's."""
    head, norm, plain = step.head, step.stack.final_norm, step.scores
    if not isinstance(head, VocabularyHead) or not known(norm):
        return plain
    shared = head._shared[0]
    special = head.transform is not None or head.scale != 1.0 or head.never is not None
    if special or (shared is not None and shared.up is not None):
        return plain
    if head.weight.dtype not in FORMATS:
        return plain
    folded = Folded.of(head.weight, head.bias, norm)
    return lambda x, moments: fused(x[:, 0], folded, moments=moments) if len(x) <= MOST_ROWS else plain(x, moments)


def _alone(linear: nn.Linear) -> Folded:
    return Folded.of(linear.weight, linear.bias, nn.Identity())


def _below(part: nn.Module) -> tuple[Tensor, Tensor | None]:
    """The first matrix; where there is a gate, its own and that of what it lets through, one below the other."""
    if not isinstance(part, GatedFeedForward):
        return part.up.weight, part.up.bias  # type: ignore[union-attr, return-value]
    bias = None if part.gate.bias is None else torch.cat([part.gate.bias, part.up.bias]).detach()
    return torch.cat([part.gate.weight, part.up.weight]).detach(), bias
