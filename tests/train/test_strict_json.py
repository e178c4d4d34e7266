import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.files.strict_json import WORDS, from_json, to_json

TRICKY = st.sampled_from([*WORDS, *(f"\\{word}" for word in WORDS), "\\\\NaN", "\\", "nan", ""])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | TRICKY
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text() | TRICKY, inner), max_leaves=20
)


def same(a: object, b: object) -> bool:
    """Equality of values and types, in which NaN equals NaN and 0.0 is not -0.0."""
    if isinstance(a, float) and isinstance(b, float):
        return repr(a) == repr(b)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b


@given(VALUES)
def test_gives_back_every_value_through_standard_json(value):
    text = to_json(value)
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not standard"))
    assert same(from_json(text), value)
    assert same(from_json(to_json(value, indent=1)), value)


def test_what_is_not_finite_reads_well():
    assert to_json([math.nan, math.inf, -math.inf, "NaN"]) == r'["NaN", "Infinity", "-Infinity", "\\NaN"]'


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "{", "", "[" * 100_000, "1" * 10_000, b"\xff"])
def test_refuses_what_is_not_json(text):
    with pytest.raises(ValueError):  # noqa: PT011
        from_json(text)


@pytest.mark.parametrize(
    ("value", "message"),
    [({"a": {1: 2}}, "value.a: the key 1"), ([0, {2}], r"value\[1\]: set"), ({"b": b"x"}, "value.b: bytes")],
)
def test_refuses_what_would_come_back_as_something_else(value, message):
    with pytest.raises(TypeError, match=message):
        to_json(value)
