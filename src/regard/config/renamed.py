"""Settings that were renamed: recipes with the old name load as before, and a person who writes one is told once.

class TrainConfig(Config):
    renamed: ClassVar[Mapping[str, str]] = {"between_blocks": "residual_dtype"}
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from regard.progress import tell


def with_present_names(renamed: Mapping[str, str], tree: Any) -> Any:  # noqa: ANN401
    """A tree whose deprecated keys have their present names; where both are given, the present one decides."""
    if not isinstance(tree, dict) or not renamed.keys() & tree.keys():
        return tree
    present = {renamed[key]: value for key, value in tree.items() if key in renamed}
    return {**present, **{key: value for key, value in tree.items() if key not in renamed}}


@cache
def tell_renamed(old: str, new: str) -> None:
    """Once in a process."""
    tell(f"regard: {old} is now called {new}; the old name still works")
