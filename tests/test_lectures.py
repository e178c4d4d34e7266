"""The map of the lectures is true: settings, recipes, functions, sections and claims exist, commands are complete."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.compare import read_ladder, read_sweep
from regard.config.explain import explain
from regard.config.shipped import shipped
from regard.errors import RegardError
from regard.run import Recipe, read_recipe

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "lectures.md").read_text(encoding="utf-8")
NUMBERS = {"A": 8, "B": 9, "C": 9, "D": 10, "E": 12, "F": 17, "G": 16}
OTHERS = (
    "demo",
    "text",
    "reviews",
    "shapes",
    "masked",
    "notes",
    "topics",
    "recurrent-attention",
    "gnmt-moe",
    "strict-mask",
)
"""Recipes in which a setting is tried where those of its row do not have it."""


class LectureRow(NamedTuple):
    name: str
    slide: str
    settings: list[str]
    recipes: list[str]
    where: str
    section: str
    claim: str
    command: str


def _rows() -> list[LectureRow]:
    tables = [re.split(r"\s*\|\s*", line)[1:-1] for line in PAGE.splitlines() if re.match(r"\| [A-G]\d", line)]
    code = re.compile(r"`([^`]+)`")
    return [
        LectureRow(name, slide, code.findall(settings), code.findall(recipes), where.strip("`"), section.strip("`"),
                   claim, command.strip("`"))
        for name, slide, settings, recipes, where, section, claim, command in tables
    ]  # fmt: skip


ROWS = _rows()
by_name = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def test_every_row_of_the_lectures_is_there_once():
    assert [row.name for row in ROWS] == [f"{group}{n}" for group, last in NUMBERS.items() for n in range(1, last + 1)]


def test_rows_without_a_recipe_are_named_as_such():
    named = re.findall(r"^- ([A-G]\d+):", PAGE, re.MULTILINE)
    assert named == [row.name for row in ROWS if not row.recipes and row.name[0] != "F"]
    assert all(row.command for row in ROWS if row.recipes and row.name not in ("G3", "G10"))


def _accepts(recipe: str, *settings: str) -> bool:
    if shipped()[recipe].task in ("sweep", "scaling"):
        return False
    try:
        return bool(read_recipe(Path(recipe), settings))
    except RegardError:
        return False


@by_name
def test_settings_exist_and_take_their_values(row: LectureRow):
    for before, setting in zip(["seed=1", *row.settings], row.settings, strict=False):
        key = setting.partition("=")[0]
        assert key == "model.preset" or explain(Recipe, key), key
        if key != "start.run":  # which must be a run on this machine
            recipes = (*row.recipes, *OTHERS)
            assert any(_accepts(one, setting) or _accepts(one, before, setting) for one in recipes), setting


@by_name
def test_recipes_validate(row: LectureRow):
    for name in row.recipes:
        kind = shipped()[name].task
        if kind == "sweep":
            assert read_sweep([Path(name)]).variants
        elif kind == "scaling":
            assert read_ladder(Path(name)).recipes
        elif 'from = "runs/' not in shipped()[name].text:
            read_recipe(Path(name)).check()


@by_name
def test_what_computes_it_exists(row: LectureRow):
    if row.where:
        file, _, name = row.where.partition(" ")
        source = (ROOT / "src" / "regard" / file).read_text(encoding="utf-8")
        assert re.search(rf"^(?:class|def) {name}\b", source, re.MULTILINE), row.where


@by_name
def test_sections_and_claims_exist(row: LectureRow):
    sources = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "page" / "src").rglob("*.ts"))
    if row.section:
        assert re.search(rf'section\("{row.section}"', sources), row.section
    if row.claim:
        anchor = re.fullmatch(r"\[(F\d+)\]\(claims\.md#(f\d+)\)", row.claim)
        assert anchor
        assert f'<a id="{anchor[2]}"></a>' in (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")


@by_name
def test_commands_are_complete(row: LectureRow):
    if not row.command:
        return
    program, verb, *words = shlex.split(row.command)
    if program == "python":
        assert (ROOT / verb).is_file()
        return
    assert program == "regard"
    assert verb in {
        command.name or command.callback.__name__ for command in app.registered_commands if command.callback
    }
    settings = [word for word in words[1:] if re.match(r"[\w.]+=", word)]
    if verb == "train":
        read_recipe(Path(words[0]), settings).check()
    elif verb == "compare" and shipped()[words[0]].task == "sweep":
        assert read_sweep([Path(words[0])], settings).variants
    elif verb == "compare":
        assert read_ladder(Path(words[0])).recipes
    elif verb == "claims":
        assert f"## {words[0].upper()}: " in (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")


RUNNABLE = [row for row in ROWS if row.command.startswith("regard train") and "data.folder=data/" not in row.command]


@pytest.mark.slow
@pytest.mark.parametrize("row", RUNNABLE, ids=lambda row: row.name)
def test_commands_that_train_run_in_miniature(row: LectureRow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    words = [*shlex.split(row.command)[1:], "train.steps=2", "train.save_every=2", "train.precision=float32"]
    limited = read_recipe(Path(words[1])).data.valid is not None
    done = CliRunner().invoke(app, [*words, *(["data.valid.limit=20"] if limited else []), "--quiet"])
    assert done.exit_code == 0, done.output
