"""One model on several processes: a copy in each (DDP), or sharded over them (FSDP2), both torch's own.

    none   one process                                       all of it
    ddp    each process has a copy, gradients are averaged   all of it, in each process
    fsdp   weights, gradients and moments are sharded        1/n of it, and one gathered block at a time

The loss of a step is the same in all: the processes share out the rows of one batch. Here too: activation
checkpointing.
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
from regard.nn.attention.module import CrossAttention
from regard.nn.block import Block
from regard.nn.cache import KVCache
from regard.nn.context import AttentionContext
from regard.train.parallel.processes import World
from regard.train.precision import Precision

Parallel = Literal["none", "ddp", "fsdp"]
ParallelSetting = Literal["auto", "none", "ddp", "fsdp"]

BYTES_PER_PARAMETER = 16
"""Weight, gradient and Adam's two moments, in float32."""
LARGEST_SHARE = 0.5
"""Of a GPU's memory, that copies may take before `auto` shards the model; the rest is for activations."""


def refuse_none(setting: ParallelSetting, processes: int) -> None:
    """ConfigError for `none` where `torchrun` has started several processes."""
    if setting == "none" and processes > 1:
        raise ConfigError(
            "train.parallel",
            f"none trains in one process, and torchrun has started {processes}; choose ddp, fsdp or auto, "
            "or start regard without torchrun",
        )


def choose_parallel(setting: ParallelSetting, processes: int, num_params: int, memory: int | None = None) -> Parallel:
    """What a setting means here; `memory` is that of each process's GPU, in bytes.

    `num_params` are those of one copy; with expert parallelism, those that a process has (`held_params`). `auto` is
    ddp, and fsdp only where copies would fill too much of the memory.
    """
    refuse_none(setting, processes)
    if setting == "fsdp":
        return "fsdp"
    if processes == 1:
        return "none"
    too_large = memory is not None and num_params * BYTES_PER_PARAMETER > LARGEST_SHARE * memory
    return "fsdp" if setting == "auto" and too_large else "ddp"


def gpu_memory(device: torch.device) -> int | None:
    """Bytes of memory of a GPU; None on a CPU, whose memory the processes share."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None


def shard(losses: nn.Module, world: World, precision: Precision, ignored: Collection[nn.Parameter] = ()) -> None:
    """Shards a model over the processes, block by block; `losses` is the module that is called with a batch.

    A block is gathered just before it computes and resharded after; what is outside the blocks (embeddings, output
    layer) stays gathered from the start of a step to its end. In bfloat16, blocks are gathered and computed in it;
    gradients are always summed in float32. `ignored` parameters are left as they are.
    """
    # imported here, as it takes a second that other runs need not wait
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    refuse_scalars(losses)
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")  # which nothing here changes in place
    mesh = init_device_mesh(world.device.type, (world.size,))
    half = torch.bfloat16 if precision.dtype is torch.bfloat16 else None
    policy = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=torch.float32, cast_forward_inputs=False)
    shared = {*_shared(losses), *ignored}

    def shard_part(part: nn.Module) -> None:
        reshard = world.size > 1  # one process saves no memory by it
        fully_shard(part, mesh=mesh, mp_policy=policy, ignored_params=shared, reshard_after_forward=reshard)

    for block in blocks_of(losses):
        if block.cross is not None:
            shard_part(block.cross)
            _gather_separately(block.cross)
        shard_part(block)
    outer = MixedPrecisionPolicy(reduce_dtype=torch.float32, cast_forward_inputs=False)
    fully_shard(losses, mesh=mesh, mp_policy=outer, ignored_params=set(ignored), reshard_after_forward=False)


def _gather_separately(cross: CrossAttention) -> None:
    """Lets FSDP gather cross-attention twice: to project the source, before its block runs, and in the block.

    FSDP hooks the output tensors for the backward pass, so keys and values are returned as two of them.
    """
    from torch.distributed.fsdp import register_fsdp_forward_method

    project_source = cross.project_source

    def pair(source: Tensor) -> tuple[Tensor, Tensor]:
        source_kv = project_source(source)
        return source_kv.keys, source_kv.values

    cross.pair = pair  # type: ignore[assignment]
    register_fsdp_forward_method(cross, "pair")
    cross.project_source = lambda source: KVCache(*cross.pair(source))  # type: ignore[method-assign, operator]


def refuse_scalars(model: nn.Module) -> None:
    """FSDP shards parameters along their first dimension, so they must have one."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 0:
            raise ConfigError("train.parallel", f"fsdp cannot shard '{name}', a scalar; choose ddp")


def blocks_of(model: nn.Module) -> list[Block]:
    """The blocks of a model, in order; none in recurrent and convolutional ones, which are sharded as a whole."""
    return [part for part in model.modules() if isinstance(part, Block)]


def _shared(model: nn.Module) -> Iterator[nn.Parameter]:
    """Parameters of blocks that are used elsewhere too, such as positions: they are sharded with the outer module."""
    users = Counter(parameter for block in blocks_of(model) for parameter in set(block.parameters()))
    outside = outside_blocks(model)
    for parameter, count in users.items():
        if count > 1 or parameter in outside:
            yield parameter


def outside_blocks(part: nn.Module) -> set[nn.Parameter]:
    """Parameters of a module that belong to no block."""
    direct, children = set(part.parameters(recurse=False)), part.children()
    return direct.union(*(outside_blocks(child) for child in children if not isinstance(child, Block)))


def checkpoint_blocks(model: nn.Module) -> None:
    """Activation checkpointing: only each block's inputs are kept; the backward pass computes the block again."""

    def prepare(block: Block) -> None:
        plain = block.forward

        def alone(x: Tensor, context: AttentionContext, *arguments: object) -> Tensor:
            # what layers share is made anew in each: found ready the second time, it would not be computed again
            return plain(x, replace(context, shared=dict(context.shared)), *arguments)  # type: ignore[arg-type]

        def forward(*arguments: object) -> Tensor:
            if not (block.training and torch.is_grad_enabled()):
                return plain(*arguments)  # type: ignore[arg-type]
            return checkpoint(alone, *arguments, use_reentrant=False)  # type: ignore[return-value]

        block.forward = forward  # type: ignore[method-assign]

    blocks = blocks_of(model)
    if not blocks:
        raise ConfigError(
            "train.activation_checkpointing", "only Transformers have blocks to compute again; leave it out"
        )
    for block in blocks:
        prepare(block)
