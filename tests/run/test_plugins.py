"""Plugins: kinds from a user's own file train, are recorded with the run, and are never executed unasked."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "extending.md"
CODE = {name: code for code, name in re.findall(r"```python\n(# (\w+\.py)\n.*?)```", DOCUMENT.read_text(), re.DOTALL)}
SMALL = [
    "model.width=16",
    "model.depth=1",
    "model.heads=2",
    "tokenizer.kind=char",
    "train.steps=4",
    "train.save_every=2",
]
RECIPE = """
defaults = "fixed"
plugins = ["mine.py"]
task = "translation"
data.train = { file = "pairs.tsv", source = 0, target = 1 }
data.valid = { file = "pairs.tsv", source = 0, target = 1 }
model.position = { kind = "log-distance", strength = 0.5 }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(CODE["mine.py"])
    (tmp_path / "mine.toml").write_text(RECIPE)
    (tmp_path / "pairs.tsv").write_text("".join(f"a{'b' * n}\t{'b' * n}a\n" for n in range(1, 21)))
    return tmp_path


def regard(folder: Path, *words: str, text: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as a plugin stays loaded in the process that has run it."""
    environment = {name: value for name, value in os.environ.items() if name != "REGARD_PLUGINS"} | variables
    command = [sys.executable, "-m", "regard", *words]
    return subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True, env=environment)


def trained(folder: Path) -> Path:
    done = regard(folder, "train", "mine.toml", *SMALL, "--out", "run", "-q")
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_a_kind_of_a_plugin_trains_and_the_run_keeps_the_plugin(folder: Path):
    run = trained(folder)
    assert (run / "plugins" / "mine.py").read_text() == CODE["mine.py"]
    assert re.search(r'sha256 = "[0-9a-f]{64}"', (run / "recipe.toml").read_text())


def test_a_run_executes_no_plugin_that_the_user_has_not_named(folder: Path):
    run = trained(folder)
    for file in (folder / "mine.py", run / "plugins" / "mine.py"):
        file.write_text(file.read_text() + '\nopen("executed", "w")\n')
    done = regard(folder, "translate", "run", text="abb\n")
    assert done.returncode == 2
    assert "trained with the plugin" in done.stderr
    assert "regard --plugin" in done.stderr
    assert not (folder / "executed").exists()


def test_a_named_plugin_opens_the_run(folder: Path):
    trained(folder)
    by_option = regard(folder, "--plugin", "run/plugins/mine.py", "translate", "run", "-q", text="abb\n")
    assert by_option.returncode == 0, by_option.stderr
    by_variable = regard(folder, "translate", "run", "-q", text="abb\n", REGARD_PLUGINS="mine.py")
    assert by_variable.stdout == by_option.stdout


def test_another_file_is_not_the_runs_plugin(folder: Path):
    trained(folder)
    (folder / "mine.py").write_text(CODE["mine.py"] + "# changed\n")
    changed = regard(folder, "--plugin", "mine.py", "translate", "run", text="abb\n")
    assert changed.returncode == 2
    assert "trained with the plugin" in changed.stderr


def test_a_run_resumes_with_its_plugin_and_refuses_a_changed_one(folder: Path):
    trained(folder)
    more = [*SMALL[:-2], "train.steps=6", "train.save_every=2", "--out", "run", "--resume", "-q"]
    done = regard(folder, "train", "mine.toml", *more)
    assert done.returncode == 0, done.stderr
    (folder / "mine.py").write_text(CODE["mine.py"].replace("log1p", "sqrt"))
    done = regard(folder, "train", "mine.toml", *more[:-1], "train.steps=8")
    assert done.returncode == 2
    assert "plugins" in done.stderr


def test_settings_of_a_plugins_kind_are_checked_and_explained(folder: Path):
    wrong = regard(folder, "config", "--check", "mine.toml", "model.position.strenght=2")
    assert wrong.returncode == 2
    assert "model.position.strenght: unknown setting; did you mean 'strength'?" in wrong.stderr
    explained = regard(folder, "--plugin", "mine.py", "config", "--explain", "model.position")
    assert "Factor of the logarithm." in explained.stdout


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (None, "plugins: mine.py: no such file"),
        ("import nothing_of_the_kind", "plugins: mine.py: ModuleNotFoundError: No module named 'nothing_of_the_kind'"),
        (CODE["mine.py"].replace('"log-distance"', '"rotary"'), "PositionConfig has a kind 'rotary' already"),
    ],
)
def test_what_is_wrong_with_a_plugin_is_one_sentence(folder: Path, code: str | None, message: str):
    (folder / "mine.py").unlink() if code is None else (folder / "mine.py").write_text(code)
    done = regard(folder, "train", "mine.toml", *SMALL, "--out", "run")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "run").exists()


def test_a_name_that_is_no_plugin_is_refused(folder: Path):
    (folder / "mine.toml").write_text(RECIPE.replace("mine.py", "their-kinds"))
    done = regard(folder, "config", "--check", "mine.toml")
    assert done.returncode == 2
    assert "'their-kinds' is neither a .py file nor an installed plugin (entry point regard.plugins)" in done.stderr


def test_a_task_of_a_plugin_trains_and_classifies(folder: Path):
    (folder / "focal.py").write_text(CODE["focal.py"])
    rows = [f"{'good' if n % 2 else 'bad'} film {n}\t{n % 2}\n" for n in range(40)]
    (folder / "reviews.tsv").write_text("".join(rows))
    recipe = 'plugins = ["focal.py"]\ntask = { kind = "focal-classification", gamma = 1.0 }\n'
    (folder / "reviews.toml").write_text(f'{recipe}data.train = {{ file = "reviews.tsv", text = 0, label = 1 }}\n')
    checked = regard(folder, "config", "--check", "reviews.toml")
    assert checked.returncode == 0, checked.stderr
    assert 'kind = "focal-classification"' in checked.stdout
    done = regard(folder, "train", "reviews.toml", "train.steps=4", "--out", "run", "-q")
    assert done.returncode == 0, done.stderr
    labels = regard(folder, "--plugin", "focal.py", "classify", "run", "-q", text="good film\n")
    assert labels.returncode == 0, labels.stderr
    assert labels.stdout.split()[0] in ("0", "1")
    scores = regard(folder, "--plugin", "focal.py", "evaluate", "run", "--json")
    assert "accuracy" in scores.stdout, scores.stderr
