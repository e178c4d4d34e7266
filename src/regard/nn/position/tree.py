"""Positions from the sentence's dependency tree: depth of each token, distance of each pair (Wang 2019)."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import PositiveInt, model_validator
from torch import Tensor, nn
from typing_extensions import override

from regard.config import refuse
from regard.errors import ConfigError
from regard.nn.context import AttentionContext
from regard.nn.position.absolute import waves
from regard.nn.position.base import Bias, Position, PositionConfig, Rule
from regard.nn.position.relative import Relative


class TreeConfig(PositionConfig):
    """Depth in the dependency tree on the inputs, distance in it on the scores (Wang 2019)."""

    kind: Literal["tree"] = "tree"
    depth: bool = True
    """Give each token sinusoids of its depth, mixed with those of its place in the sentence."""
    distance: bool = True
    """Give each pair learned vectors for the distance between the two in the tree, on keys and values."""
    clip: PositiveInt = 16
    """Tree distances beyond this count as this."""

    @model_validator(mode="after")
    def _does_something(self) -> "TreeConfig":
        if not (self.depth or self.distance):
            raise refuse("depth", "depth and distance are both off, so the tree would not be used; switch one on")
        return self

    @override
    def build(self, *, width: int, heads: int, head_width: int, causal: bool) -> "TreePosition":
        return TreePosition(width, head_width, self.depth, self.distance, self.clip)

    @override
    def num_params(self, *, width: int, heads: int, head_width: int) -> int:
        tables = 2 * (2 * self.clip + 1) * head_width if self.distance else 0
        return tables + (2 * width * width if self.depth else 0)

    @override
    def flops(self, *, width: int, heads: int, head_width: int, batch: int, queries: int, keys: int) -> int:
        return 4 * batch * heads * queries * (2 * self.clip + 1) * head_width if self.distance else 0

    @override
    def input_flops(self, *, width: int, batch: int, time: int) -> int:
        shared_ancestors = 2 * batch * time**3
        return shared_ancestors + (2 * (1 + batch) * time * width * width if self.depth else 0)

    @property
    @override
    def needs_tree(self) -> bool:
        return True

    @property
    @override
    def values_by_distance(self) -> bool:
        return self.distance


class TreePosition(Position):
    """x + tanh(U·waves(place) + V·waves(depth)), and Shaw's vectors for the signed distance in the tree.

    Wang et al. combine sequential and structural positions by such a non-linear map. The sign of a pair's tree distance
    is that of key − query, so that left and right stay apart.
    """

    def __init__(self, width: int, head_width: int, depth: bool = True, distance: bool = True, clip: int = 16) -> None:
        super().__init__()
        self.width = width
        self.place_map = nn.Linear(width, width, bias=False) if depth else None
        self.depth_map = nn.Linear(width, width, bias=False) if depth else None
        self.pairs = TreePairs(head_width, clip) if distance else None

    def embed(
        self, x: Float[Tensor, "batch time width"], context: AttentionContext
    ) -> Float[Tensor, "batch time width"]:
        """The inputs plus sinusoids of position and depth."""
        sinusoids = waves(context.query_positions, self.width).to(x.dtype)
        if self.place_map is None or self.depth_map is None:
            return x + sinusoids
        depth = waves(tree_of(context)[0], self.width).to(x.dtype)
        return x + torch.tanh(self.place_map(sinusoids) + self.depth_map(depth))

    def bias(self, query: Float[Tensor, "batch heads query head_width"], context: AttentionContext) -> Bias | None:
        """q_i·a_ij by tree distance."""
        return self.pairs.bias(query, context) if self.pairs else None

    def values(
        self, weights: Float[Tensor, "batch heads query key"], context: AttentionContext
    ) -> Float[Tensor, "batch heads query head_width"] | None:
        """Σ_j α_ij b_ij by tree distance."""
        return self.pairs.values(weights, context) if self.pairs else None

    @property
    @override
    def needs_weights(self) -> bool:
        return self.pairs is not None


class TreePairs(Relative):
    """Shaw's tables looked up by distance in the tree instead of distance in the sentence."""

    @override
    def column(self, context: AttentionContext) -> tuple[Rule, bool]:
        signed = tree_of(context)[1].clamp(-self.clip, self.clip) + self.clip
        return lambda b, q, k: signed[b, q, k], True


def tree_of(context: AttentionContext) -> tuple[Int[Tensor, "batch time"], Int[Tensor, "batch time time"]]:
    """Depth of each token and signed tree distance of each pair, computed once a forward pass."""
    if context.tree is None:
        raise ConfigError(
            "model.position.kind",
            "tree positions need the dependency head of each token; give CoNLL-U data, or choose another kind",
        )
    if "tree" not in context.shared:
        ancestors = ancestor_matrix(context.tree)
        later = torch.sign(context.key_positions[:, None, :] - context.query_positions[:, :, None])
        context.shared["tree"] = (depths(ancestors), pair_distances(ancestors) * later)
    return context.shared["tree"]


def ancestor_matrix(heads: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time time"]:
    """1 where the column is an ancestor of the row, or the row itself; a root is its own head."""
    batch, time = heads.shape
    reach = torch.eye(time, device=heads.device).expand(batch, time, time)
    jump = heads
    for _ in range(max(1, (time - 1).bit_length())):  # ancestors within 1, 2, 4, … steps
        reach = torch.maximum(reach, torch.gather(reach, 1, jump[..., None].expand_as(reach)))
        jump = torch.gather(jump, 1, jump)
    return reach


def depths(ancestors: Float[Tensor, "batch time time"]) -> Int[Tensor, "batch time"]:
    """Steps from each token up to its root."""
    return ancestors.sum(-1).long() - 1


def pair_distances(ancestors: Float[Tensor, "batch time time"]) -> Int[Tensor, "batch time time"]:
    """depth_i + depth_j − 2·depth of the lowest common ancestor, whose depth is the number of shared ancestors − 1."""
    depth = depths(ancestors)
    common = (ancestors @ ancestors.transpose(1, 2)).round().long() - 1
    return depth[:, :, None] + depth[:, None, :] - 2 * common
