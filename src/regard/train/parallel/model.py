"""One model on several processes: a whole copy in each (DDP), or cut up among them (FSDP2), both torch's own.

    none   one process                                       all of it
    ddp    each process has a copy, gradients are averaged   all of it, in each process
    fsdp   weights, gradients and moments are cut up         1/n of it, and one block put together at a time

Whichever it is, the loss of a step is the same: the processes share out the rows of one batch.
"""

import warnings
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.errors import ConfigError
from regard.nn.attention.module import Attention
from regard.nn.block import Block
from regard.nn.cache import KVCache
from regard.nn.context import AttentionContext
from regard.train.parallel.processes import Team
from regard.train.precision import Precision

Parallel = Literal["none", "ddp", "fsdp"]
ParallelSetting = Literal["auto", "none", "ddp", "fsdp"]

BYTES_PER_PARAMETER = 16
"""A weight, its gradient and Adam's two moments, in float32."""
LARGEST_SHARE = 0.5
"""Of a GPU's memory: what copies may take at most before `auto` cuts the model up; the rest is for activations."""


def refuse_lone(setting: ParallelSetting, processes: int) -> None:
    """One process cannot be asked for where `torchrun` has started several."""
    if setting == "none" and processes > 1:
        raise ConfigError(
            "train.parallel",
            f"none trains in one process, and torchrun has started {processes}; choose ddp, fsdp or auto, "
            "or start regard without torchrun",
        )


def choose_parallel(setting: ParallelSetting, processes: int, num_params: int, room: int | None = None) -> Parallel:
    """How a setting is carried out; `room` is the memory of each process's GPU, in bytes.

    `num_params` are those of one copy; of divided experts, those that a process has (`held_params`). `auto` copies the
    model to all processes, and cuts it up only where the copies would fill too much of the memory.
    """
    refuse_lone(setting, processes)
    if setting == "fsdp":
        return "fsdp"
    if processes == 1:
        return "none"
    crowded = room is not None and num_params * BYTES_PER_PARAMETER > LARGEST_SHARE * room
    return "fsdp" if setting == "auto" and crowded else "ddp"


def room_of(device: torch.device) -> int | None:
    """The memory of a GPU, in bytes; None on a processor, whose memory the processes share."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None


def shard(losses: nn.Module, team: Team, precision: Precision, apart: Collection[nn.Parameter] = ()) -> None:
    """Cuts up a model among the processes, block by block; `losses` is the module that is called with a batch.

    A block is put together just before it computes and forgotten after; what stands outside the blocks (embeddings,
    output layer) stays together from the start of a step to its end. In bfloat16, blocks travel and compute in it;
    gradients are always summed in float32. Parameters `apart` are left as they are.
    """
    # loaded here, as it takes a second that runs in one piece need not wait
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    refuse_single_numbers(losses)
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")  # which nothing here changes in place
    mesh = init_device_mesh(team.device.type, (team.size,))
    half = torch.bfloat16 if precision.dtype is torch.bfloat16 else None
    policy = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=torch.float32, cast_forward_inputs=False)
    shared = {*_shared(losses), *apart}

    def cut(part: nn.Module) -> None:
        forget = team.size > 1  # alone, nothing is saved by forgetting
        fully_shard(part, mesh=mesh, mp_policy=policy, ignored_params=shared, reshard_after_forward=forget)

    for block in blocks_of(losses):
        if block.cross is not None:
            cut(block.cross)
            _called_by_itself(block.cross)
        cut(block)
    outer = MixedPrecisionPolicy(reduce_dtype=torch.float32, cast_forward_inputs=False)
    fully_shard(losses, mesh=mesh, mp_policy=outer, ignored_params=set(apart), reshard_after_forward=False)


def _called_by_itself(cross: Attention) -> None:
    """Lets FSDP put cross-attention together twice: to remember the source, before its block has its turn, and in it.

    FSDP watches tensors to know when the backward pass comes by, so it is shown keys and values as two of them.
    """
    from torch.distributed.fsdp import register_fsdp_forward_method

    project_source = cross.project_source

    def pair(source: Tensor) -> tuple[Tensor, Tensor]:
        heard = project_source(source)
        return heard.keys, heard.values

    cross.pair = pair  # type: ignore[assignment]
    register_fsdp_forward_method(cross, "pair")
    register_fsdp_forward_method(cross, "across")
    cross.project_source = lambda source: KVCache(*cross.pair(source))  # type: ignore[method-assign, operator]


def refuse_single_numbers(model: nn.Module) -> None:
    """FSDP cuts parameters along their first dimension, so they must have one."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 0:
            raise ConfigError("train.parallel", f"fsdp cannot cut up '{name}', a single number; choose ddp")


def blocks_of(model: nn.Module) -> list[Block]:
    """The blocks of a model, in order; none in the recurrent and convolutional ones, which are cut up as a whole."""
    return [part for part in model.modules() if isinstance(part, Block)]


def _shared(model: nn.Module) -> Iterator[nn.Parameter]:
    """Parameters of blocks that others use too, such as positions: they stay together with what is outside."""
    users = Counter(parameter for block in blocks_of(model) for parameter in set(block.parameters()))
    outside = outside_blocks(model)
    for parameter, count in users.items():
        if count > 1 or parameter in outside:
            yield parameter


def outside_blocks(part: nn.Module) -> set[nn.Parameter]:
    """The parameters that can be reached without going through a block."""
    own, children = set(part.parameters(recurse=False)), part.children()
    return own.union(*(outside_blocks(child) for child in children if not isinstance(child, Block)))


def checkpoint_blocks(model: nn.Module) -> None:
    """Keeps only what goes into each block while training; the backward pass computes the block once more."""

    def prepare(block: Block) -> None:
        plain = block.forward

        def alone(x: Tensor, context: AttentionContext, *given: object) -> Tensor:
            # what layers share is made anew in each: found ready the second time, it would not be computed again
            return plain(x, replace(context, shared=dict(context.shared)), *given)  # type: ignore[arg-type]

        def forward(*given: object) -> Tensor:
            if not (block.training and torch.is_grad_enabled()):
                return plain(*given)  # type: ignore[arg-type]
            return checkpoint(alone, *given, use_reentrant=False)  # type: ignore[return-value]

        block.forward = forward  # type: ignore[method-assign]

    blocks = blocks_of(model)
    if not blocks:
        raise ConfigError(
            "train.activation_checkpointing", "only Transformers have blocks to compute again; leave it out"
        )
    for block in blocks:
        prepare(block)
