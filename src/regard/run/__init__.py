"""A run: everything built from a recipe, or reopened from its folder."""

from regard.run.recipe import Recipe as Recipe
from regard.run.recipe import read_recipe as read_recipe
