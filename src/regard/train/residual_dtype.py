"""The number format of the vectors between blocks: as exact as weights, or as short as the products are."""

import torch
from torch import nn

from regard.errors import ConfigError
from regard.models.stack import Stack, stacks_of
from regard.train.precision import Precision, PrecisionSetting


def carry_between_blocks(
    model: nn.Module, setting: PrecisionSetting, precision: Precision, before: bool | None = None
) -> bool:
    """In training, vectors between blocks in the format of a setting; says whether they are bfloat16 by it.

    `auto` is bfloat16 on a GPU that computes in it, where sums are not normalised themselves: norms stay float32, and
    so would what a block hands on. There a block's sums and norms take as long as it takes to read and write them.
    Elsewhere they stay as the inputs are. A run that goes on does by `auto` what it did `before`.
    """
    half, stacks = precision.dtype is torch.bfloat16, stacks_of(model)
    if setting == "bfloat16" and not (half and any(map(_hands_on, stacks))):
        wrong = f"got {precision.name}" if not half else "as other norms hand on float32"
        raise ConfigError(
            "train.between_blocks",
            "bfloat16 is for Transformers with model.norm_place=before that compute in it (train.precision), "
            f"{wrong}; leave it at auto",
        )
    pays = half and (precision.device.type == "cuda" if before is None else before)
    formats = {"float32": torch.float32, "bfloat16": torch.bfloat16, "auto": torch.bfloat16 if pays else None}
    for stack in stacks:
        shorter = formats[setting] is torch.bfloat16
        stack.carried = None if shorter and not _hands_on(stack) else formats[setting]
    return any(stack.carried is torch.bfloat16 for stack in stacks)


def _hands_on(stack: Stack) -> bool:
    """Whether sums themselves go from block to block."""
    return stack.config.norm_place == "before"
