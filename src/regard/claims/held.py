"""Attention with its weights held still: what is left of a stack when softmax may no longer react to the input."""

import torch
from torch import Tensor

from regard.models import EncoderConfig
from regard.models.stack import Stack
from regard.nn.attention.heads import join_heads
from regard.nn.attention.module import record_attention
from regard.nn.block import Block
from regard.nn.context import AttentionContext
from regard.nn.layout import Layout

Weights = list[Tensor]


def stack_of(depth: int, width: int, *, residual: bool, norm: str, feedforward: object) -> Stack:
    """An encoder's stack without biases, so that everything in it that can be linear is."""
    config = EncoderConfig.from_tree({
        "width": width, "depth": depth, "heads": 4, "position": "none", "dropout": 0.0, "residual": residual,
        "norm": {"kind": norm}, "final_norm": False, "feedforward": feedforward,
        "attention": {"kind": "full", "bias": False},
    })  # fmt: skip
    return config.build(2).eval().stack


def context_of(x: Tensor) -> AttentionContext:
    """Every token sees every other."""
    places = Layout.full(x.shape[0], x.shape[1]).positions
    return AttentionContext(None, places, places)


def weights_of(stack: Stack, x: Tensor) -> Weights:
    """The attention weights that an input causes in each block."""
    with torch.no_grad(), record_attention(stack) as seen:
        stack(x, context_of(x))
    return [steps[0].weights for steps in seen.values()]


def with_weights_held(stack: Stack, x: Tensor, weights: Weights) -> Tensor:
    """The stack's output when each block weighs its values with the given weights, whatever its input."""
    for block, held in zip(stack.blocks, weights, strict=True):
        assert isinstance(block, Block)
        attention = block.attention

        def weigh(y: Tensor, held: Tensor = held, attention=attention) -> Tensor:  # noqa: ANN001
            return attention.output(join_heads(held @ attention.value(y)))

        x = block.around_attention(x, weigh)
        if block.feedforward is not None and block.around_feedforward is not None:
            x = block.around_feedforward(x, block.feedforward)
    return x


def bend(function, one: Tensor, other: Tensor) -> float:  # noqa: ANN001
    """How far a function is from additive, ‖f(x+y) − f(x) − f(y) + f(0)‖ / ‖f(x+y) − f(0)‖: zero if it is linear."""
    with torch.no_grad():
        nothing = function(torch.zeros_like(one))
        together = function(one + other) - nothing
        apart = function(one) + function(other) - 2 * nothing
    return float((together - apart).norm() / together.norm())
