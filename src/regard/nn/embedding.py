"""Embeddings: from token ids to vectors."""

import math
from typing import Literal

from jaxtyping import Float, Int
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor, nn

from regard.config import Config
from regard.errors import ConfigError


class EmbeddingConfig(Config):
    """Embeddings."""

    share: Literal["all", "inputs", "output", "none"] = "all"
    """`all`: one matrix for source, target and output (one vocabulary for both sides); `inputs`: one for source and
    target, the output layer has its own; `output`: the output layer uses the target's; `none`: each has its own."""
    scale: bool = True
    """Multiply by √width, as in Vaswani 2017."""
    factor: PositiveInt | None = None
    """Width of factorised embeddings, projected up to the model's width."""
    norm: bool = False
    """Normalise the input vectors before the first layer, as BERT does."""
    segments: NonNegativeInt = 0
    """Learned embeddings of segment kinds (sentence A, sentence B)."""
    same: tuple[tuple[NonNegativeInt, NonNegativeInt], ...] = ()
    """Pairs of tokens of which the first has the second's vector, as where an imported model begins with its end."""

    @property
    def shares_inputs(self) -> bool:
        return self.share in ("all", "inputs")

    @property
    def shares_output(self) -> bool:
        """Whether the output layer uses the target's embedding matrix."""
        return self.share in ("all", "output")

    def target_vocab(self, source_vocab: int, target_vocab: int | None) -> int:
        """The size of the target's vocabulary; raises where it must equal the source's and does not."""
        target_vocab = source_vocab if target_vocab is None else target_vocab
        if self.shares_inputs and source_vocab != target_vocab:
            raise ConfigError(
                "model.embedding.share",
                f"'{self.share}' needs one vocabulary for both sides, got {source_vocab} and {target_vocab} tokens; "
                "set tokenizer.joint=true, or share 'output' or 'none'",
            )
        return target_vocab

    def build(self, vocab: int, width: int) -> "Embedding":
        return Embedding(vocab, width, scale=self.scale, factor=self.factor, segments=self.segments, same=self.same)

    def num_params(self, vocab: int, width: int) -> int:
        tokens = vocab * self.factor + self.factor * width if self.factor else vocab * width
        return tokens + self.segments * width

    def flops(self, width: int, tokens: int) -> int:
        """Matmul FLOPs: only factorised embeddings have any."""
        return 2 * tokens * self.factor * width if self.factor else 0


class Embedding(nn.Module):
    """Row `token` of a learned table, times √width if scaled, projected up if factorised."""

    def __init__(
        self,
        vocab: int,
        width: int,
        scale: bool = True,
        factor: int | None = None,
        segments: int = 0,
        same: tuple[tuple[int, int], ...] = (),
    ) -> None:
        super().__init__()
        if same and max(map(max, same)) >= vocab:
            raise ConfigError("model.embedding.same", f"expected tokens below {vocab}, got {max(map(max, same))}")
        self.same = same
        self.table = nn.Embedding(vocab, factor or width)
        self.up = nn.Linear(factor, width, bias=False) if factor else None
        self.segments = nn.Embedding(segments, width) if segments else None
        self.scale = math.sqrt(width) if scale else 1.0

    def forward(
        self, tokens: Int[Tensor, "batch time"], segments: Int[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time width"]:
        """Token embeddings, plus segment embeddings if there are any."""
        for token, other in self.same:
            tokens = tokens.masked_fill(tokens == token, other)
        x = self.table(tokens)
        x = x if self.up is None else self.up(x)
        x = x if self.scale == 1.0 else x * self.scale
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        return x
