"""The newest token of each row in a block of five kernels: what stands around a product is computed with it."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.models.one_token import NewestToken
from regard.nn.block import Block
from regard.nn.cache import KeyValues
from regard.nn.feedforward import FeedForward, GatedFeedForward
from regard.nn.heads import HeadMap, split_heads
from regard.nn.newest import attend_in_rooms
from regard.nn.product import MOST_ROWS, Norm, fused
from regard.nn.residual import Residual
from regard.nn.room import Room
from regard.nn.sight import Sight

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
        and all(type(one) is HeadMap for one in maps)
        and all(type(one) is nn.Linear for one in outputs)
        and (block.feedforward is None or type(block.feedforward) in (FeedForward, GatedFeedForward))
        and {weight.dtype for weight in block.parameters()} <= {block.attention.query.weight.dtype} & set(FORMATS)  # type: ignore[union-attr]
    )


def fused_where_known(block: Block) -> NewestToken:
    """The block by few kernels, or else by torch's."""
    return FusedToken(block) if fusable(block) else NewestToken(block)


def _known(around: Residual) -> bool:
    return around.place == "before" and around.connected and Norm.of(around.norm) is not None


class FusedToken(NewestToken):
    """x ← x + W f(norm(x)) by one kernel for each matrix, and one for each attention."""

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        forward = block.feedforward
        self.gated = _below(forward.gate, forward.up) if isinstance(forward, GatedFeedForward) else None

    def forward(self, x: Vectors, sight: Sight, own: KeyValues, heard: KeyValues | None, room: Room) -> Vectors:
        """All sub-layers in turn; the token's key and value go into `own`."""
        if len(x) > MOST_ROWS:
            return super().forward(x, sight, own, heard, room)
        rows = self._attended(x[:, 0], sight, own, room)
        if heard is not None:
            rows = self._heard(rows, heard, room)
        return self._fed(rows)[:, None]

    def _attended(self, x: Rows, sight: Sight, own: KeyValues, room: Room) -> Rows:
        attention, joined = self.block.attention, self.joined
        assert joined is not None
        mapped = fused(x, joined.weight, joined.bias, _norm(self.block.around_attention))
        answer = self.answer(*joined.cut(mapped[:, None]), sight, own, room.lengths)
        return fused(answer, attention.output.weight, attention.output.bias, added=x)

    def _heard(self, x: Rows, heard: KeyValues, room: Room) -> Rows:
        cross, around = self.block.cross, self.block.around_cross
        assert cross is not None and around is not None
        mapped = fused(x, cross.query.weight, cross.query.bias, _norm(around))  # type: ignore[arg-type]
        query = split_heads(mapped[:, None], cross.heads)[:, :, 0]
        answer = attend_in_rooms(query, heard.keys, heard.values, room.heard_lengths, room.listens_to, cross.scale)
        return fused(answer.flatten(1), cross.output.weight, cross.output.bias, added=x)

    def _fed(self, x: Rows) -> Rows:
        part, around = self.block.feedforward, self.block.around_feedforward
        if part is None or around is None:
            return x
        if self.gated is not None:
            hidden = fused(x, *self.gated, _norm(around), part.activation, gated=True)  # type: ignore[arg-type]
        else:
            hidden = fused(x, part.up.weight, part.up.bias, _norm(around), part.activation)  # type: ignore[union-attr, arg-type]
        return fused(hidden, part.down.weight, part.down.bias, added=x)  # type: ignore[union-attr, arg-type]


def _norm(around: Residual) -> Norm:
    norm = Norm.of(around.norm)
    assert norm is not None
    return norm


def _below(gate: nn.Linear, up: nn.Linear) -> tuple[Tensor, Tensor | None]:
    """The matrices of a gate and of what it lets through, one below the other; copied."""
    bias = None if gate.bias is None else torch.cat([gate.bias, up.bias]).detach()
    return torch.cat([gate.weight, up.weight]).detach(), bias
