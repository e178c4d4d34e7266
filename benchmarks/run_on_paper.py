"""A run on paper: what each process must hold and move, and how long a step takes, before any machine is rented.

    memory   weights, gradients, Adam's moments      by the shapes of the parameters, exactly
             what the backward pass needs            by counting the tensors that the forward pass saves, exactly
             copies of weights during a step         rounded ones; or what FSDP puts together at a time
    time     FLOPs over what the processors reach, bytes sent over what the links carry

Counted for models of full attention, a plain feed-forward part with ReLU, layer norm and padded rows, as of Vaswani
2017; the tests hold every count to what torch does.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from regard.models import DecoderConfig, EncoderDecoderConfig
from regard.nn.block import Block
from regard.nn.head import LARGE
from regard.nn.loss import ALIGNED
from regard.train.parallel.experts import expert_matrices
from regard.train.parallel.model import Parallel, outside_blocks

WEIGHT, GRADIENT, MOMENTS = 4, 4, 8  # bytes for each parameter: float32, and two float32 for Adam
INTEGER = 8


@dataclass(frozen=True)
class Share:
    """What one process computes in one go: rows of a source and a target, or of a text alone."""

    rows: int
    target: int
    source: int = 0

    @property
    def tokens(self) -> int:
        """Tokens on both sides."""
        return self.rows * (self.source + self.target)


@dataclass(frozen=True)
class Cluster:
    """GPUs, and the links between them."""

    gpus: int
    peak: float = 989e12
    """FLOP/s of one GPU in bfloat16: here and below, an H100 with eight to a machine."""
    reached: float = 0.4
    """Share of the peak that training reaches."""
    near: float = 450e9
    """Bytes a second that each GPU sends to others of its machine."""
    far: float = 50e9
    """Bytes a second that each GPU sends to other machines."""
    per_machine: int = 8
    memory: float = 80e9

    @property
    def link(self) -> float:
        """The slowest link of a ring through all GPUs."""
        return self.near if self.gpus <= self.per_machine else self.far


@dataclass(frozen=True)
class Held:
    """Bytes that one process holds from step to step."""

    weights: int
    moments: int
    gradients: int

    @property
    def total(self) -> int:
        """All three together."""
        return self.weights + self.moments + self.gradients


def on_paper(config: DecoderConfig | EncoderDecoderConfig, vocab: int) -> nn.Module:
    """A model of which only the shapes exist."""
    with torch.device("meta"):
        return config.build(vocab)


def held(model: nn.Module, parallel: Parallel, processes: int, rank: int = 0, expert_parallel: int = 1) -> Held:
    """What a process holds: all of it, or under FSDP its rows of every parameter; of divided experts, its own."""
    whole, among = list(model.parameters()), processes if parallel == "fsdp" else 1
    divided = set(expert_matrices(model).values()) if expert_parallel > 1 else set()
    numbers = sum(p.numel() // expert_parallel if p in divided else _numbers_of(p, among, rank) for p in whole)
    counters = 4 * len(whole)  # Adam counts the steps of each parameter
    return Held(WEIGHT * numbers, MOMENTS * numbers + counters, GRADIENT * numbers)


def _numbers_of(parameter: nn.Parameter, processes: int, rank: int) -> int:
    if processes == 1:
        return parameter.numel()
    return rows_of(parameter.shape[0], processes, rank) * parameter.shape[1:].numel()


def rows_of(rows: int, processes: int, rank: int) -> int:
    """Rows of a parameter that a process holds: all but the last ones have as many, rounded up."""
    each = -(-rows // processes)
    return max(0, min(each, rows - rank * each))


def copied_bytes(model: nn.Module, parallel: Parallel, half: bool) -> int:
    """Copies of weights while a step is computed: rounded ones, or under FSDP what is put together at a time.

    That is all outside the blocks, the block that computes and the one that is next, in the format of the products;
    and gradients of a block in the same, until they are summed in float32.
    """
    if parallel != "fsdp":
        return sum(2 * parameter.numel() for parameter in model.parameters() if parameter.dim() > 1) if half else 0
    outside = sum(parameter.numel() for parameter in outside_blocks(model))
    block = max(sum(p.numel() for p in part.parameters()) for part in model.modules() if isinstance(part, Block))
    return outside * (WEIGHT + GRADIENT) + block * (2 * _width(half) + _width(half) + GRADIENT)


def _width(half: bool) -> int:
    return 2 if half else 4


def activation_bytes(
    config: DecoderConfig | EncoderDecoderConfig, vocab: int, share: Share, half: bool, kept: bool = True
) -> int:
    """What the forward pass saves for the backward pass; without `kept`, blocks are computed again and save only x."""
    if isinstance(config, DecoderConfig):
        return _stack(config, config.depth, share.rows, share.target, 0, half, kept) + _loss(config, vocab, share, half)
    encoder = _stack(config, config.depth, share.rows, share.source, 0, half, kept, padded=True)
    encoder += 0 if half else share.rows * share.source * config.width * 4  # what all cross-attentions listen to
    decoder = _stack(config, config.target_depth, share.rows, share.target, share.source, half, kept)
    return encoder + decoder + _loss(config, vocab, share, half)


def _stack(
    config: Any,
    depth: int,
    rows: int,
    time: int,
    source: int,
    half: bool,
    kept: bool,
    padded: bool = False,
) -> int:
    """Token ids, what the embedding's dropout kept (a byte a number), the blocks, and the input of the last norm."""
    tokens, width = rows * time, config.width
    block = _block(config, rows, time, half, padded)
    block += _cross(config, rows, time, source, half) if source else 0
    if not kept:  # the block's input, and the source's keys and values with what they were made of
        block = tokens * 4 * width + 2 * rows * source * width * _width(half) * (2 if half else 1)
    once = INTEGER + (0 if kept else 1) + (width if config.dropout.embedding else 0)
    once += (4 * width + 8) if config.has_final_norm else 0
    return depth * block + tokens * once


