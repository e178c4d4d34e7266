"""The number format of the vectors between blocks: as exact as weights, or as short as the products are."""

import torch
from torch import nn

from regard.errors import ConfigError
from regard.models.stack import Stack
from regard.train.precision import Precision, PrecisionSetting


def carry_between_blocks(
    model: nn.Module, setting: PrecisionSetting, precision: Precision, before: bool | None = None
) -> bool:
    """In training, vectors between blocks in the format of a setting; says whether they are bfloat16 by it.

    `auto` is bfloat16 on a GPU that computes in it, where sums are not normalised themselves: norms stay float32, and
    so would what a block hands on. There a block's sums and norms take as long as it takes to read and write them.
    Elsewhere they stay as the inputs are. A run that goes on does by `auto` what it did `before`.
    """
    half, able = precision.dtype is torch.bfloat16, [stack for stack in _stacks(model) if _hands_on(stack)]
    if setting == "bfloat16" and not (half and able):
        wrong = f"got {precision.name}" if not half else "as other norms hand on float32"
        raise ConfigError(
            "train.between_blocks",
            "bfloat16 is for Transformers with model.norm_place=before that compute in it (train.precision), "
            f"{wrong}; leave it at auto",
        )
    chosen = half and (precision.device.type == "cuda" if before is None else before)
    for stack in _stacks(model):
        stack.carried = torch.float32 if setting == "float32" else None
    for stack in able if setting == "bfloat16" or (setting == "auto" and chosen) else []:
        stack.carried = torch.bfloat16
    return any(stack.carried is torch.bfloat16 for stack in able)


def _stacks(model: nn.Module) -> list[Stack]:
    return [part for part in model.modules() if isinstance(part, Stack)]


def _hands_on(stack: Stack) -> bool:
    """Whether sums themselves go from block to block."""
    return stack.config.norm_place == "before"
