"""Documents that cannot go stale: the files they name exist, and what they tell people to type works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from regard.config import read_toml
from regard.run import read_recipe
from regard.run.recipe import demo_recipe, resolve_recipe

ROOT = Path(__file__).parents[1]
NAMED = re.findall(r"`([a-z_/]+\.py)`", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(set(NAMED)))
def test_every_file_that_the_architecture_names_exists(name: str):
    assert (ROOT / "src" / "regard" / name).is_file()


def test_the_walk_through_the_code_names_as_many_files_as_it_says():
    walk = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("## One sentence")[1].split("\n## ")[0]
    parts = re.split(r"### Training|\*\*On a GPU|### Translation", walk)[1:]
    for part in parts:
        stated = re.search(r"(\d+) (?:more )?files", part)
        assert stated
        assert len(set(re.findall(r"`([a-z_/0-9]+\.py)`", part))) == int(stated.group(1))
    assert len(parts) == 4


def test_the_architecture_names_the_layers_of_the_contract():
    layers = re.search(r"layers = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.DOTALL)
    assert layers
    wanted = [part.strip(' "()\n') for part in re.split(r"[,|]", layers.group(1)) if part.strip()]
    drawn = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```")[1]
    assert [name for name in re.findall(r"[a-z0-9]+", drawn)] == [name for name in wanted if name]


def blocks(document: str, language: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def reader(folder: Path) -> Path:
    """What a reader has: the examples and recipes, and `regard` on the path."""
    for name in ("examples", "recipes"):
        shutil.copytree(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, but the pairs are trained on for a tenth of the time: enough for commands to work, not to translate."""
    folder = reader(tmp_path_factory.mktemp("reader"))
    recipe = folder / "examples" / "pairs.toml"
    short, count = re.subn(r"^(steps|save_every) = (\d+)0$", r"\1 = \2", recipe.read_text(), flags=re.MULTILINE)
    assert count == 2
    recipe.write_text(short)
    here = short.replace("[data]", '[data]\nfolder = "examples"')
    (folder / "pairs").write_text(here)  # a file of this name goes before the shipped recipe
    return folder


def run(command: list[str], folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("document", ["README.md", "docs/tour.md"])
def test_every_shell_block_runs(document: str, copy: Path):
    found = blocks(document, "sh")
    assert found
    for block in found:
        if "make " in block:  # these two run this very test: it is enough here that they exist
            targets = re.findall(r"^make ([a-z-]+)", block, re.MULTILINE)
            subprocess.run(["make", "--dry-run", *targets], cwd=ROOT, capture_output=True, check=True)
        else:
            run(["bash", "-euo", "pipefail", "-c", block], copy)


SHOWN = re.compile(r"^(echo .*\| regard translate runs/(?:mine|pairs))    # (.*)$", re.MULTILINE)
"""A command and, behind it, what it prints."""


@pytest.mark.slow
def test_the_sentences_shown_are_what_the_commands_print(tmp_path: Path):
    """Trained as README and tour say; one of the sentences may differ, as no two machines train alike to the bit."""
    folder = reader(tmp_path)
    run(["bash", "-euo", "pipefail", "-c", "regard train examples/pairs.toml --out runs/pairs"], folder)
    shown = [
        pair for document in ("README.md", "docs/tour.md") for pair in SHOWN.findall((ROOT / document).read_text())
    ]
    assert len(shown) >= 3
    printed = {
        command: run(["bash", "-euo", "pipefail", "-c", command.replace("runs/mine", "runs/pairs")], folder).strip()
        for command, _ in shown
    }
    wrong = {command: printed[command] for command, german in shown if printed[command] != german}
    assert len(wrong) <= 1, wrong


def test_every_python_block_of_the_tour_runs(copy: Path):
    for block in blocks("docs/tour.md", "python"):
        run([sys.executable, "-c", block], copy)


def test_linked_files_exist():
    for document in ("README.md", "docs/tour.md", "docs/python.md", "docs/architecture.md", "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", (ROOT / document).read_text(encoding="utf-8")):
            assert ((ROOT / document).parent / link).exists(), f"{document} links to {link}"


@pytest.mark.parametrize("recipe", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda file: file.stem)
def test_shipped_recipes_are_valid(recipe: Path):
    read_recipe(recipe).check()


def test_the_demo_is_its_recipe():
    assert resolve_recipe(read_toml(ROOT / "recipes" / "demo.toml")) == demo_recipe()
