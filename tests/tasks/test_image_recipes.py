"""The shipped recipes for images, and the shapes of the examples."""

from pathlib import Path

import numpy as np
import pytest
from image_sets import draw, script

from regard.data.source_reader import read_examples
from regard.run import read_recipe

ROOT = Path(__file__).parents[2]
RECIPES = [
    *sorted((ROOT / "recipes" / "images").glob("*.toml")),
    ROOT / "examples/shapes.toml",
    ROOT / "examples/scenes.toml",
]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda file: file.stem)
def test_recipes_are_valid(recipe: Path):
    read_recipe(recipe).check()


def test_fashion_mnist_stays_within_half_a_million_parameters():
    recipe = read_recipe(ROOT / "recipes" / "images" / "fashion-mnist.toml")
    assert recipe.model.num_params(10) <= 500_000  # type: ignore[call-arg]
    parts = [recipe.data.split(name).part for name in ("train", "valid")]
    assert parts == ["0%-95%", "95%-100%"]


def test_the_shapes_are_the_same_each_time(tmp_path: Path):
    first, second = draw(tmp_path / "one"), draw(tmp_path / "two")
    names = sorted(file.relative_to(first) for file in first.rglob("*") if file.is_file())
    assert names
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


def test_sentences_say_what_is_drawn(tmp_path: Path):
    colours = script().COLOURS
    folder = draw(tmp_path, scenes=30)
    recipe = read_recipe(ROOT / "examples" / "scenes.toml", [f"data.folder={folder.parent}"])
    source = recipe.data.split("test").but(file=str(folder / "train.tsv"), part=None, shuffle=False)
    for example in read_examples(source):
        pixels = np.asarray(recipe.task.canvas(recipe.model).picture(example.picture)).astype(int)  # type: ignore[union-attr]
        _, first, _, *rest = example.target.split()  # type: ignore[union-attr]
        second, axis = rest[-2], 1 if "left" in rest else 0
        places = [np.argwhere((pixels == colours[name]).all(-1)) for name in (first, second)]
        if first != second:
            assert places[0][:, axis].mean() < places[1][:, axis].mean()
        assert len(places[0]) > 20
