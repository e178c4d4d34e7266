"""The contract of all position kinds: three places to act in, each doing nothing unless a kind says otherwise."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.config import Family
from regard.nn.context import AttentionContext
from regard.nn.position.bias import Bias


class Position(nn.Module):
    """Tells a model, which by itself sees a set of tokens, in which order they stand."""

    def embed(
        self, x: Float[Tensor, "batch time width"], context: AttentionContext
    ) -> Float[Tensor, "batch time width"]:
        """On the inputs of a layer: added or concatenated."""
        return x

    def rotate(
        self, x: Float[Tensor, "batch heads time head_width"], index: Int[Tensor, "#batch time"]
    ) -> Float[Tensor, "batch heads time head_width"]:
        """On queries and keys."""
        return x

    def bias(self, query: Float[Tensor, "batch heads query head_width"], context: AttentionContext) -> Bias | None:
        """On the scores; `query` is scaled already."""
        return None

    def values(
        self, weights: Float[Tensor, "batch heads query key"], context: AttentionContext
    ) -> Float[Tensor, "batch heads query head_width"] | None:
        """On the outputs, where a kind has values of its own for each distance."""
        return None

    def on_scores(
        self, query: Float[Tensor, "batch heads query head_width"], scale: float, context: AttentionContext
    ) -> Bias | None:
        """The bias of queries that are not yet scaled; most kinds have none, and no queries are scaled for them."""
        return self.bias(query * scale, context) if self.acts_on_scores else None

    @property
    def acts_on_scores(self) -> bool:
        """Whether `bias` or `values` act, and with them what depends on each pair of tokens."""
        return type(self).bias is not Position.bias or type(self).values is not Position.values

    @property
    def needs_weights(self) -> bool:
        """Whether `values` acts, so that attention must lay its weights open."""
        return False


class PositionConfig(Family):
    """What the configs of all kinds answer."""

    def build(self, *, width: int, heads: int, head_width: int, causal: bool) -> Position:
        """The module for a stack of this shape."""
        raise TypeError(f"{type(self).__name__} must build its module")

    def num_params(self, *, width: int, heads: int, head_width: int) -> int:
        """Parameters of one module."""
        return 0

    def flops(self, *, width: int, heads: int, head_width: int, batch: int, queries: int, keys: int) -> int:
        """Matrix-product FLOPs of one attention layer that are due to this kind."""
        return 0

    def input_flops(self, *, width: int, batch: int, time: int) -> int:
        """Matrix-product FLOPs of one application to the inputs."""
        return 0

    @property
    def every_layer(self) -> bool:
        """Whether the inputs of every layer receive it, or of the first alone."""
        return False

    @property
    def per_layer(self) -> bool:
        """Whether each layer has parameters of its own for it."""
        return False

    @property
    def longest(self) -> int | None:
        """The longest sequence it can tell apart, if there is a limit."""
        return None

    @property
    def needs_tree(self) -> bool:
        """Whether tokens must come with a dependency tree."""
        return False
