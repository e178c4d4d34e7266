"""The layers that `long.py` measures: ours, one for each kind of attention, and those of the peers.

Each is a function of (length, device, size) that gives a module from (1, length, width) to the same, or, with
`part="attention"`, a function of queries, keys and values (1, heads, length, head width).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from regard.models.stack import Stack, StackConfig
from regard.nn.attention.kinds import BigBirdConfig, FullConfig, LinformerConfig, MemoryCompressedConfig, WindowConfig
from regard.nn.attention.module import attend
from regard.nn.layout import Layout
from regard.nn.position import NoPositionConfig


@dataclass(frozen=True)
class Size:
    """One layer's numbers; every sparse method lets a token see about eight blocks."""

    width: int = 256
    heads: int = 4
    hidden: int = 1024
    block: int = 64
    projected: int = 256


def kinds(length: int, size: Size) -> dict[str, object]:
    """The configs of our own kinds."""
    return {
        "full": FullConfig(),
        "window": WindowConfig(reach=4 * size.block),
        "bigbird": BigBirdConfig(block=size.block, global_tokens=size.block),
        "linformer": LinformerConfig(length=length, projected=size.projected),
        "memory-compressed": MemoryCompressedConfig(),
    }


class Ours(nn.Module):
    """A stack of one block, as recipes build it."""

    def __init__(self, kind: str, length: int, size: Size) -> None:
        super().__init__()
        config = StackConfig(
            width=size.width,
            heads=size.heads,
            attention=kinds(length, size)[kind],  # type: ignore[arg-type]
            position="none",  # type: ignore[arg-type]
            feedforward={"kind": "plain", "hidden": size.hidden, "activation": "relu"},  # type: ignore[arg-type]
            final_norm=False,
            dropout=0.0,  # type: ignore[arg-type]
        )
        self.stack = Stack(config, 1, NoPositionConfig())

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output."""
        return self.stack(x, self.stack.context(Layout.full(*x.shape[:2], device=x.device)))


class Plain(nn.Module):
    """A pre-norm layer around whatever attends."""

    def __init__(self, size: Size, attention: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.heads, self.attention = size.heads, attention
        self.norms = nn.ModuleList(nn.LayerNorm(size.width) for _ in range(2))
        self.maps, self.output = nn.Linear(size.width, 3 * size.width), nn.Linear(size.width, size.width)
        self.up, self.down = nn.Linear(size.width, size.hidden), nn.Linear(size.hidden, size.width)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output."""
        parts = self.maps(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.output(self.attention(*parts).transpose(1, 2).flatten(2))
        return x + self.down(F.relu(self.up(self.norms[1](x))))


class PlainLinformer(nn.Module):
    """Keys and values projected along the sequence, all heads alike, as the known implementations write it."""

    def __init__(self, length: int, projected: int) -> None:
        super().__init__()
        self.of_keys, self.of_values = (
            nn.Parameter(torch.randn(length, projected) * projected**-0.5) for _ in range(2)
        )

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attention to the projected keys."""
        key = torch.einsum("bhnd,nk->bhkd", key, self.of_keys)
        value = torch.einsum("bhnd,nk->bhkd", value, self.of_values)
        weights = (torch.einsum("bhnd,bhkd->bhnk", query, key) * query.shape[-1] ** -0.5).softmax(-1)
        return torch.einsum("bhnk,bhkd->bhnd", weights, value)


def flex(length: int, device: str, size: Size) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Compiled FlexAttention with a BigBird mask of the same density: eight blocks a block."""
    blocks, generator = length // size.block, torch.Generator().manual_seed(0)
    place = torch.arange(blocks)
    seen = (place[:, None] - place).abs() <= 1
    seen[:, [0, -1]] = seen[[0, -1]] = True
    for row in range(1, blocks - 1):
        seen[row, torch.randperm(blocks, generator=generator)[:3]] = True
    seen = seen.to(device)
    coarse = create_block_mask(lambda b, h, q, k: seen[q, k], None, None, blocks, blocks, device=device, BLOCK_SIZE=1)
    mask = type(coarse).from_kv_blocks(
        torch.zeros_like(coarse.kv_num_blocks),
        coarse.kv_indices,
        coarse.full_kv_num_blocks + coarse.kv_num_blocks,
        coarse.full_kv_indices,
        BLOCK_SIZE=size.block,
        mask_mod=lambda b, h, q, k: seen[q // size.block, k // size.block],
    )
    compiled = torch.compile(flex_attention)
    return lambda query, key, value: compiled(query, key, value, block_mask=mask)  # type: ignore[return-value]


class HuggingFaceBigBird(nn.Module):
    """One layer of transformers' BigBird."""

    def __init__(self, length: int, size: Size) -> None:
        super().__init__()
        from transformers import BigBirdConfig as Config
        from transformers import BigBirdModel

        config = Config(
            vocab_size=100,
            hidden_size=size.width,
            num_hidden_layers=1,
            num_attention_heads=size.heads,
            intermediate_size=size.hidden,
            hidden_act="relu",
            max_position_embeddings=length,
            attention_type="block_sparse",
            block_size=size.block,
            num_random_blocks=3,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.model = BigBirdModel(config, add_pooling_layer=False)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output."""
        return self.model(inputs_embeds=x).last_hidden_state


OURS = ("full", "window", "bigbird", "linformer", "memory-compressed")
PEERS = ("torch SDPA", "FlexAttention BigBird", "Hugging Face BigBird", "plain Linformer")


def layer(method: str, length: int, device: str, size: Size) -> nn.Module:
    """The module of one method."""
    if method in OURS:
        return Ours(method, length, size)
    if method == "torch SDPA":
        return Plain(size, F.scaled_dot_product_attention)
    if method == "plain Linformer":
        return Plain(size, PlainLinformer(length, size.projected))
    if method == "FlexAttention BigBird":
        return Plain(size, flex(length, device, size))
    return HuggingFaceBigBird(length, size)


def attention(method: str, length: int, device: str, size: Size) -> Callable[[Tensor, Tensor, Tensor], Tensor] | None:
    """The attention of one method alone; None for those that cannot be had without their maps."""
    if method == "torch SDPA":
        return F.scaled_dot_product_attention
    if method == "FlexAttention BigBird":
        return flex(length, device, size)
    if method not in ("full", "window", "bigbird"):
        return None
    pattern = kinds(length, size)[method].pattern(size.heads, length, False, device)  # type: ignore[attr-defined]
    return lambda query, key, value: attend(query, key, value, pattern)
