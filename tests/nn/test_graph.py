"""Attention over edges: against its equations, against dense attention with the same edges as a pattern, and alone."""

import importlib.util
import math
import random
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.errors import ShapeError
from regard.nn.attention.graph import Graph, GraphAttention, GraphBlock, attend_edges, pool_graphs
from regard.nn.attention.module import Attention
from regard.nn.attention.reference import reference_attention
from regard.nn.context import AttentionContext

WIDTH, HEADS = 12, 3


Drawn = tuple[list[tuple[int, int]], int, bool, bool]


@st.composite
def drawings(draw: st.DrawFn) -> Drawn:
    nodes = draw(st.integers(1, 7))
    ends = st.integers(0, nodes - 1)
    return draw(st.lists(st.tuples(ends, ends), max_size=20)), nodes, draw(st.booleans()), draw(st.booleans())


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@given(drawings(), st.booleans())
def test_attention_over_edges_is_its_equations(drawn: Drawn, biased: bool):
    graph = Graph.of(*drawn)
    query, key, value = (numbers(graph.nodes, 2, 4, seed=seed) for seed in range(3))
    bias = numbers(len(graph.sources), 2, seed=3) if biased else None
    found = attend_edges(query, key, value, graph, bias)
    edges = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    for node in range(graph.nodes):
        for head in range(2):
            heard = [(number, source) for number, (source, target) in enumerate(edges) if target == node]
            powers = [
                math.exp(
                    float(query[node, head] @ key[source, head]) / math.sqrt(4)
                    + (0.0 if bias is None else float(bias[number, head]))
                )
                for number, source in heard
            ]
            sums = sum((p * value[s, head] for p, (_, s) in zip(powers, heard, strict=True)), torch.zeros(4))
            expected = sums / sum(powers) if heard else sums
            torch.testing.assert_close(found[node, head], expected, atol=1e-5, rtol=1e-4)


@given(drawings())
def test_it_equals_dense_attention_with_the_edges_as_a_pattern_in_value_and_gradient(drawn: Drawn):
    graph = Graph.of(*drawn)
    tensors = [numbers(graph.nodes, 2, 4, seed=seed).requires_grad_() for seed in range(3)]
    sparse = attend_edges(tensors[0], tensors[1], tensors[2], graph)
    rows = [x.transpose(0, 1)[None] for x in tensors]
    dense = reference_attention(rows[0], rows[1], rows[2], graph.pattern()).output[0].transpose(0, 1)
    torch.testing.assert_close(sparse, dense)
    direction = numbers(*sparse.shape, seed=9)
    ours = torch.autograd.grad((sparse * direction).sum(), tensors)
    theirs = torch.autograd.grad((dense * direction).sum(), tensors)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def twins() -> tuple[GraphAttention, Attention]:
    torch.manual_seed(1)
    over_edges, dense = GraphAttention(WIDTH, HEADS), Attention(WIDTH, HEADS)
    dense.load_state_dict(over_edges.state_dict())
    return over_edges, dense


@given(st.integers(1, 9))
def test_on_a_complete_graph_it_is_ordinary_attention(nodes: int):
    over_edges, dense = twins()
    x, places = numbers(nodes, WIDTH), torch.arange(nodes)[None]
    expected = dense(x[None], AttentionContext(None, places, places))[0]
    torch.testing.assert_close(over_edges(x, Graph.complete(nodes)), expected, atol=1e-5, rtol=1e-5)


@given(drawings(), st.randoms(use_true_random=False))
def test_another_order_of_nodes_and_edges_gives_the_same_in_that_order(drawn: Drawn, chance):
    graph = Graph.of(*drawn)
    torch.manual_seed(1)
    block = GraphBlock(WIDTH, HEADS, edge_width=2)
    x, features = numbers(graph.nodes, WIDTH), numbers(len(graph.sources), 2, seed=1)
    order = chance.sample(range(graph.nodes), graph.nodes)
    place = torch.tensor(order).argsort()
    edges = torch.tensor(chance.sample(range(len(graph.sources)), len(graph.sources)), dtype=torch.long)
    moved = Graph(place[graph.sources][edges], place[graph.targets][edges], graph.nodes, graph.part)
    expected = block(x, graph, features)[order]
    torch.testing.assert_close(block(x[order], moved, features[edges]), expected, atol=1e-5, rtol=1e-4)


