"""Output layers: over the vocabulary at each place, over classes for the whole sequence, over classes at each place."""

from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor, nn

from regard.config import BARE_KIND, BY_KIND, Config
from regard.errors import ConfigError
from regard.nn.embedding import Embedding
from regard.nn.feedforward import Activation, activate
from regard.nn.loss import Losses, linear_losses, smoothed_losses, uniform_smoothing
from regard.nn.norm import LayerNorm

LARGE, LARGE_ON_CPU = 1 << 25, 1 << 20
"""Logits (tokens × vocabulary) from which on the loss is computed in slices: there to save memory, here time too."""

NEVER = -1e4
"""Score of a token that is never written: in every precision, its probability is zero."""

Pooling = Literal["mean", "max", "first", "last"]


class VocabularyHeadConfig(Config):
    """Logits over the vocabulary at each position: softmax(W x + b)."""

    kind: Literal["vocabulary"] = "vocabulary"
    bias: bool = False
    """Learn b."""
    transform: Activation | None = None
    """One more layer with this bend and a norm before W, as BERT has it."""
    transform_epsilon: PositiveFloat = 1e-5
    """ε of that norm."""
    scale: bool = False
    """Divide x by √width first, as T5 does with a shared embedding."""
    never: tuple[NonNegativeInt, ...] = ()
    """Tokens that are never written and take no probability: those that an imported model does not have."""

    def build(self, width: int, vocab: int, shared: Embedding | None = None) -> "VocabularyHead":
        """With `shared`, W is that embedding's table."""
        return VocabularyHead(
            width, vocab, shared, self.bias, self.transform, self.transform_epsilon, self.scale, self.never
        )

    def num_params(self, width: int, vocab: int, shared: bool) -> int:
        """Parameters beside a shared embedding."""
        transform = width * width + 3 * width if self.transform else 0
        return transform + (0 if shared else width * vocab) + (vocab if self.bias else 0)

    def flops(self, width: int, vocab: int, tokens: int, factor: int | None = None) -> int:
        """Matmul FLOPs; a shared factorised embedding projects down first."""
        transform = 2 * tokens * width * width if self.transform else 0
        product = 2 * tokens * (width * factor + factor * vocab) if factor else 2 * tokens * width * vocab
        return transform + product