def _block(config: Any, rows: int, time: int, half: bool, padded: bool) -> int:
    """x before each norm in float32; what enters products, and queries, keys and values, in the products' format."""
    width, byte, tokens = config.width, _width(half), rows * time
    entering = width * (3 if half else 1)  # normed x: each of three products keeps a rounded copy of its own
    products = entering + 3 * width + 2 * width + config.feedforward.hidden_of(width)
    dropped = 2 * width if config.dropout.residual else 0
    seen = rows * time * time * byte if padded else 0
    return tokens * (2 * 4 * width + byte * products + dropped + 4 * config.heads + 4 * 4) + seen


def _cross(config: Any, rows: int, time: int, source: int, half: bool) -> int:
    """The same for attention to the source: a query for each target token, a key and a value for each source token."""
    width, byte = config.width, _width(half)
    dropped = width if config.dropout.residual else 0
    target = rows * time * (4 * width + byte * 3 * width + dropped + 4 * config.heads + 2 * 4)
    copies = 2 if half else 0
    return target + rows * source * byte * (2 + copies) * width + rows * time * source * byte


def _loss(config: Any, vocab: int, share: Share, half: bool) -> int:
    """What the output layer is given, the targets, and the log-probabilities; or the gradients, if sliced."""
    tokens, width = share.rows * share.target, config.width
    if tokens * vocab > LARGE:
        return (tokens + -(-vocab // ALIGNED) * ALIGNED) * width * 4
    return tokens * (_width(half) * width + INTEGER + 4 * vocab) + 4


def sent_bytes(model: nn.Module, parallel: Parallel, processes: int, half: bool) -> float:
    """Bytes that a process sends in a step: DDP sums gradients, FSDP puts blocks together twice and sums as it cuts."""
    total = sum(parameter.numel() for parameter in model.parameters())
    outside = sum(parameter.numel() for parameter in outside_blocks(model))
    ring = (processes - 1) / processes
    if parallel == "fsdp":
        return ring * (2 * _width(half) * (total - outside) + WEIGHT * outside + GRADIENT * total)
    return ring * 2 * GRADIENT * total if parallel == "ddp" else 0.0


@dataclass(frozen=True)
class Estimate:
    """A step on paper: bytes of one process, seconds of all."""

    parameters: int
    held: int
    copies: int
    activations: int
    sent: float
    compute: float
    """Seconds of computing."""
    talk: float
    """Seconds of sending: hidden behind computing at best, added to it at worst."""

    @property
    def memory(self) -> int:
        """Bytes of one process, but for what single operations need and what the allocator wastes."""
        return self.held + self.copies + self.activations


def estimate(
    config: DecoderConfig | EncoderDecoderConfig,
    vocab: int,
    share: Share,
    cluster: Cluster,
    parallel: Parallel,
    *,
    accumulate: int = 1,
    half: bool = True,
    kept: bool = True,
) -> Estimate:
    """A step in which each process computes `accumulate` shares one after another."""
    model = on_paper(config, vocab)
    whole = replace(share, rows=share.rows * accumulate)
    flops = _flops(config, vocab, whole) * (3 if kept else 4)
    sent = sent_bytes(model, parallel, cluster.gpus, half) * (accumulate if parallel == "fsdp" else 1)
    return Estimate(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        held=held(model, parallel, cluster.gpus).total,
        copies=copied_bytes(model, parallel, half),
        activations=activation_bytes(config, vocab, share, half, kept),
        sent=sent,
        compute=flops / (cluster.peak * cluster.reached),
        talk=sent / cluster.link,
    )


def _flops(config: DecoderConfig | EncoderDecoderConfig, vocab: int, share: Share) -> int:
    if isinstance(config, DecoderConfig):
        return config.flops(share.rows, share.target, vocab)
    return config.flops(share.rows, share.source, share.target, vocab)
