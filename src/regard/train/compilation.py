"""torch.compile, block by block."""

import math

import torch
from torch import nn

from regard.data.batches import Batches
from regard.models.stack import Stack, stacks_of
from regard.nn.block import Block
from regard.nn.device import HAS_TRITON
from regard.nn.experts import Experts
from regard.train.settings import TrainConfig


def why_compile(model: nn.Module, config: TrainConfig, batches: Batches, device: torch.device) -> str:
    """Why blocks are to be compiled; empty where they are not."""
    if config.compile != "auto":
        return "as set" if config.compile == "on" else ""
    enough = (config.steps or math.inf) >= 500 and (config.minutes or math.inf) >= 2
    if device.type != "cuda" or not enough or not HAS_TRITON:
        return ""
    if batches.one_shape:
        return "as all batches have one shape"
    return "as every batch is one row" if batches.one_row and fits_any_length(model) else ""


def fits_any_length(model: nn.Module) -> bool:
    """Whether blocks can be compiled for rows of any length at once.

    They cannot where positions act on the scores or attention is sparse: torch then compiles them for each length.
    """
    stacks = stacks_of(model)
    plain = all(stack.attention.kind == "full" for stack in stacks)
    return plain and not any(position.acts_on_scores for stack in stacks for position in stack.positions)


def compile_blocks(model: nn.Module, any_length: bool = False) -> None:
    """torch.compile block by block, and the last norm, for training only: blocks of a kind share what is compiled.

    With `any_length` it is compiled for rows of any length at once; otherwise for the first shape, and for any
    once others follow.

    Mixtures are left out: torch's compiler supports the grouped matmul in bfloat16 only (2.13), and where experts are
    divided among processes, the number of tokens differs every time.
    """

    def prepare(part: nn.Module) -> None:
        plain, compiled = part.forward, torch.compile(part.forward, dynamic=any_length or None)
        part.forward = lambda *arguments: (compiled if part.training else plain)(*arguments)  # type: ignore[method-assign]

    for part in model.modules():
        if isinstance(part, Block):
            prepare(part)
        elif isinstance(part, Stack) and part.config.has_final_norm:
            prepare(part.final_norm)
        elif isinstance(part, Experts):
            part.forward = torch.compiler.disable(part.forward)  # type: ignore[method-assign]
