"""Random command lines: exit 0, 1 or 2, one sentence in place of a traceback, and what a success made is read back."""

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import fuzz_oracle as oracle
import pytest
from fuzz_command import Outcome, run_command
from fuzz_data import make_corpus
from fuzz_recipes import CONTENT, COSTLY, make_recipe, random_setting
from fuzz_sessions import Session
from fuzz_workers import Summary, run_cases

from regard.config import Config
from regard.config.tree import kinds, sub_config
from regard.run import Recipe

SEED = 20_000
"""Of the first session; those that follow count up."""


def test_a_sample_of_command_lines():
    summary = run_cases(40, 1, SEED, seconds=100)
    assert not summary.findings, "\n".join(summary.lines())
    assert summary.cases > 10


@pytest.mark.slow
def test_many_command_lines():
    fresh = int(time.time())
    for base, cases in ((SEED, 1000), (fresh, 500)):
        summary = run_cases(cases, 2, base)
        print("\n".join(summary.lines()))  # noqa: T201
        assert not summary.findings, "\n".join(summary.lines())
        trained = summary.exits["train", 0] / sum(n for (verb, _), n in summary.exits.items() if verb == "train")
        assert trained > 0.35, "mostly refusals: nothing is tested"


def test_a_session_follows_from_its_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def words(name: str) -> list[tuple[str, ...]]:
        (tmp_path / name).mkdir()
        return [case.outcome.words for case in Session(SEED + 2, tmp_path / name).cases()]

    def refuse(words: list[str], stdin: bytes = b"") -> Outcome:
        return Outcome(tuple(words), 2, b"", "regard: no\n", 0.0)

    monkeypatch.setattr("fuzz_sessions.run_command", refuse)
    assert words("one") == words("two")


def settings_of(owner: type[Config], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of all settings, kinds left out: those of one name in several kinds of a family are one path."""
    for name, annotated in owner.model_fields.items():
        if name != "kind":
            below = [*kinds(annotated.annotation).values(), sub_config(annotated.annotation)]
            yield (*path, name)
            yield from (each for config in below if config for each in settings_of(config, (*path, name)))


def test_every_setting_is_drawn(tmp_path: Path):
    random, drawn = Random(1), set()
    for task in CONTENT:
        (tmp_path / task).mkdir()
        corpus = make_corpus(random, tmp_path / task, CONTENT[task], clean=True)
        for _ in range(400):
            tree = make_recipe(random, task, corpus, 2)
            for path, value in (random_setting(random, tree) for _ in range(10)):
                drawn |= {path, *((*path, name) for name in (value if isinstance(value, dict) else ()))}
    wanted = {path for path in settings_of(Recipe) if path[0] not in ("start", "data") and path not in COSTLY}
    missing = wanted - drawn
    assert len(wanted) > 200
    assert len(missing) < 0.1 * len(wanted), sorted(missing)


def failing(said: str = "", code: int = 2, traceback: str = "") -> Outcome:
    return Outcome(("train", "a.toml"), code, b"", said, 0.1, traceback)


@pytest.mark.parametrize(
    "outcome",
    [
        failing(code=1, traceback="Traceback (most recent call last):\nKeyError: 'x'"),
        failing("Traceback (most recent call last):\nKeyError: 'x'\n"),
        failing("regard: a sentence\nand another line\n"),
        failing("regard: model: KeyError: 'x'\n"),
        failing("regard: model: expected Unable to parse input, got 3\n"),
        failing("regard: the layout needs FullConfig(shape='standard')\n"),
        failing(""),
        failing("regard: a sentence\n", code=3),
        failing("regard: a sentence\n", code=-11),
    ],
)
def test_what_is_a_finding(outcome: Outcome):
    assert oracle.plain_problems(outcome)


def test_what_is_none():
    assert not oracle.plain_problems(failing("step 1\nregard: model.width: expected a whole number, got 'x'\n"))
    assert not oracle.plain_problems(failing("Usage: regard train\n\nError: No such option: --x\n"))


def test_a_refusal_changes_nothing(tmp_path: Path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.toml").write_text("seed = 1")
    before = oracle.digest(tmp_path)
    (tmp_path / "run" / "recipe.toml").write_text("seed = 2")
    changed = oracle.changed_paths(before, oracle.digest(tmp_path))
    assert changed == ["run/recipe.toml"]
    assert oracle.change_problems(failing(), changed, ["run"], ["run"])
    assert not oracle.change_problems(failing(code=0), changed, ["run"], ["run"])
    assert oracle.change_problems(failing(code=0), changed, ["other"], ["run"])
    assert not oracle.change_problems(failing(), ["run/.lock", "run/cache/x"], [], ["run"])


def test_a_command_line_runs_as_in_a_shell():
    outcome = run_command(["config", "model.widht=3"])
    assert (outcome.code, outcome.verb) == (2, "config")
    assert outcome.stderr.startswith("regard: model.widht: unknown setting")
    assert run_command(["--version"]).stdout.startswith(b"regard ")


def test_numbers_that_json_does_not_have_are_findings():
    assert oracle.json_problems(b'{"loss": NaN}')
    assert not oracle.json_problems(b'{"loss": null}')


def test_a_summary_counts_by_verb_and_exit_code():
    summary = Summary()
    record = {"seed": 1, "number": 0, "verb": "train", "words": "train", "code": 2, "seconds": 0.1, "problems": []}
    summary.add({**record, "sentence": "regard: no"})
    summary.add({**record, "code": -1, "problems": ["a traceback"], "sentence": ""})
    assert summary.cases == 2
    assert any("seed 1, command 0" in line for line in summary.lines())
