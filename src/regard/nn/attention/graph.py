"""Attention over the edges of a graph: each node attends to the nodes with an edge to it.

    e_ts = q_t·k_s/√d + w·f_ts          for every edge s → t, f its features
    α_ts = exp(e_ts) / Σ_s exp(e_ts)    over the edges that end in t
    y_t  = Σ_s α_ts v_s

The cost is linear in the number of edges; several graphs are one graph of unconnected parts. `Edges` is the same mask
as a pattern for dense attention.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from typing_extensions import override

from regard.errors import ShapeError
from regard.nn.attention.module import head_width_of
from regard.nn.feedforward import FeedForward
from regard.nn.norm import LayerNorm
from regard.nn.pattern import Pattern

Nodes = Float[Tensor, "nodes width"]
Heads = Float[Tensor, "nodes heads head_width"]
PerEdge = Float[Tensor, "edges heads"]
EdgeFeatures = Float[Tensor, "edges edge_width"]


@dataclass(frozen=True, eq=False)
class Graph:
    """Edges from sources to targets among nodes; `part` is the graph that a node belongs to."""

    sources: Int[Tensor, " edges"]
    targets: Int[Tensor, " edges"]
    nodes: int
    part: Int[Tensor, " nodes"]
    parts: int = 1

    @classmethod
    def of(cls, edges: Sequence[tuple[int, int]], nodes: int, both_ways: bool = False, loops: bool = False) -> "Graph":
        """From a list of (source, target); `both_ways` adds the reverse edges, `loops` self-loops."""
        wrong = next((edge for edge in edges if not all(0 <= node < nodes for node in edge)), None)
        if wrong is not None:
            raise ShapeError(f"edges: expected nodes from 0 to {nodes - 1}, got the edge {wrong}")
        listed = [*edges, *((target, source) for source, target in edges if both_ways and source != target)]
        listed += [(node, node) for node in range(nodes) if loops]
        pairs = torch.tensor(list(dict.fromkeys(listed)), dtype=torch.long).reshape(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1], nodes, torch.zeros(nodes, dtype=torch.long))

    @classmethod
    def complete(cls, nodes: int) -> "Graph":
        """All edges, self-loops included."""
        grid = torch.cartesian_prod(torch.arange(nodes), torch.arange(nodes)).reshape(-1, 2)
        return cls(grid[:, 0], grid[:, 1], nodes, torch.zeros(nodes, dtype=torch.long))

    @classmethod
    def together(cls, graphs: Sequence["Graph"]) -> "Graph":
        """The disjoint union of several graphs."""
        sizes = [graph.nodes for graph in graphs]
        starts = [sum(sizes[:number]) for number in range(len(sizes))]
        moved = list(zip(graphs, starts, strict=True))
        part = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        return cls(
            torch.cat([graph.sources + start for graph, start in moved]),
            torch.cat([graph.targets + start for graph, start in moved]),
            sum(sizes),
            part,
            len(sizes),
        )

    def pattern(self) -> "Edges":
        """The mask for dense attention over one row of all nodes."""
        adjacent = torch.zeros(self.nodes, self.nodes, dtype=torch.bool, device=self.targets.device)
        adjacent[self.targets, self.sources] = True
        return Edges(adjacent)


@dataclass(frozen=True, eq=False)
class Edges(Pattern):
    """A node attends to the sources of its edges; the output of a node without any is zero."""

    adjacent: Bool[Tensor, "target source"]
    may_mask_all_keys = True
    uses_table = True

    @override
    def allowed(self, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.adjacent[query, key]


def attend_edges(query: Heads, key: Heads, value: Heads, graph: Graph, bias: PerEdge | None = None) -> Heads:
    """softmax(QKᵀ/√d + bias) V over the edges alone."""
    scores = (query[graph.targets] * key[graph.sources]).sum(-1) / math.sqrt(query.shape[-1])
    weights = softmax_by_target(scores if bias is None else scores + bias, graph)
    output = torch.zeros_like(query, dtype=value.dtype)
    return output.index_add(0, graph.targets, weights[..., None].to(value.dtype) * value[graph.sources])


def softmax_by_target(scores: PerEdge, graph: Graph) -> PerEdge:
    """Softmax over the edges that end in the same node."""
    largest = scores.new_full((graph.nodes, scores.shape[1]), -torch.inf)
    targets = graph.targets[:, None].expand_as(scores)
    largest = largest.scatter_reduce(0, targets, scores.detach(), "amax")
    powers = (scores - largest[graph.targets]).exp()
    totals = torch.zeros_like(largest).index_add(0, graph.targets, powers)
    return powers / totals[graph.targets]


class GraphAttention(nn.Module):
    """Several heads of attention over edges; with `edge_width`, edge features bias the scores."""

    def __init__(self, width: int, heads: int, edge_width: int | None = None, bias: bool = True) -> None:
        super().__init__()
        self.heads, self.head_width = heads, head_width_of(width, heads, "standard")
        self.query, self.key, self.value = (nn.Linear(width, width, bias=bias) for _ in range(3))
        self.output = nn.Linear(width, width, bias=bias)
        self.edge_bias = nn.Linear(edge_width, heads, bias=False) if edge_width else None

    def forward(self, x: Nodes, graph: Graph, features: EdgeFeatures | None = None) -> Nodes:
        query, key, value = (part(x).unflatten(-1, (self.heads, -1)) for part in (self.query, self.key, self.value))
        bias = None if self.edge_bias is None or features is None else self.edge_bias(features)
        return self.output(attend_edges(query, key, value, graph, bias).flatten(1))


class GraphBlock(nn.Module):
    """x ← x + attention(x);  x ← x + feedforward(x)."""

    def __init__(self, width: int, heads: int, edge_width: int | None = None, hidden: int | None = None) -> None:
        super().__init__()
        self.norm, self.attention = LayerNorm(width), GraphAttention(width, heads, edge_width)
        self.feedforward_norm, self.feedforward = LayerNorm(width), FeedForward(width, hidden or 4 * width)

    def forward(self, x: Nodes, graph: Graph, features: EdgeFeatures | None = None) -> Nodes:
        x = x + self.attention(self.norm(x), graph, features)
        return x + self.feedforward(self.feedforward_norm(x)[None])[0]


def pool_graphs(x: Nodes, graph: Graph) -> Float[Tensor, "parts width"]:
    """The mean of each graph's nodes."""
    totals = x.new_zeros(graph.parts, x.shape[1]).index_add(0, graph.part, x)
    return totals / torch.bincount(graph.part, minlength=graph.parts).clamp(min=1)[:, None]
