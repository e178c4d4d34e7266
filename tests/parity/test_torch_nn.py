"""Attention, blocks and stacks beside those of torch.nn."""

from typing import Literal

import mappings
import pytest
import torch
from torch import nn
from twins import Twins

from regard.models import EncoderConfig
from regard.models.stack import Stack
from regard.nn.attention.module import Attention, CrossAttention
from regard.nn.block import Block, NormPlace, Residual, block_class
from regard.nn.context import AttentionContext
from regard.nn.feedforward import FeedForward
from regard.nn.layout import Layout
from regard.nn.norm import LayerNorm
from regard.nn.pattern import Causal, Padding
from regard.nn.position import NoPositionConfig

WIDTH, HEADS, HIDDEN, DEPTH = 32, 4, 48, 2
BATCH, TIME, SOURCE = 3, 7, 5
LENGTHS, SOURCE_LENGTHS = torch.tensor([7, 4, 1]), torch.tensor([2, 5, 3])
BOTH_PLACES = pytest.mark.parametrize("place", ["before", "after"])
BOTH_BENDS = pytest.mark.parametrize("activation", ["relu", "gelu"])
Bend = Literal["relu", "gelu"]


def vectors(time: int) -> torch.Tensor:
    return torch.randn(BATCH, time, WIDTH, generator=torch.Generator().manual_seed(time))


def hidden(lengths: torch.Tensor, time: int) -> torch.Tensor:
    """Padding as torch.nn wants it: true where nothing may be seen."""
    return torch.arange(time) >= lengths[:, None]


def future(time: int) -> torch.Tensor:
    return torch.ones(time, time, dtype=torch.bool).triu(1)


def attention_twins(kind: type[Attention] = Attention) -> Twins:
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    return Twins(kind(WIDTH, HEADS), theirs, mappings.torch_attention())


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_self_attention(padded: bool, causal: bool) -> None:
    twins, x, places = attention_twins(), vectors(TIME), torch.arange(TIME)[None]
    pattern = Padding(LENGTHS) & (Causal() if causal else None) if padded else (Causal() if causal else None)
    ours = twins.ours(x, AttentionContext(pattern, places, places))
    theirs, _ = twins.theirs(
        x,
        x,
        x,
        key_padding_mask=hidden(LENGTHS, TIME) if padded else None,
        attn_mask=future(TIME) if causal else None,
    )
    twins.compare(ours, theirs)


@pytest.mark.parametrize("padded", [False, True])
def test_cross_attention_to_a_source_of_another_length(padded: bool) -> None:
    twins, x, source = attention_twins(CrossAttention), vectors(TIME), vectors(SOURCE)
    context = AttentionContext(
        Padding(SOURCE_LENGTHS) if padded else None, torch.arange(TIME)[None], torch.arange(SOURCE)[None]
    )
    ours = twins.ours(x, context, twins.ours.project_source(source))
    theirs, _ = twins.theirs(x, source, source, key_padding_mask=hidden(SOURCE_LENGTHS, SOURCE) if padded else None)
    twins.compare(ours, theirs)


def block(place: NormPlace, activation: Bend, cross: bool) -> Block:
    return block_class(place)(
        Attention(WIDTH, HEADS),
        Residual(LayerNorm(WIDTH), place),
        FeedForward(WIDTH, HIDDEN, activation),
        Residual(LayerNorm(WIDTH), place),
        CrossAttention(WIDTH, HEADS) if cross else None,
        Residual(LayerNorm(WIDTH), place) if cross else None,
    )


def torch_layer(kind: type[nn.Module], place: NormPlace, activation: Bend) -> nn.Module:
    return kind(
        WIDTH, HEADS, HIDDEN, dropout=0.0, activation=activation, batch_first=True, norm_first=place == "before"
    )


@BOTH_PLACES
@BOTH_BENDS
def test_encoder_layer(place: NormPlace, activation: Bend) -> None:
    theirs = torch_layer(nn.TransformerEncoderLayer, place, activation)
    twins = Twins(block(place, activation, cross=False), theirs, mappings.torch_block(cross=False))
    x, layout = vectors(TIME), Layout.padded(LENGTHS, TIME)
    ours = twins.ours(x, AttentionContext(layout.pattern(), layout.positions, layout.positions))
    twins.compare(ours, twins.theirs(x, src_key_padding_mask=hidden(LENGTHS, TIME)), layout.valid)


@BOTH_PLACES
@BOTH_BENDS
def test_decoder_layer(place: NormPlace, activation: Bend) -> None:
    theirs = torch_layer(nn.TransformerDecoderLayer, place, activation)
    twins = Twins(block(place, activation, cross=True), theirs, mappings.torch_block(cross=True))
    x, source, places = vectors(TIME), vectors(SOURCE), torch.arange(TIME)[None]
    ours = twins.ours(
        x,
        AttentionContext(Causal(), places, places),
        source_kv=twins.ours.cross.project_source(source),
        source_context=AttentionContext(Padding(SOURCE_LENGTHS), places, torch.arange(SOURCE)[None]),
    )
    hides = {"tgt_mask": future(TIME), "memory_key_padding_mask": hidden(SOURCE_LENGTHS, SOURCE)}
    twins.compare(ours, twins.theirs(x, source, **hides))


def stack(place: NormPlace, activation: Bend, cross: bool, final_norm: bool) -> Stack:
    config = EncoderConfig(
        width=WIDTH,
        heads=HEADS,
        norm_place=place,
        final_norm=final_norm,
        feedforward={"kind": "plain", "hidden": HIDDEN, "activation": activation},
    )
    return Stack(config, DEPTH, NoPositionConfig(), causal=cross, cross=cross)


@BOTH_PLACES
@BOTH_BENDS
@pytest.mark.parametrize("final_norm", [False, True])
def test_encoder(place: NormPlace, activation: Bend, final_norm: bool) -> None:
    layer = torch_layer(nn.TransformerEncoderLayer, place, activation)
    last = nn.LayerNorm(WIDTH) if final_norm else None
    theirs = nn.TransformerEncoder(layer, DEPTH, last, enable_nested_tensor=False)
    ours = stack(place, activation, cross=False, final_norm=final_norm)
    twins = Twins(ours, theirs, mappings.torch_stack(DEPTH, cross=False, final_norm=final_norm))
    x, layout = vectors(TIME), Layout.padded(LENGTHS, TIME)
    y = ours(x, ours.context(layout), layout.valid)
    twins.compare(y, theirs(x, src_key_padding_mask=hidden(LENGTHS, TIME)), layout.valid)


@BOTH_PLACES
@BOTH_BENDS
def test_decoder(place: NormPlace, activation: Bend) -> None:
    layer = torch_layer(nn.TransformerDecoderLayer, place, activation)
    theirs = nn.TransformerDecoder(layer, DEPTH, nn.LayerNorm(WIDTH))
    ours = stack(place, activation, cross=True, final_norm=True)
    twins = Twins(ours, theirs, mappings.torch_stack(DEPTH, cross=True, final_norm=True))
    x, source = vectors(TIME), vectors(SOURCE)
    layout, source_layout = Layout.padded(LENGTHS, TIME), Layout.padded(SOURCE_LENGTHS, SOURCE)
    across = AttentionContext(source_layout.cross_pattern(layout), layout.positions, source_layout.positions)
    y = ours(x, ours.context(layout), layout.valid, ours.project_source(source), across)
    hides = {"tgt_mask": future(TIME), "memory_key_padding_mask": hidden(SOURCE_LENGTHS, SOURCE)}
    twins.compare(y, theirs(x, source, **hides), layout.valid)
