"""Tensors as text inside JSON: weights in 8 bits, other numbers in 32, both as base64.

pack_weights(x)   round(255·x), so that what the page shows is within 1/510 of the truth
pack_floats(x)    little-endian float32, infinities included
"""

import base64
from typing import Any

import torch
from torch import Tensor


def pack_weights(x: Tensor) -> str:
    """Numbers between zero and one, a byte each."""
    return _base64((x.detach().float().clamp(0, 1) * 255).round().to(torch.uint8))


def pack_floats(x: Tensor) -> str:
    """Numbers as they are, four bytes each."""
    return _base64(x.detach().float())


def pack_signed(x: Tensor) -> dict[str, Any]:
    """Numbers of either sign, a byte each and one scale for all: value ≈ scale · (byte − 127) / 127."""
    scale = float(x.abs().max().clamp(min=1e-12))
    return {"scale": scale, "bytes": _base64((x.detach().float() / scale * 127 + 127).round().to(torch.uint8))}


def rounded(values: Tensor, digits: int = 5) -> list[Any]:
    """Numbers for JSON, in nested lists, without digits that nobody reads."""
    if values.dim() > 1:
        return [rounded(row, digits) for row in values]
    return [round(number, digits) for number in values.detach().float().cpu().tolist()]


def _base64(x: Tensor) -> str:
    numbers = x.cpu().contiguous().numpy()
    return base64.b64encode(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()).decode()
