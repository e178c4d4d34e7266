"""The block: its sub-layers in their order, with and without cross-attention and feed-forward part."""

import torch
from attention_cases import assert_close, self_context
from torch import Tensor, nn

from regard.nn.attention.module import Attention, CrossAttention
from regard.nn.block import PlainBlock, PreNormBlock, Residual
from regard.nn.context import AttentionContext
from regard.nn.experts import Experts
from regard.nn.feedforward import FeedForward
from regard.nn.layout import Layout
from regard.nn.norm import LayerNorm
from regard.nn.pattern import Causal

X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
CONTEXT = self_context(Layout.full(2, 5), Causal())


def around() -> Residual:
    return Residual(LayerNorm(8))


def test_encoder_and_decoder_blocks_add_attention_then_feedforward():
    attention, feedforward = Attention(8, 2), FeedForward(8, 16)
    block = PreNormBlock(attention, around(), feedforward, around())
    x = X + attention(block.around_attention.norm(X), CONTEXT)
    expected = x + feedforward(block.around_feedforward.norm(x))
    assert_close(block(X, CONTEXT), expected, 1e-6)


def test_a_block_with_a_source_adds_cross_attention_between_the_two():
    torch.manual_seed(1)
    attention, cross, feedforward, source = (
        Attention(8, 2),
        CrossAttention(8, 2),
        FeedForward(8, 16),
        torch.randn(2, 3, 8),
    )
    block = PreNormBlock(attention, around(), feedforward, around(), cross, around())
    across = AttentionContext(None, torch.arange(5)[None], torch.arange(3)[None])
    x = X + attention(block.around_attention.norm(X), CONTEXT)
    x = x + cross(block.around_cross.norm(x), across, cross.project_source(source))
    expected = x + feedforward(block.around_feedforward.norm(x))
    got = block(X, CONTEXT, source_kv=cross.project_source(source), source_context=across)
    assert_close(got, expected, 1e-6)


def test_without_feedforward_only_attention_is_left():
    block = PlainBlock(Attention(8, 2), Residual(nn.Identity(), connected=False))
    assert_close(block(X, CONTEXT), block.attention(X, CONTEXT), 1e-6)


def test_the_feedforward_part_learns_which_places_hold_tokens():
    seen: list[Tensor | None] = []

    class Spy(Experts):
        def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
            seen.append(valid)
            return super().forward(x, valid)

    valid = torch.arange(5).expand(2, 5) < 3
    PreNormBlock(Attention(8, 2), around(), Spy(8, 16, 2, 1), around())(X, CONTEXT, valid)
    assert seen == [valid]
