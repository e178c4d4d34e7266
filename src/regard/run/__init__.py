"""A run: everything built from a recipe, or reopened from its folder."""

from regard.run.opened import Run as Run
from regard.run.recipe import Recipe as Recipe
from regard.run.recipe import read_recipe as read_recipe
from regard.run.training import train_run as train_run
