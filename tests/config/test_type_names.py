"""What `regard config --explain` calls the types of settings."""

from typing import Annotated, Literal

import pytest

from regard.config.explain import type_name


@pytest.mark.parametrize(("annotation", "said"), [
    (int, "whole number"), (float | None, "number"), (str, "text"), (bool, "true or false"),
    (int | Literal["auto"], "whole number or one of auto"), (Literal["before", "after"], "one of before, after"),
    (list[int], "list of whole number"), (Annotated[float, "of any size"], "number"),
])  # fmt: skip
def test_types_are_named_as_a_person_would(annotation: object, said: str):
    assert type_name(annotation) == said