class VocabularyHead(nn.Module):
    """logits = W x + b, W shared with the embedding or its own."""

    never: Tensor | None
    spread: Tensor | None
    """Each token's share of label smoothing, where some are never written and get none."""

    def __init__(
        self,
        width: int,
        vocab: int,
        shared: Embedding | None = None,
        bias: bool = False,
        transform: Activation | None = None,
        transform_epsilon: float = 1e-5,
        scale: bool = False,
        never: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        if never and max(never) >= vocab:
            raise ConfigError("model.head.never", f"expected tokens below {vocab}, got {max(never)}")
        self.vocab = vocab
        self.transform = nn.Linear(width, width) if transform else None
        self.transform_norm = LayerNorm(width, transform_epsilon) if transform else None
        self.activation: Activation = transform or "none"
        self.scale = width**-0.5 if scale else 1.0
        self.linear = nn.Linear(width, vocab, bias=False) if shared is None else None
        self.bias = nn.Parameter(torch.zeros(vocab)) if bias else None
        self.register_buffer("never", torch.tensor(never) if never else None, persistent=False)
        self.register_buffer("spread", uniform_smoothing(vocab, never) if never else None, persistent=False)
        self._shared = [shared]  # used here, owned by the model

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocab"]:
        return self.without_never(F.linear(self.prepare(x), self.weight, self.bias))

    def without_never(self, logits: Float[Tensor, "*batch vocab"]) -> Float[Tensor, "*batch vocab"]:
        """The logits, very low for tokens that are never generated."""
        return logits if self.never is None else logits.index_fill(-1, self.never, NEVER)

    @property
    def weight(self) -> Float[Tensor, "vocab inner"]:
        """W, of the embedding's width."""
        shared = self._shared[0]
        return shared.table.weight if shared is not None else self.linear.weight  # type: ignore[union-attr]

    def loss(
        self, x: Float[Tensor, "batch time width"], targets: Int[Tensor, "batch time"], smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        """Summed cross-entropy of the targets; large logits are computed in chunks."""
        return self.losses(x, targets, smoothing).objective

    def losses(
        self, x: Float[Tensor, "batch time width"], targets: Int[Tensor, "batch time"], smoothing: float = 0.0
    ) -> Losses:
        """Summed cross-entropy of the targets, with and without label smoothing."""
        vocab = self.vocab
        if targets.numel() * vocab <= (LARGE_ON_CPU if x.device.type == "cpu" else LARGE):
            return smoothed_losses(self(x), targets, smoothing, self.spread)
        x = self.prepare(x).flatten(0, 1)
        return linear_losses(x, self.weight, self._offsets(x), targets.flatten(), smoothing, spread=self.spread)

    def _offsets(self, x: Float[Tensor, "tokens width"]) -> Float[Tensor, " vocab"] | None:
        """b, very low for tokens that are never generated."""
        if self.never is None:
            return self.bias
        bias = x.new_zeros(self.vocab) if self.bias is None else self.bias
        return bias.index_fill(0, self.never, NEVER)

    def prepare(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch inner"]:
        """The input of the matmul with W, of the shared embedding's width."""
        if self.transform is not None and self.transform_norm is not None:
            x = self.transform_norm(activate(self.transform(x), self.activation))
        x = x * self.scale if self.scale != 1.0 else x
        shared = self._shared[0]
        return x if shared is None or shared.up is None else x @ shared.up.weight


class PooledHeadConfig(Config):
    """One class for the whole sequence: pool the vectors, then softmax(W x + b)."""

    kind: Literal["pooled"] = "pooled"
    pooling: Pooling = "mean"
    """Average over the tokens, as in the lectures; or their maximum, the first or the last token."""
    hidden: PositiveInt | None = None
    """Width of one more tanh layer before W."""

    def build(self, width: int, classes: int) -> "PooledHead":
        return PooledHead(width, classes, self.pooling, self.hidden)

    def num_params(self, width: int, classes: int) -> int:
        last = self.hidden or width
        return last * classes + classes + (width * last + last if self.hidden else 0)

    def flops(self, width: int, classes: int, sequences: int) -> int:
        last = self.hidden or width
        return 2 * sequences * (last * classes + (width * last if self.hidden else 0))


class PooledHead(nn.Module):
    """logits = W pool(x) + b."""

    def __init__(self, width: int, classes: int, pooling: Pooling = "mean", hidden: int | None = None) -> None:
        super().__init__()
        self.pooling: Pooling = pooling
        self.hidden = nn.Linear(width, hidden) if hidden else None
        self.linear = nn.Linear(hidden or width, classes)

    def forward(
        self, x: Float[Tensor, "batch time width"], valid: Bool[Tensor, "batch time"]
    ) -> Float[Tensor, "batch classes"]:
        pooled = pool(x, valid, self.pooling)
        return self.linear(pooled if self.hidden is None else torch.tanh(self.hidden(pooled)))


def pool(
    x: Float[Tensor, "batch time width"], valid: Bool[Tensor, "batch time"], pooling: Pooling
) -> Float[Tensor, "batch width"]:
    """One vector per row, without padding."""
    if pooling == "first":
        return x[:, 0]
    if pooling == "last":
        return x[torch.arange(len(x), device=x.device), valid.sum(1) - 1]
    if pooling == "max":
        return x.masked_fill(~valid[..., None], -torch.inf).amax(1)
    weight = valid[..., None].to(x.dtype)
    return (x * weight).sum(1) / weight.sum(1).clamp(min=1)


class TokenHeadConfig(Config):
    """One class at each position: softmax(W x + b)."""

    kind: Literal["token"] = "token"

    def build(self, width: int, classes: int) -> nn.Linear:
        return nn.Linear(width, classes)

    def num_params(self, width: int, classes: int) -> int:
        return width * classes + classes

    def flops(self, width: int, classes: int, tokens: int) -> int:
        return 2 * tokens * width * classes


AnyHeadConfig = VocabularyHeadConfig | PooledHeadConfig | TokenHeadConfig
HeadConfig = Annotated[AnyHeadConfig, BY_KIND, BARE_KIND]


def head_for(
    head: AnyHeadConfig | None, classes: int | None, usual: VocabularyHeadConfig | None = None
) -> AnyHeadConfig:
    """The configured output layer, or the task's default; raises where it does not fit the task."""
    chosen = head or (PooledHeadConfig() if classes is not None else usual or VocabularyHeadConfig())
    if (classes is None) != isinstance(chosen, VocabularyHeadConfig):
        expected = "classes" if classes is not None else "tokens of the vocabulary"
        raise ConfigError("model.head", f"a {chosen.kind} head cannot give {expected}; leave it out or choose another")
    return chosen
