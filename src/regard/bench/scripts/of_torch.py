"""torch.nn.Transformer, and a plain decoder as small repositories have it."""

import math
import sys

import protocol
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Pairs(nn.Module):
    """torch.nn.Transformer with shared, scaled embeddings, sinusoidal positions and a tied output layer."""

    def __init__(self, work: protocol.Work) -> None:
        super().__init__()
        width, self.dropout = work["width"], work["dropout"]
        self.embedding = nn.Embedding(work["vocabulary"], width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.core = nn.Transformer(
            width, work["heads"], work["depth"], work["depth"], work["feedforward"], work["dropout"],
            batch_first=True, norm_first=True,
        )  # fmt: skip
        self.sinusoids: Tensor
        self.register_buffer("sinusoids", sinusoids(work["longest"] + 1, width))

    def embed(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)
        return F.dropout(x + self.sinusoids[: tokens.shape[1]], self.dropout, self.training)

    def forward(self, source: Tensor, source_pad: Tensor, read: Tensor, read_pad: Tensor) -> Tensor:
        later = torch.ones(read.shape[1], read.shape[1], dtype=torch.bool, device=read.device).triu(1)
        x = self.core(
            self.embed(source), self.embed(read), tgt_mask=later, src_key_padding_mask=source_pad,
            tgt_key_padding_mask=read_pad, memory_key_padding_mask=source_pad, tgt_is_causal=False,
        )  # fmt: skip
        return F.linear(x, self.embedding.weight)


def sinusoids(length: int, width: int) -> Tensor:
    angle = torch.arange(length)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


class Block(nn.Module):
    """Attention and feed-forward, pre-norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        shape = (batch, time, 3, self.heads, width // self.heads)
        query, key, value = self.qkv(self.norm1(x)).view(shape).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, time, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Plain(nn.Module):
    """A decoder in thirty lines."""

    def __init__(self, work: protocol.Work) -> None:
        super().__init__()
        self.tokens = nn.Embedding(work["vocabulary"], work["width"])
        self.positions = nn.Embedding(work["longest"] + work["write"], work["width"])
        self.blocks = nn.ModuleList(Block(work["width"], work["heads"]) for _ in range(work["depth"]))
        self.norm = nn.LayerNorm(work["width"])
        for weight in (self.tokens.weight, self.positions.weight):
            nn.init.normal_(weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


class Encoder(nn.Module):
    """torch.nn.TransformerEncoder with a causal mask, as a language model."""

    def __init__(self, work: protocol.Work) -> None:
        super().__init__()
        self.tokens = nn.Embedding(work["vocabulary"], work["width"])
        self.positions = nn.Embedding(work["longest"], work["width"])
        layer = nn.TransformerEncoderLayer(
            work["width"], work["heads"], work["feedforward"], 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.core = nn.TransformerEncoder(layer, work["depth"], enable_nested_tensor=False)
        self.norm = nn.LayerNorm(work["width"])

    def forward(self, tokens: Tensor) -> Tensor:
        later = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        x = self.core(self.tokens(tokens) + self.positions.weight[: tokens.shape[1]], mask=later, is_causal=True)
        return F.linear(self.norm(x), self.tokens.weight)


def make(request: protocol.Request) -> protocol.Step:
    work = request["work"]
    if work["kind"] == "train-pair":
        batch = protocol.PairBatch(request)
        model = Pairs(work)
        inputs = (batch.source, ~batch.source_mask, batch.read, ~batch.target_mask)
        labels = batch.labels.flatten()
        return protocol.training_step(
            request, model, lambda forward: F.cross_entropy(forward(*inputs).flatten(0, 1).float(), labels)
        )
    model = Plain(work) if "plain" in sys.argv[1:] else Encoder(work)
    inputs, targets = protocol.text_batch(request)
    return protocol.training_step(
        request, model, lambda forward: F.cross_entropy(forward(inputs).flatten(0, 1).float(), targets.flatten())
    )


if __name__ == "__main__":
    protocol.serve(make, lambda: f"torch {torch.__version__}")
