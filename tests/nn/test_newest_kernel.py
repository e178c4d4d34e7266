"""The newest token's attention by one kernel, in Triton's interpreter, equals the plain steps beside it."""

from itertools import product

import torch

from regard.nn.fast.decode import _attend, append

ROWS, CAPACITY = 3, 40
CASES = list(product(((4, 4), (4, 2), (2, 1)), (16, 24), (False, True)))
"""Heads and key heads, numbers of a head, and whether there is a bias."""


def tensors(heads, width, biased):
    torch.manual_seed(width)
    query, (key, value) = torch.randn(ROWS, heads[0], width), torch.randn(2, ROWS, heads[1], width)
    keys, values = torch.randn(2, ROWS, heads[1], CAPACITY, width)
    return query, key, value, keys, values, torch.randn(ROWS, heads[0], CAPACITY) if biased else None


def appending_agrees(heads, width, biased):
    from regard.nn.fast.decode_triton import attend

    query, key, value, keys, values, bias = tensors(heads, width, biased)
    lengths = torch.tensor([0, 17, CAPACITY - 1])
    rooms = keys.clone(), values.clone()
    append(key, value, *rooms, lengths)
    wanted = _attend(query, *rooms, lengths + 1, bias, 0.3)
    found = attend(query, key, value, keys, values, lengths, None, bias, 0.3)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close((keys, values), rooms)


def sharing_rooms_agrees(heads, width):
    from regard.nn.fast.decode_triton import attend

    query, _, _, keys, values, _ = tensors(heads, width, False)
    lengths, rooms = torch.tensor([5, CAPACITY, 1]), torch.tensor([1, 1, 0])
    wanted = _attend(query, keys[rooms], values[rooms], lengths[rooms], None, 0.3)
    torch.testing.assert_close(attend(query, None, None, keys, values, lengths, rooms, None, 0.3), wanted)


def test_equal_in_the_interpreter(interpret):
    interpret()


if __name__ == "__main__":
    for one in CASES:
        appending_agrees(*one)
    for shape in {case[:2] for case in CASES}:
        sharing_rooms_agrees(*shape)
