"""torch.compile, block by block."""

import torch
from torch import nn

from regard.nn.block import Block


def compile_blocks(model: nn.Module) -> None:
    """torch.compile block by block, for training only: all blocks of a kind share what is compiled."""

    def prepare(block: Block) -> None:
        plain, compiled = block.forward, torch.compile(block.forward)
        block.forward = lambda *given: (compiled if block.training else plain)(*given)  # type: ignore[method-assign]

    for part in model.modules():
        if isinstance(part, Block):
            prepare(part)
