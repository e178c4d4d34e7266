"""`regard compare` as a user meets it."""

import json
from pathlib import Path

import typer
from tiny_sweeps import TINY, write_sweep
from typer.testing import CliRunner, Result

from regard.cli.experiments import compare
from regard.config import dump_toml
from regard.errors import RegardError


def command(*words: str) -> Result:
    app = typer.Typer()
    app.command()(compare)
    return CliRunner().invoke(app, list(words))


def test_two_recipes_in_one_table(tmp_path: Path):
    for name, heads in (("one", 2), ("two", 1)):
        (tmp_path / f"{name}.toml").write_text(dump_toml({**TINY, "model": {**TINY["model"], "heads": heads}}))
    words = [
        str(tmp_path / "one.toml"),
        str(tmp_path / "two.toml"),
        "data.test.limit=10",
        "--out",
        str(tmp_path / "out"),
    ]
    words += ["--seeds", "1", "--budget", "steps=2"]
    done = command(*words)
    assert done.exit_code == 0, done.exception
    assert "│ one    │" in done.stdout
    assert "test data, one seed; 2 steps each." in done.stdout
    tree = json.loads(command(*words, "--json").stdout)
    assert [row["runs"][0]["steps"] for row in tree["rows"]] == [2, 2]
    assert tree["seeds"] == [1]


def test_mistakes_are_the_users(tmp_path: Path):
    file = write_sweep(tmp_path, {"a": ["model.positon=3"]})
    for words in ([str(file)], ["nothing.toml"], [str(file), "--budget", "money"], ["model.width=3"]):
        error = command(*words, "--out", str(tmp_path / "out")).exception
        assert isinstance(error, RegardError)
        assert error.exit_code == 2
    assert not (tmp_path / "out").exists()
