"""Attention of the newest token of each row, over rooms of fixed size whose filled length the device alone knows.

What a CUDA graph replays must find every tensor at its place and in its shape, so nothing here grows: new keys are
written into the room, and what lies beyond a row's length is not seen. Both functions are operators of torch, which
compiled code leaves as they are: by plain steps on a CPU, by one kernel on a GPU, which reads only what is filled.
"""

import torch
from torch import Tensor

# torch reads the signatures of operators, so shapes stand in the docstrings here.


@torch.library.custom_op("regard::append_and_attend", mutates_args=("keys", "values"))
def append_and_attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: Tensor,
    bias: Tensor | None,
    scale: float,
) -> Tensor:
    """Writes each row's new key and value at its end, then attends to all it holds: (rows, heads, head width).

    query (rows, heads, head width); key, value (rows, kv heads, head width); keys, values (rows, kv heads, capacity,
    head width); lengths (rows), before the new token; bias (rows, heads, capacity).
    """
    if query.device.type == "cuda":
        from regard.nn.fast.decode_triton import attend

        return attend(query, key, value, keys, values, lengths, None, bias, scale)
    append(key, value, keys, values, lengths)
    return _attend(query, keys, values, lengths + 1, bias, scale)


@append_and_attend.register_fake
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: Tensor,
    bias: Tensor | None,
    scale: float,
) -> Tensor:
    return query.new_empty(query.shape)


@torch.library.custom_op("regard::attend_in_rooms", mutates_args=())
def attend_in_rooms(
    query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, rooms: Tensor, scale: float
) -> Tensor:
    """Attends to all that lies in each row's room, which several rows may share: (rows, heads, head width).

    query (rows, heads, head width); keys, values (rooms, kv heads, capacity, head width); lengths (rooms); rooms
    (rows): the number of each row's room.
    """
    if query.device.type == "cuda":
        from regard.nn.fast.decode_triton import attend

        return attend(query, None, None, keys, values, lengths, rooms, None, scale)
    return _attend(query, keys[rooms], values[rooms], lengths[rooms], None, scale)


@attend_in_rooms.register_fake
def _(query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, rooms: Tensor, scale: float) -> Tensor:
    return query.new_empty(query.shape)


def append(key: Tensor, value: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> None:
    """Writes each row's new key and value (rows, kv heads, head width) at its end."""
    at = lengths[:, None, None, None].expand(-1, keys.shape[1], 1, keys.shape[3])
    keys.scatter_(2, at, key[:, :, None])
    values.scatter_(2, at, value[:, :, None])


def _attend(query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    """softmax(q·kᵀ·scale + bias) v over the first `lengths` keys of each row, as written."""
    groups = query.shape[1] // keys.shape[1]
    keys, values = (room if groups == 1 else room.repeat_interleave(groups, 1) for room in (keys, values))
    scores = (keys @ query[..., None])[..., 0] * scale
    scores = scores if bias is None else scores + bias
    hidden = torch.arange(keys.shape[2], device=keys.device) >= lengths[:, None, None]
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    return (weights[:, :, None] @ values)[:, :, 0]
