"""Decode attention by one kernel, in Triton's interpreter, equals plain torch."""

from itertools import product

import torch

from regard.nn.fast.decode import append_to_cache, attend_to_cache

ROWS, CAPACITY = 3, 40
CASES = list(product(((4, 4), (4, 2), (2, 1)), (16, 24), (False, True)))
"""Heads and key/value heads, head width, and whether there is a bias."""


def tensors(heads, width, biased):
    torch.manual_seed(width)
    query, (key, value) = torch.randn(ROWS, heads[0], width), torch.randn(2, ROWS, heads[1], width)
    keys, values = torch.randn(2, ROWS, heads[1], CAPACITY, width)
    return query, key, value, keys, values, torch.randn(ROWS, heads[0], CAPACITY) if biased else None


def appending_agrees(heads, width, biased):
    from regard.nn.fast.decode_triton import decode_attention

    query, key, value, keys, values, bias = tensors(heads, width, biased)
    lengths = torch.tensor([0, 17, CAPACITY - 1])
    caches = keys.clone(), values.clone()
    append_to_cache(key, value, *caches, lengths)
    wanted = attend_to_cache(query, *caches, lengths + 1, bias, 0.3)
    found = decode_attention(query, key, value, keys, values, lengths, None, bias, 0.3)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close((keys, values), caches)


def sharing_a_cache_agrees(heads, width):
    from regard.nn.fast.decode_triton import decode_attention

    query, _, _, keys, values, _ = tensors(heads, width, False)
    lengths, cache_rows = torch.tensor([5, CAPACITY, 1]), torch.tensor([1, 1, 0])
    wanted = attend_to_cache(query, keys[cache_rows], values[cache_rows], lengths[cache_rows], None, 0.3)
    torch.testing.assert_close(
        decode_attention(query, None, None, keys, values, lengths, cache_rows, None, 0.3), wanted
    )


def test_equal_in_the_interpreter(interpret):
    interpret()


if __name__ == "__main__":
    for one in CASES:
        appending_agrees(*one)
    for shape in {case[:2] for case in CASES}:
        sharing_a_cache_agrees(*shape)
