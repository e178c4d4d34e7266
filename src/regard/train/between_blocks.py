"""The number format of the vectors between blocks: as exact as weights, or as short as the products are."""

import torch
from torch import nn

from regard.errors import ConfigError
from regard.models.stack import Stack
from regard.train.precision import Precision, PrecisionSetting


def carry_between_blocks(model: nn.Module, setting: PrecisionSetting, precision: Precision) -> bool:
    """In training, vectors between blocks in the format of a setting; says whether any are shorter than weights.

    `auto` is bfloat16 on a GPU that computes in it, where sums are not normalised themselves: norms stay float32, and
    so would what a block hands on. There a block's sums and norms take as long as it takes to read and write them.
    """
    if setting == "bfloat16" and precision.dtype is not torch.bfloat16:
        raise ConfigError(
            "train.between_blocks",
            f"bfloat16 is for runs that compute in it, got {precision.name}; set train.precision=bfloat16, or auto",
        )
    half = precision.dtype is torch.bfloat16 and (setting == "bfloat16" or precision.device.type == "cuda")
    stacks = [part for part in model.modules() if isinstance(part, Stack)]
    for stack in stacks:
        carried = half and setting != "float32" and stack.config.norm_place == "before"
        stack.carried = torch.bfloat16 if carried else None
    any_carried = any(stack.carried is not None for stack in stacks)
    if setting == "bfloat16" and not any_carried:
        raise ConfigError(
            "train.between_blocks",
            "bfloat16 is for Transformers with model.norm_place=before, as norms hand on float32; leave it at auto",
        )
    return any_carried
