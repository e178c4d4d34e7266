"""Positions from the dependency tree: depth and pairwise distance against a walk over random trees."""

import pytest
import torch
from attention_cases import assert_close, make_layout, self_context
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from regard.errors import ConfigError
from regard.models import DecoderConfig, EncoderConfig
from regard.nn.context import AttentionContext
from regard.nn.layout import Layout
from regard.nn.position import TreeConfig, TreePosition
from regard.nn.position.absolute import waves
from regard.nn.position.tree import ancestor_matrix, depths, pair_distances, tree_of

STACK = {"width": 8, "heads": 2, "head_width": 4}


@st.composite
def trees(draw: st.DrawFn, smallest: int = 1) -> list[int]:
    """The head of each token; one root, which is its own head; tokens in any order."""
    size = draw(st.integers(smallest, 12))
    order = draw(st.permutations(range(size)))
    heads = [0] * size
    heads[order[0]] = order[0]
    for place in range(1, size):
        heads[order[place]] = order[draw(st.integers(0, place - 1))]
    return heads


def path_up(heads: list[int], token: int) -> list[int]:
    path = [token]
    while heads[path[-1]] != path[-1]:
        path.append(heads[path[-1]])
    return path


def steps_between(heads: list[int], one: int, other: int) -> int:
    """Steps from one token to another along the tree, found by walking from both up to where they meet."""
    up, down = path_up(heads, one), path_up(heads, other)
    meeting = next(token for token in up if token in down)
    return up.index(meeting) + down.index(meeting)


def context_of(rows: list[list[int]]) -> AttentionContext:
    """Trees side by side, padding pointing at itself."""
    time = max(len(row) for row in rows)
    layout = Layout.padded(torch.tensor([len(row) for row in rows]), time)
    return self_context(layout, None, torch.tensor([[*row, *range(len(row), time)] for row in rows]))


@given(st.lists(trees(), min_size=1, max_size=3))
def test_depth_and_distance_equal_a_walk(rows: list[list[int]]):
    depth, signed = tree_of(context_of(rows))
    for row, heads in enumerate(rows):
        for i in range(len(heads)):
            assert depth[row, i] == len(path_up(heads, i)) - 1
            for j in range(len(heads)):
                steps = steps_between(heads, i, j)
                assert signed[row, i, j] == (steps if j > i else -steps)


@given(trees())
def test_ancestors_are_those_on_the_way_to_the_root(heads: list[int]):
    ancestors = ancestor_matrix(torch.tensor([heads]))
    for token in range(len(heads)):
        assert ancestors[0, token].nonzero().flatten().tolist() == sorted(path_up(heads, token))
    assert torch.equal(pair_distances(ancestors), pair_distances(ancestors).transpose(1, 2))


def test_a_chain_is_as_deep_as_it_is_long():
    ancestors = ancestor_matrix(torch.tensor([[max(0, i - 1) for i in range(300)]]))
    assert depths(ancestors)[0].tolist() == list(range(300))
    assert pair_distances(ancestors)[0, 7, 290] == 283


@given(st.lists(trees(), min_size=2, max_size=3))
def test_packed_trees_read_as_each_alone(rows: list[list[int]]):
    layout = make_layout("packed", [len(row) for row in rows], max(len(row) for row in rows))
    shifted, start = [], 0
    for row in rows:
        shifted += [start + head for head in row]
        start += len(row)
    depth, signed = tree_of(self_context(layout, None, torch.tensor([shifted])))
    start = 0
    for row in rows:
        own = slice(start, start + len(row))
        alone_depth, alone_signed = tree_of(context_of([row]))
        assert torch.equal(depth[:, own], alone_depth)
        assert torch.equal(signed[:, own, own], alone_signed)
        start += len(row)


@given(trees(smallest=3), st.integers(1, 3))
def test_scores_and_values_are_looked_up_by_clipped_distance(heads: list[int], clip: int):
    position = TreePosition(8, 4, clip=clip)
    context, time = context_of([heads]), len(heads)
    query, weights = torch.randn(1, 2, time, 4), torch.rand(1, 2, time, time)
    bias, values = position.bias(query, context), position.values(weights, context)
    assert position.needs_weights
    assert position.pairs is not None
    assert position.pairs.value_table is not None
    assert bias is not None
    assert values is not None
    dense, expected = bias.dense(1, time, time), torch.zeros_like(query)
    for i in range(time):
        for j in range(time):
            steps = steps_between(heads, i, j) * (1 if j > i else -1)
            row = max(-clip, min(clip, steps)) + clip
            assert_close(dense[:, :, i, j], query[:, :, i] @ position.pairs.key_table[row], 1e-5)
            expected[:, :, i] += weights[:, :, i, j, None] * position.pairs.value_table[row].detach()
    assert_close(values, expected, 1e-5)


def test_inputs_receive_place_and_depth():
    position, context, x = TreePosition(8, 4), context_of([[1, 1, 1, 2]]), torch.randn(1, 4, 8)
    assert position.place_map is not None
    assert position.depth_map is not None
    place, depth = waves(torch.arange(4)[None], 8), waves(torch.tensor([[1, 0, 1, 2]]), 8)
    mixed = torch.tanh(place @ position.place_map.weight.T + depth @ position.depth_map.weight.T)
    assert_close(position.embed(x, context), x + mixed, 1e-6)
    flat = TreePosition(8, 4, depth=False)
    assert_close(flat.embed(x, context), x + place, 1e-6)
    assert TreePosition(8, 4, distance=False).bias(torch.randn(1, 2, 4, 4), context) is None


def test_the_tree_is_walked_once_a_pass():
    context = context_of([[1, 1, 1]])
    assert tree_of(context)[1] is tree_of(context)[1]


@pytest.mark.parametrize("config", [TreeConfig(clip=3), TreeConfig(depth=False), TreeConfig(distance=False)])
def test_config_counts_what_the_built_part_has_and_costs(config: TreeConfig):
    position = config.build(**STACK, causal=False)
    assert config.num_params(**STACK) == sum(p.numel() for p in position.parameters())
    rows = [[1, 1, 1, 2, 3], [0, 0, 1, 2, 3]]
    context = context_of(rows)
    with FlopCounterMode(display=False) as counted:
        position.embed(torch.randn(2, 5, 8), context)
        position.bias(torch.randn(2, 2, 5, 4), context)
        position.values(torch.rand(2, 2, 5, 5), context)
    expected = config.flops(**STACK, batch=2, queries=5, keys=5) + config.input_flops(width=8, batch=2, time=5)
    assert counted.get_total_flops() == expected


def test_a_missing_tree_is_refused():
    layout = Layout.full(1, 3)
    context = self_context(layout, None)
    for ask in (
        lambda: TreePosition(8, 4).embed(torch.randn(1, 3, 8), context),
        lambda: TreePosition(8, 4).bias(torch.randn(1, 2, 3, 4), context),
    ):
        with pytest.raises(ConfigError, match=r"model\.position\.kind: tree positions need the dependency head"):
            ask()


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: TreeConfig(depth=False, distance=False), "depth: depth and distance are both off"),
        (lambda: TreeConfig(clip=0), "clip: expected greater than 0, got 0"),
        (lambda: DecoderConfig(position=TreeConfig()), "position: a decoder writes its sentence token by token"),
        (lambda: EncoderConfig(position="trees"), "position: unknown kind 'trees'; did you mean 'tree'?"),
    ],
)
def test_what_cannot_be_is_refused(ask, sentence: str):
    with pytest.raises(ConfigError) as refused:
        ask()
    assert str(refused.value).startswith(sentence)
