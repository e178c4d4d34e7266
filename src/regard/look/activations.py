"""Activations of a Transformer: the residual stream recorded, and outputs of heads and layers replaced while it runs.

Positions are those of the attention context, so a patch acts alike on a whole pass and on step-by-step decoding.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import ConfigError, RegardError, counted
from regard.models.stack import Stack, stacks_of
from regard.nn.attention.module import Attention
from regard.nn.block import Block
from regard.nn.context import AttentionContext

StackName = Literal["encoder", "decoder"]
PartName = Literal["encoder", "decoder", "cross"]
Value = Float[Tensor, "*time width"]
"""A vector for every patched position, or one row for each position of the sequence."""


def named_stacks(model: nn.Module) -> dict[StackName, Stack]:
    """The stacks of a Transformer: those under a causal mask are decoders."""
    stacks: dict[StackName, Stack] = {"decoder" if stack.causal else "encoder": stack for stack in stacks_of(model)}
    if not stacks:
        raise RegardError(f"model: {type(model).__name__} is no Transformer, so it has no layers of attention")
    return stacks


@contextmanager
def record_residuals(model: nn.Module) -> Iterator[dict[StackName, list[Tensor]]]:
    """Records the residual stream of one pass: the input of the first block, then the output of each block."""
    residuals: dict[StackName, list[Tensor]] = {}
    with ExitStack() as hooks:
        for name, stack in named_stacks(model).items():
            first, keep = _recorders(residuals.setdefault(name, []), 0 if stack.added is None else len(stack.added))
            hooks.callback(stack.blocks[0].register_forward_pre_hook(first).remove)
            for block in stack.blocks:
                hooks.callback(block.register_forward_hook(keep).remove)
        yield residuals


def _recorders(
    rows: list[Tensor], added: int
) -> tuple[Callable[[nn.Module, tuple[Tensor, ...]], None], Callable[[nn.Module, tuple[object, ...], Tensor], None]]:
    """Hooks that keep the input and the output of a block, without the tokens that the stack adds in front."""

    def first(_block: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        rows.append(inputs[0][:, added:].detach())

    def keep(_block: nn.Module, _inputs: tuple[object, ...], output: Tensor) -> None:
        rows.append(output[:, added:].detach())

    return first, keep


@contextmanager
def patched(
    model: nn.Module,
    part: PartName,
    layer: int,
    head: int | None = None,
    positions: Sequence[int] | None = None,
    value: Value | None = None,
) -> Iterator[None]:
    """Replaces an output while the `with` block lasts, by zeros where no value is given.

    With a head: its output before the output projection. Without: the output of the block (the residual stream), or for
    `cross` that of the cross-attention.
    """
    block = _block(model, part, layer)
    attention = block.cross if part == "cross" else block.attention
    assert isinstance(attention, Attention)
    with ExitStack() as hooks:
        if head is None:
            _check_width(value, _width(model))

            def replace(_module: nn.Module, inputs: tuple[object, ...], output: Tensor) -> Tensor:
                return _replaced(output, _positions(inputs), positions, value, slice(None))

            hook = (attention if part == "cross" else block).register_forward_hook(replace)
        else:
            if not 0 <= head < attention.heads:
                raise ConfigError("head", f"expected 0 to {attention.heads - 1}, got {head}")
            _check_width(value, attention.head_width)
            start = head * attention.head_width
            hook = _patch_head(attention, slice(start, start + attention.head_width), positions, value, hooks.callback)
        hooks.callback(hook.remove)
        yield


def _patch_head(
    attention: Attention,
    dims: slice,
    positions: Sequence[int] | None,
    value: Value | None,
    on_exit: Callable[[Callable[[], None]], object],
) -> torch.utils.hooks.RemovableHandle:
    """The output projection does not get the positions, so a hook on the attention notes them."""
    noted: list[Int[Tensor, "#batch time"]] = []

    def note(_module: nn.Module, inputs: tuple[object, ...]) -> None:
        noted[:] = [_positions(inputs)]

    def replace(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (_replaced(inputs[0], noted[0], positions, value, dims),)

    on_exit(attention.register_forward_pre_hook(note).remove)
    return attention.output.register_forward_pre_hook(replace)


def _replaced(
    x: Float[Tensor, "batch time width"],
    here: Int[Tensor, "#batch time"],
    positions: Sequence[int] | None,
    value: Value | None,
    dims: slice,
) -> Float[Tensor, "batch time width"]:
    x = x.clone()
    chosen = torch.ones_like(here, dtype=torch.bool)
    if positions is not None:
        chosen = torch.isin(here, torch.tensor(list(positions), device=here.device))
    new: Tensor = x.new_zeros(())
    if value is not None and value.dim() == 2:  # a row for each position; later positions stay as they are
        chosen = chosen & (here < len(value))
        new = value.to(x)[here.clamp(max=len(value) - 1)]
    elif value is not None:
        new = value.to(x)
    x[..., dims] = torch.where(chosen[..., None], new, x[..., dims])
    return x


def _positions(inputs: tuple[object, ...]) -> Int[Tensor, "#batch time"]:
    context = next((argument for argument in inputs if isinstance(argument, AttentionContext)), None)
    if context is None:
        raise RegardError("patch: this kind of attention has no positions of single tokens")
    return context.query_positions


def _block(model: nn.Module, part: PartName, layer: int) -> Block:
    stacks = named_stacks(model)
    names = [*stacks, *(["cross"] if any(_has_cross(stack) for stack in stacks.values()) else [])]
    if part not in names:
        raise ConfigError("part", f"expected one of {', '.join(names)}, got {part!r}")
    blocks = stacks["decoder" if part == "cross" else part].blocks
    if not 0 <= layer < len(blocks):
        raise ConfigError("layer", f"the {part} has {counted(len(blocks), 'layer')}, from 0; got {layer}")
    block = blocks[layer]
    assert isinstance(block, Block)
    return block


def _has_cross(stack: Stack) -> bool:
    return getattr(stack.blocks[0], "cross", None) is not None


def _width(model: nn.Module) -> int:
    return next(iter(named_stacks(model).values())).config.width


def _check_width(value: Value | None, width: int) -> None:
    if value is not None and (value.dim() not in (1, 2) or value.shape[-1] != width):
        raise ConfigError(
            "value", f"expected {width} numbers, or a row of {width} for each position; got shape {tuple(value.shape)}"
        )
