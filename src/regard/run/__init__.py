"""A run: everything built from a recipe, or reopened from its folder; `training.py` trains one.

What stands here is loaded when it is asked for, so that whoever needs a part of this package does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.run.defaults.plan import Plan as Plan
    from regard.run.defaults.plan import plan_recipe as plan_recipe
    from regard.run.recipe import Recipe as Recipe
    from regard.run.recipe import read_recipe as read_recipe
    from regard.run.trained import Run as Run

HOMES = {
    "Plan": "defaults.plan",
    "Recipe": "recipe",
    "Run": "trained",
    "plan_recipe": "defaults.plan",
    "read_recipe": "recipe",
}


def __getattr__(name: str) -> object:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