@given(st.lists(drawings(), min_size=1, max_size=4))
def test_graphs_together_are_each_what_they_are_alone(drawn: list[Drawn]):
    several = [Graph.of(*one) for one in drawn]
    torch.manual_seed(1)
    block = GraphBlock(WIDTH, HEADS)
    nodes = [numbers(graph.nodes, WIDTH, seed=seed) for seed, graph in enumerate(several)]
    whole = Graph.together(several)
    x = block(torch.cat(nodes), whole)
    alone = [block(own, graph) for own, graph in zip(nodes, several, strict=True)]
    torch.testing.assert_close(x, torch.cat(alone), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(pool_graphs(x, whole), torch.stack([own.mean(0) for own in alone]), atol=1e-5, rtol=1e-4)


def test_the_features_of_an_edge_speak_along_and_only_where_it_ends():
    torch.manual_seed(1)
    attention = GraphAttention(WIDTH, HEADS, edge_width=2)
    graph = Graph.of([(0, 2), (1, 2), (0, 3), (1, 3)], 4)
    x, features = numbers(4, WIDTH), torch.zeros(4, 2)
    before = attention(x, graph, features)
    features[0] = 5.0
    after = attention(x, graph, features)
    assert not torch.allclose(before[2], after[2])
    torch.testing.assert_close(before[[0, 1, 3]], after[[0, 1, 3]])


def test_large_scores_do_not_overflow():
    graph = Graph.of([(0, 1), (1, 1)], 2)
    query, key = torch.full((2, 1, 1), 1e3), torch.tensor([[[1e3]], [[0.0]]])
    value = torch.tensor([[[1.0]], [[2.0]]])
    assert attend_edges(query, key, value, graph)[1].item() == 1.0


def test_a_graph_from_a_list_of_edges():
    graph = Graph.of([(0, 1), (0, 1), (1, 2)], 3, both_ways=True, loops=True)
    found = set(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    assert found == {(0, 1), (1, 0), (1, 2), (2, 1), (0, 0), (1, 1), (2, 2)}
    assert len(graph.sources) == len(found)
    with pytest.raises(ShapeError, match=r"edges: expected nodes from 0 to 2, got the edge \(0, 3\)"):
        Graph.of([(0, 3)], 3)


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The example in the repository, which needs the edges."""
    file = Path(__file__).parents[2] / "examples" / "structures" / "graph.py"
    spec = importlib.util.spec_from_file_location("graph_example", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_distances_of_the_example_are_the_shortest(example: ModuleType):
    for seed in range(5):
        graph, marks, found = example.example(random.Random(seed))
        far = torch.full((graph.nodes, graph.nodes), math.inf)  # Floyd and Warshall
        far[graph.sources, graph.targets] = 1.0
        far.fill_diagonal_(0.0)
        for middle in range(graph.nodes):
            far = torch.minimum(far, far[:, [middle]] + far[[middle]])
        assert found.tolist() == far[int(marks.argmax())].clamp(max=example.FARTHEST).long().tolist()


def test_the_example_runs(example: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("sys.argv", ["graph.py", "--steps", "2"])
    example.main()
    assert [line.rpartition(" ")[0].strip() for line in capsys.readouterr().out.splitlines()[1:]] == [*example.VARIANTS]


@pytest.mark.slow
def test_the_example_is_learnt_with_edges_and_not_without(example: ModuleType):
    reached = [example.trial(settings, 100) for settings in example.VARIANTS.values()]
    assert reached[0] > 0.95
    assert max(reached[1:]) < 0.85
    assert reached[2] < 0.45
