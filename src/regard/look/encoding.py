"""Tensors inside JSON, as base64.

pack_weights(x)   uint8, round(255·x): within 1/510 of the weight
pack_floats(x)    little-endian float32, infinities included
"""

import base64
from typing import Any

import torch
from torch import Tensor

from regard.look.payload import SignedBytes


def pack_weights(x: Tensor) -> str:
    return _base64((x.detach().float().clamp(0, 1) * 255).round().to(torch.uint8))


def pack_floats(x: Tensor) -> str:
    return _base64(x.detach().float())


def pack_signed(x: Tensor) -> SignedBytes:
    """uint8 with one scale: value ≈ scale · (byte − 127) / 127."""
    scale = float(x.abs().max().clamp(min=1e-12))
    return SignedBytes(scale=scale, bytes=_base64((x.detach().float() / scale * 127 + 127).round().to(torch.uint8)))


def rounded(values: Tensor, digits: int = 5) -> list[Any]:
    """Nested lists of rounded numbers."""
    if values.dim() > 1:
        return [rounded(row, digits) for row in values]
    return [round(number, digits) for number in values.detach().float().cpu().tolist()]


def _base64(x: Tensor) -> str:
    array = x.cpu().contiguous().numpy()
    return base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode()
