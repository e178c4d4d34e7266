"""Recipes by name, wherever the program is installed; what the wheel holds."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.cli.arguments import complete_data, complete_path, complete_recipe, complete_recipe_or_setting
from regard.compare import read_ladder, read_sweep
from regard.config import shipped as module
from regard.config.shipped import FOLDERS, data_folder, recipe_file, root, shipped
from regard.errors import ConfigError, DataError
from regard.run import read_recipe

ROOT = Path(__file__).parents[2]
NAMES = sorted(shipped())
SWEEPS = [name for name in NAMES if shipped()[name].task == "sweep"]
STARTED = [name for name in NAMES if 'from = "runs/' in shipped()[name].text]  # which need another run first
RECIPES = [name for name in NAMES if shipped()[name].task not in ("sweep", "scaling") and name not in STARTED]


def wheel_files() -> list[Path]:
    """The files that setup.py adds to the wheel, relative to the folder in which they will lie."""
    spec = importlib.util.spec_from_file_location("setup_of_regard", ROOT / "setup.py")
    assert spec
    assert spec.loader
    setup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(setup)
    return list(setup.shipped_files())


def test_every_recipe_has_a_name_of_its_own_a_task_and_a_description():
    files = [file for folder in FOLDERS for file in (root() / folder).rglob("*.toml")]
    assert sorted(file.stem for file in files) == NAMES
    for one in shipped().values():
        assert one.task
        assert 5 < len(one.description) < 160, one.name


def test_the_wheel_holds_every_recipe_and_all_example_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As installed: the files lie in the package, and every recipe resolves through importlib.resources."""
    tracked = subprocess.run(["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=False)
    files = wheel_files()
    if tracked.returncode == 0 and tracked.stdout:
        assert {str(file) for file in files} >= {
            name for name in tracked.stdout.split("\n") if name and "/." not in name
        }
    for file in files:
        (tmp_path / "shipped" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, tmp_path / "shipped" / file)
    monkeypatch.setattr(module, "files", lambda _: tmp_path)
    shipped.cache_clear()
    try:
        assert sorted(shipped()) == NAMES
        assert root() == tmp_path / "shipped"
        for name in RECIPES:
            recipe = read_recipe(Path(name))
            source = recipe.data.train
            local = Path(str(recipe.data.folder)).is_relative_to(root())
            for file in source.files(Path(str(recipe.data.folder))) if source and local else []:
                assert file.is_file() or "shapes" in file.parts, f"{name}: {file}"
    finally:
        monkeypatch.undo()
        shipped.cache_clear()


def test_what_examples_draw_is_not_in_the_wheel():
    assert not [file for file in wheel_files() if file.suffix in (".png", ".pyc")]


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_is_what_the_name_is(name: str, tmp_path: Path):
    """A printed recipe finds the same data from another folder, a printed sweep the same recipes."""
    copy = tmp_path / f"{name}.toml"
    done = CliRunner().invoke(app, ["recipes", name])
    assert done.exit_code == 0
    copy.write_text(done.stdout, encoding="utf-8")
    if name in RECIPES:
        ours, theirs = read_recipe(Path(name)), read_recipe(copy)
        assert ours.but(data=ours.data.but(folder=None)) == theirs.but(data=theirs.data.but(folder=None))
        street = ours.data.train is not None and ours.data.train.street
        assert street or ours.data.folder == theirs.data.folder
    elif name in SWEEPS:
        ours, theirs = read_sweep([Path(name)]), read_sweep([copy])
        assert [(one.name, one.recipe.tree()["model"]) for one in ours.variants] == [
            (one.name, one.recipe.tree()["model"]) for one in theirs.variants
        ]
    elif name not in STARTED:
        assert read_ladder(copy).recipes.keys() == read_ladder(Path(name)).recipes.keys()


def test_a_file_of_the_same_name_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert recipe_file("pairs").is_relative_to(root())
    (tmp_path / "pairs").mkdir()
    assert recipe_file("pairs").is_relative_to(root())  # a folder is no recipe
    (tmp_path / "pairs").rmdir()
    (tmp_path / "pairs").write_text("seed = 7\n")
    assert read_recipe(Path("pairs")).seed == 7


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "pears",
            "pears: no such file, and no recipe of this name comes with regard; did you mean 'parse' or 'pairs'?",
        ),
        ("xyzzy", "xyzzy: no such file, and no recipe of this name comes with regard; list them: regard recipes"),
        ("a/pairs.toml", "a/pairs.toml: no such file; the one that comes with regard is called 'pairs', without .toml"),
        ("nothing.toml", "nothing.toml: no such file"),
        ("a/b", "a/b: no such file"),
    ],
)
def test_names_that_are_none(name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError) as caught:
        read_recipe(Path(name))
    assert str(caught.value).startswith(said)


def test_folders_that_come_with_regard():
    assert (data_folder("regard:examples") / "pairs" / "train.en.gz").is_file()
    for name in ("regard:nothing", "regard:../..", "regard:/"):
        with pytest.raises(ConfigError, match=r"data\.folder: no folder"):
            data_folder(name)


def test_verbs_take_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert 'kind = "classification"' in CliRunner().invoke(app, ["config", "--check", "reviews"]).stdout
    assert "nothing wrong" in CliRunner().invoke(app, ["data", "check", "pairs", "data.train.limit=20"]).stdout
    listed = CliRunner().invoke(app, ["recipes"]).stdout
    assert all(f"  {name} " in listed for name in NAMES)


def test_all_can_be_copied_and_nothing_is_overwritten(tmp_path: Path):
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "pairs.toml").write_text("# mine")
    said = CliRunner().invoke(app, ["recipes", "--copy", str(tmp_path)]).stdout
    assert "1 was there already" in said
    assert (tmp_path / "examples" / "pairs.toml").read_text() == "# mine"
    assert read_recipe(tmp_path / "examples" / "reviews.toml").data.folder == str(tmp_path / "examples")


def test_the_shell_completes_names_and_settings_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "papers").mkdir()
    for name in ("part.toml", "part.txt"):
        (tmp_path / name).touch()
    assert complete_recipe("pa") == ["papers/", "part.toml", "pairs", "parse"]
    assert "part.txt" in complete_data("pa")
    assert complete_path("train.schedule.l") == ["train.schedule.lr"]
    assert complete_recipe_or_setting("train.schedule.l") == ["train.schedule.lr="]
    script = (
        "import sys\nfrom regard.cli.arguments import complete_recipe_or_setting as complete\n"
        "complete('a')\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_renamed_folder_of_recipes_is_found_by_its_old_name():
    recipes = root() / "recipes"
    assert recipe_file("rivals/lstm.toml", recipes) == recipes / "baselines" / "lstm.toml"
    assert recipe_file(recipes / "rivals" / "lstm.toml") == recipes / "baselines" / "lstm.toml"
