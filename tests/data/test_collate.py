import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard.data.collate import Ragged, pack, pad, take
from regard.text.special_tokens import PAD

ROWS = st.lists(st.lists(st.integers(1, 60_000), max_size=9), max_size=9)


@given(ROWS)
def test_rows_go_in_and_come_out(rows: list[list[int]]):
    ragged = Ragged.of(rows, np.uint16)
    assert ragged.tokens.dtype == np.uint16
    assert ragged.rows() == rows
    assert len(ragged) == len(rows)


@given(ROWS)
def test_padding_stands_on_the_right(rows: list[list[int]]):
    padded = pad(Ragged.of(rows))
    longest = max(map(len, rows), default=0)
    assert padded.tokens.dtype == padded.lengths.dtype == np.int64
    assert padded.tokens.tolist() == [row + [PAD] * (longest - len(row)) for row in rows]
    assert padded.lengths.tolist() == list(map(len, rows))


@given(ROWS)
def test_packing_is_one_row_without_padding(rows: list[list[int]]):
    packed = pack(Ragged.of(rows, np.uint16))
    assert packed.tokens.dtype == packed.lengths.dtype == np.int64
    assert packed.tokens.tolist() == [[token for row in rows for token in row]]
    assert packed.lengths.tolist() == list(map(len, rows))


@given(arrays(np.uint16, st.integers(0, 50)), st.data())
def test_taking_stretches(tokens: np.ndarray, data: st.DataObject):
    bounds = st.tuples(st.integers(0, len(tokens)), st.integers(0, len(tokens))).map(sorted)
    spans = data.draw(st.lists(bounds, max_size=8))
    starts = np.array([start for start, _ in spans], np.int64)
    lengths = np.array([end - start for start, end in spans], np.int64)
    assert take(tokens, starts, lengths).rows() == [tokens[start:end].tolist() for start, end in spans]
