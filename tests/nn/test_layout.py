"""How sequences lie in a grid: padded, packed, full; there and back, and what does not fit."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import ShapeError
from regard.nn.layout import PADDING, Layout, Sequences
from regard.nn.pattern import Padding, Segments

ROWS = st.lists(st.lists(st.integers(0, 99), max_size=6), min_size=1, max_size=5).filter(any)


def read_back(sequences: Sequences) -> list[list[int]]:
    """Every sequence of a grid, gathered by document number and put in order by index."""
    layout, found = sequences.layout, {}
    for row in range(len(layout.segment)):
        for place in torch.nonzero(layout.valid[row]).flatten().tolist():
            number, index = int(layout.segment[row, place]), int(layout.index[row, place])
            found[row, number, index] = int(sequences.tokens[row, place])
    by_sequence: dict[tuple[int, int], list[int]] = {}
    for row, number, index in sorted(found):
        sequence = by_sequence.setdefault((row, number), [])
        assert len(sequence) == index, "places count from zero without a gap"
        sequence.append(found[row, number, index])
    return list(by_sequence.values())


@given(ROWS, st.integers(0, 9))
def test_padded_and_back(rows: list[list[int]], pad: int):
    sequences = Sequences.padded(rows, pad=pad)
    assert read_back(sequences) == [row for row in rows if row]
    layout = sequences.layout
    assert sequences.tokens.shape == (len(rows), max(len(row) for row in rows))
    assert (sequences.tokens[~layout.valid] == pad).all()
    assert (layout.segment[~layout.valid] == PADDING).all()
    assert layout.lengths.tolist() == [len(row) for row in rows]
    assert not layout.packed
    assert isinstance(layout.pattern(), Padding)
    assert layout.positions.shape[0] == 1


@given(ROWS)
def test_packed_and_back(rows: list[list[int]]):
    sequences = Sequences.packed(rows)
    assert read_back(sequences) == [row for row in rows if row]
    layout = sequences.layout
    assert sequences.tokens.shape == (1, sum(len(row) for row in rows))
    assert layout.packed
    assert layout.valid.all()
    assert layout.longest == max(len(row) for row in rows)
    assert layout.index[0].tolist() == [place for row in rows for place in range(len(row))]
    assert torch.equal(layout.positions, layout.index)
    assert isinstance(layout.pattern(), Segments)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(0, 20))
def test_a_packed_row_may_end_in_padding(lengths: list[int], extra: int):
    layout = Layout.packing(torch.tensor(lengths), sum(lengths) + extra)
    assert layout.valid[0].tolist() == [True] * sum(lengths) + [False] * extra
    assert layout.longest == max([*lengths, extra])
    numbers = [number for number, length in enumerate(lengths) for _ in range(length)]
    assert layout.segment[0].tolist() == numbers + [PADDING] * extra


@given(st.integers(1, 4), st.integers(1, 5))
def test_full_hides_nothing(batch: int, time: int):
    sequences = Sequences.full(torch.randint(9, (batch, time)))
    layout = sequences.layout
    assert layout.whole
    assert layout.valid.all()
    assert layout.pattern() is None
    assert layout.cross_pattern(layout) is None
    assert layout.lengths.tolist() == [time] * batch
    assert torch.equal(layout.index, torch.arange(time).expand(batch, time))


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3), st.booleans())
def test_each_target_sees_its_own_source(pairs: list[tuple[int, int]], packed: bool):
    of_source, of_target = (torch.tensor(lengths) for lengths in zip(*pairs, strict=True))
    if packed:
        source, target = Layout.packing(of_source), Layout.packing(of_target)
    else:
        source, target = Layout.padded(of_source, 5), Layout.padded(of_target, 4)
    pattern = source.cross_pattern(target)
    assert pattern is not None
    rows, queries, keys = len(target.segment), target.segment.shape[1], source.segment.shape[1]
    dense = pattern.dense(rows, 1, queries, keys)[:, 0]
    for row in range(rows):
        for query in torch.nonzero(target.valid[row]).flatten().tolist():
            own = source.segment[row] == target.segment[row, query]
            assert torch.equal(dense[row, query], own)


def test_a_tree_goes_along():
    layout = Layout.full(1, 3).with_tree(torch.tensor([[1, 1, 1]]))
    assert layout.tree is not None
    moved = Sequences(torch.zeros(1, 3, dtype=torch.long), layout).to("cpu").layout
    assert moved.tree is not None
    assert moved.tree.tolist() == [[1, 1, 1]]
    assert moved.whole


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: Layout.padded(torch.tensor([2, 5]), 4), r"lengths: expected at most 4 \(the grid's time\), got 5"),
        (lambda: Layout.packing(torch.tensor([2, 5]), 6), r"lengths: expected a sum of at most 6 .*, got 7"),
        (lambda: Layout.full(2, 3).with_tree(torch.zeros(2, 4).long()), r"tree: expected \(2, 3\), got \(2, 4\)"),
        (lambda: Sequences(torch.zeros(2, 4).long(), Layout.full(2, 3)), r"tokens: expected \(2, 3\), got \(2, 4\)"),
        (
            lambda: Layout.full(2, 3).cross_pattern(Layout.packing(torch.tensor([3, 3]))),
            "both be padded or both be packed",
        ),
        (lambda: Layout.full(2, 3).cross_pattern(Layout.full(3, 3)), "sequences of the source: expected 3, got 2"),
        (
            lambda: Layout.packing(torch.tensor([1, 2, 3])).cross_pattern(Layout.packing(torch.tensor([3, 3]))),
            "sequences of the source: expected 2, got 3",
        ),
        (
            lambda: Sequences(torch.zeros(1, 6).long(), Layout.packing(torch.tensor([1, 3]), 6)).twice(),
            "tokens of a packed row without padding: expected 4, got 6",
        ),
    ],
)
def test_what_does_not_fit_is_refused(ask, sentence: str):
    with pytest.raises(ShapeError, match=sentence):
        ask()
