"""Room for keys and values: rows that grow evenly, rows that do not, and no more than there is room for."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import ShapeError
from regard.nn.cache import CacheLengths, KVCache


def filled(rows: int, capacity: int) -> KVCache:
    return KVCache.allocate(rows, 2, capacity, 3, torch.zeros(()))


@given(st.integers(1, 3), st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 2))
def test_even_rows_are_appended_one_after_another(rows: int, steps: list[int], spare: int):
    cache, cache_lengths = filled(rows, sum(steps) + spare), CacheLengths.empty(rows, sum(steps) + spare, "cpu")
    all_keys, all_values = torch.randn(2, rows, 2, sum(steps), 3)
    for time in steps:
        new = slice(cache_lengths.longest, cache_lengths.longest + time)
        assert cache_lengths.next_positions(time).tolist() == [list(range(new.start, new.stop))]
        keys, values = cache.append(all_keys[:, :, new], all_values[:, :, new], cache_lengths)
        cache_lengths = cache_lengths.advance(time)
        assert torch.equal(keys, all_keys[:, :, : new.stop])
        assert torch.equal(values, all_values[:, :, : new.stop])
    assert cache_lengths.uniform
    assert cache_lengths.longest == sum(steps)
    assert cache_lengths.lengths.tolist() == [sum(steps)] * rows


@st.composite
def uneven_steps(draw: st.DrawFn) -> list[list[int]]:
    """How many tokens each row takes at each step."""
    rows = draw(st.integers(1, 4))
    return draw(st.lists(st.lists(st.integers(0, 9), min_size=rows, max_size=rows), min_size=1, max_size=6))


@given(uneven_steps())
def test_uneven_rows_each_keep_their_own_end(steps: list[list[int]]):
    rows, room = len(steps[0]), sum(max(step) for step in steps) + 3
    cache, cache_lengths = filled(rows, room), CacheLengths.empty(rows, room, "cpu")
    written: list[list[torch.Tensor]] = [[] for _ in range(rows)]
    for step in steps:
        time = max(*step, 1)
        new = torch.randn(rows, 2, time, 3)
        assert cache_lengths.next_positions(time).expand(rows, time)[:, 0].tolist() == [len(row) for row in written]
        keys, _ = cache.append(new, -new, cache_lengths)
        cache_lengths = cache_lengths.advance(time, torch.tensor(step))
        for row, count in enumerate(step):
            written[row] += list(new[row, :, :count].transpose(0, 1))
            if written[row]:
                assert torch.equal(keys[row, :, : len(written[row])], torch.stack(written[row], 1))
    assert cache_lengths.lengths.tolist() == [len(row) for row in written]
    assert cache_lengths.longest == max(len(row) for row in written)
    assert cache_lengths.uniform == (len({len(row) for row in written}) == 1)
    assert torch.equal(cache.values[:, :, :1], -cache.keys[:, :, :1])


@pytest.mark.parametrize("lengths", [None, torch.tensor([2, 1])], ids=["even", "uneven"])
def test_autocast_may_give_less_exact_numbers_than_the_room_holds(lengths: torch.Tensor | None):
    cache, new = filled(2, 4), torch.randn(2, 2, 2, 3).bfloat16()
    cache_lengths = CacheLengths.empty(2, 4, "cpu")
    cache.append(new, -new, cache_lengths)
    keys, values = cache.append(new[:, :, :1], -new[:, :, :1], cache_lengths.advance(2, lengths))
    assert keys.dtype == values.dtype == torch.float32
    for row, end in enumerate([2, 2] if lengths is None else lengths.tolist()):
        assert torch.equal(keys[row, :, end], new[row, :, 0].float())
        assert torch.equal(values[row, :, end], -new[row, :, 0].float())


def test_the_chosen_rows_of_a_grown_cache_are_copies_that_grow_on():
    cache, cache_lengths, x = filled(2, 40), CacheLengths.empty(2, 40, "cpu"), torch.randn(2, 2, 40, 3)
    cache.append(x[:, :, :20], x[:, :, :20], cache_lengths)
    cache_lengths = cache_lengths.advance(20)
    chosen, rows = cache.reorder(torch.tensor([1, 1, 0]), 20), torch.tensor([1, 1, 0])
    keys, _ = chosen.append(x[rows, :, 20:], x[rows, :, 20:], cache_lengths.reorder(rows))
    assert torch.equal(keys, x[rows])
    assert torch.equal(cache.keys[:, :, :20], x[:, :, :20])


def test_what_is_written_stays_where_it_is():
    cache, cache_lengths = filled(1, 4), CacheLengths.empty(1, 4, "cpu")
    address = cache.keys.data_ptr()
    keys, _ = cache.append(torch.ones(1, 2, 3, 3), torch.ones(1, 2, 3, 3), cache_lengths)
    assert cache.keys.data_ptr() == keys.data_ptr() == address


@pytest.mark.parametrize("even", [True, False])
def test_more_than_there_is_room_for_is_refused(even: bool):
    cache, cache_lengths = (
        filled(2, 4),
        CacheLengths.empty(2, 4, "cpu").advance(3, None if even else torch.tensor([3, 1])),
    )
    cache.append(torch.ones(2, 2, 1, 3), torch.ones(2, 2, 1, 3), cache_lengths)
    with pytest.raises(ShapeError, match="room for 4 tokens, got 5; ask for more capacity"):
        cache.append(torch.ones(2, 2, 2, 3), torch.ones(2, 2, 2, 3), cache_lengths)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=5))
def test_rows_may_be_repeated_and_left_out(chosen: list[int]):
    cache, cache_lengths = filled(3, 4), CacheLengths.empty(3, 4, "cpu").advance(3, torch.tensor([1, 2, 3]))
    cache.keys.normal_()
    rows = torch.tensor(chosen)
    copied, later = cache.reorder(rows), cache_lengths.reorder(rows)
    assert torch.equal(copied.keys, cache.keys[rows])
    assert later.lengths.tolist() == [[1, 2, 3][row] for row in chosen]
    assert later.next_positions(1)[:, 0].tolist() == later.lengths.tolist()
    copied.keys.zero_()
    assert cache.keys.abs().sum() > 0, "a copy, not a view"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_room_has_the_precision_asked_for(dtype: torch.dtype):
    cache = KVCache.allocate(1, 2, 3, 4, torch.zeros((), dtype=dtype))
    assert cache.keys.dtype == cache.values.dtype == dtype
    assert cache.keys.shape == (1, 2, 3, 4)
