"""How far is each node from the marked one? Attention over a graph's edges, GO-one's setting in small.

    python examples/structures/graph.py [--steps 100]

A graph of operations is what a compiler optimises: nodes with features, edges that say what feeds what. Here one node
of a random graph is marked, and every node has to say how many edges lead to it (0, 1, 2, 3, or more). One layer of
attention over edges carries the mark one edge further, so four layers are enough. Without the edges, when every node
sees every other, nobody can know; and with fewer layers only the near nodes can.
"""

import argparse
import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.attention.graph import Graph, GraphBlock

NODES, EDGES, FARTHEST = 16, 20, 4
WIDTH, HEADS = 32, 4


def example(chance: random.Random) -> tuple[Graph, Tensor, Tensor]:
    """A random graph in one piece, its mark (nodes), and each node's distance from it, at most FARTHEST."""
    order = chance.sample(range(NODES), NODES)
    edges = [(order[node], order[chance.randrange(node)]) for node in range(1, NODES)]
    while len(edges) < EDGES:
        edges.append((chance.randrange(NODES), chance.randrange(NODES)))
    graph = Graph.of(edges, NODES, both_ways=True, loops=True)
    marked = chance.randrange(NODES)
    far = distances(graph, marked)
    return graph, (torch.arange(NODES) == marked).long(), far


def distances(graph: Graph, start: int) -> Tensor:
    """Breadth first: the fewest edges from one node to every other, at most FARTHEST."""
    reached = torch.arange(graph.nodes) == start
    far = torch.where(reached, 0, FARTHEST)
    for step in range(1, FARTHEST):
        new = torch.zeros_like(reached)
        new[graph.targets[reached[graph.sources]]] = True
        far = torch.where(new & ~reached, step, far)
        reached = reached | new
    return far


def batch(count: int, chance: random.Random) -> tuple[Graph, Tensor, Tensor]:
    """Several examples as one graph."""
    graphs, marks, far = zip(*(example(chance) for _ in range(count)), strict=True)
    return Graph.together(graphs), torch.cat(marks), torch.cat(far)


class Model(nn.Module):
    """Marks in, distances out; without `edges` every node of a graph sees every other."""

    def __init__(self, depth: int = FARTHEST, edges: bool = True) -> None:
        super().__init__()
        self.mark = nn.Embedding(2, WIDTH)
        self.blocks = nn.ModuleList(GraphBlock(WIDTH, HEADS) for _ in range(depth))
        self.head = nn.Linear(WIDTH, FARTHEST + 1)
        self.edges = edges

    def forward(self, graph: Graph, marks: Tensor) -> Tensor:
        """Scores of each node's distance."""
        if not self.edges:
            graph = Graph.together([Graph.complete(NODES)] * graph.parts)
        x = self.mark(marks)
        for block in self.blocks:
            x = block(x, graph)
        return self.head(x)


def learn(model: Model, steps: int, seed: int = 1) -> float:
    """Trains on fresh graphs; the accuracy on others."""
    chance = random.Random(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        graph, marks, far = batch(32, chance)
        loss = F.cross_entropy(model(graph, marks), far)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    graph, marks, far = batch(300, random.Random(seed + 1000))
    with torch.no_grad():
        return float((model(graph, marks).argmax(-1) == far).float().mean())


VARIANTS: dict[str, dict[str, Any]] = {
    "edges, four layers": {},
    "edges, two layers": {"depth": 2},
    "without the edges": {"edges": False},
}


def trial(settings: dict[str, Any], steps: int) -> float:
    """The accuracy of one variant."""
    torch.manual_seed(1)
    return learn(Model(**settings), steps)


def main() -> None:
    """Trains each variant and prints how well it does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    steps = parser.parse_args().steps
    _, _, far = batch(300, random.Random(0))
    usual = torch.bincount(far).max() / len(far)
    print(f"{'model':<30} accuracy   (always the commonest distance: {usual:.2f})")
    for name, settings in VARIANTS.items():
        print(f"{name:<30} {trial(settings, steps):.3f}", flush=True)


if __name__ == "__main__":
    main()
