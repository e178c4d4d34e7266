"""Numbers packed into text come back as they were: weights to half a step of 8 bits, others exactly."""

import base64

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from regard.look.payload import pack_floats, pack_signed, pack_weights

WEIGHTS = arrays(np.float32, array_shapes(min_dims=1, max_dims=3, max_side=6), elements=st.floats(0, 1, width=32))
NUMBERS = arrays(np.float32, 7, elements=st.floats(-1e6, 1e6, width=32))


@given(WEIGHTS)
def test_weights_come_back_within_half_a_step(weights: np.ndarray):
    back = np.frombuffer(base64.b64decode(pack_weights(torch.from_numpy(weights))), np.uint8) / 255
    assert np.abs(back - weights.ravel()).max() <= 0.5 / 255 + 1e-7


@given(NUMBERS)
def test_floats_come_back_exactly(numbers: np.ndarray):
    numbers[0] = -np.inf
    back = np.frombuffer(base64.b64decode(pack_floats(torch.from_numpy(numbers))), "<f4")
    assert np.array_equal(back, numbers)


@given(NUMBERS)
def test_signed_numbers_come_back_within_half_a_step(numbers: np.ndarray):
    packed = pack_signed(torch.from_numpy(numbers))
    back = (np.frombuffer(base64.b64decode(packed.bytes), np.uint8).astype(float) - 127) / 127 * packed.scale
    assert np.abs(back - numbers).max() <= packed.scale * 0.51 / 127
