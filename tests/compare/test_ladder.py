"""A scaling ladder from its file to the checked forecast."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from tiny_sweeps import TINY
from typer.testing import CliRunner

from regard.cli.experiments import compare
from regard.compare import Scaling, read_ladder, train_ladder
from regard.compare.queue import Job, Outcome, Queue
from regard.compare.scaling_report import markdown, sentences, write_scaling
from regard.config import dump_toml
from regard.errors import RegardError

LAW = (0.9, 30.0, 0.4, 200.0, 0.5)


def loss_at(params: float, tokens: float) -> float:
    floor, a, alpha, b, beta = LAW
    return floor + a * params**-alpha + b * tokens**-beta


def planted(_: Queue, jobs: Sequence[Job]) -> dict[str, Outcome]:
    """Runs that end at once, with losses that follow a law."""
    done = {}
    for job in jobs:
        params, tokens = job.recipe.model.num_params(300, 300), job.recipe.train.tokens  # type: ignore[call-arg]
        assert tokens is not None
        loss = loss_at(params, tokens)
        done[job.key] = Outcome(params=params, tokens=tokens, flops=6.0 * params * tokens, valid={"loss": loss})
    return done


def write_ladder(folder: Path, **changes) -> Path:
    (folder / "base.toml").write_text(dump_toml(TINY))
    tree = {
        "base": "base.toml",
        "tokens": [1e4, 4e4, 16e4, 64e4, 256e4],
        "samples": 20,
        "sizes": {f"w{width}": [f"model.width={width}"] for width in (4, 8, 16, 32, 64)},
        "forecast": {"settings": ["model.width=128"]},
    }
    file = folder / "ladder.toml"
    file.write_text(dump_toml({**tree, **changes}))
    return file


@pytest.fixture
def climbed(tmp_path: Path, monkeypatch) -> Scaling:
    monkeypatch.setattr(Queue, "work", planted)
    return train_ladder(read_ladder(write_ladder(tmp_path, seeds=2)), tmp_path)


def test_the_planted_law_comes_out_of_the_ladder(climbed: Scaling):
    assert [rung.size for rung in climbed.rungs[:6]] == ["w4"] * 5 + ["w8"]
    assert len(climbed.rungs) == 25
    assert climbed.joint.exponents == pytest.approx((0.4, 0.5), rel=1e-3)
    assert climbed.by_params.exponents[0] == pytest.approx(0.4, rel=1e-2)
    assert climbed.by_tokens.exponents[0] == pytest.approx(0.5, rel=1e-2)
    assert climbed.optimal[0] == 0
    assert climbed.optimal[-1] == 24


def test_the_forecast_is_compared_with_the_run(climbed: Scaling):
    loss, low, high = climbed.forecast
    assert climbed.checked.params > max(rung.params for rung in climbed.rungs)
    assert climbed.checked.tokens == 256e4
    assert loss == pytest.approx(loss_at(climbed.checked.params, 256e4), rel=1e-3)
    assert low <= loss <= high
    missed = replace(climbed, forecast=(loss, low + 1, high + 1))
    assert not missed.holds
    assert "the forecast does not hold" in sentences(missed)[-1]


def test_the_report(climbed: Scaling, tmp_path: Path):
    write_scaling(climbed, tmp_path)
    text = (tmp_path / "scaling.md").read_text()
    assert text == markdown(climbed)
    assert text.count("| w16 ") == 5
    assert all(line in text for line in sentences(climbed))
    tree = json.loads((tmp_path / "scaling.json").read_text())
    assert tree["forecast"]["measured"] == climbed.checked.loss
    assert (tmp_path / "scaling.png").stat().st_size > 10_000


def test_failed_runs_are_left_out_and_named(tmp_path: Path, monkeypatch):
    def some(queue: Queue, jobs: Sequence[Job]) -> dict[str, Outcome]:
        broken = Outcome(problem="out of memory")
        return {key: broken if "w64/2560000" in key else run for key, run in planted(queue, jobs).items()}

    monkeypatch.setattr(Queue, "work", some)
    found = train_ladder(read_ladder(write_ladder(tmp_path)), tmp_path)
    assert len(found.rungs) == 24
    assert sentences(found)[-1] == "failed: w64, 2,560,000 tokens: out of memory"


def test_every_run_gets_its_tokens(tmp_path: Path):
    ladder = read_ladder(write_ladder(tmp_path), ["model.heads=1"])
    assert [recipe.model.width for recipe in ladder.recipes.values()] == [4, 8, 16, 32, 64]
    assert ladder.recipes["w4"].model.heads == 1  # type: ignore[union-attr]


def test_the_verb(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(Queue, "work", planted)
    app = typer.Typer()
    app.command()(compare)
    words = [str(write_ladder(tmp_path)), "--scaling", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.exception
    lines = done.stdout.splitlines()
    assert lines[0].startswith("loss against parameters: L = ")
    assert "the forecast holds" in lines[4] or "does not hold" in lines[4]
    tree = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert len(tree["rungs"]) == 25
    assert isinstance(CliRunner().invoke(app, [*words, "--tune"]).exception, RegardError)


def test_a_size_that_cannot_be_is_named(tmp_path: Path):
    with pytest.raises(RegardError, match=r"sizes\.b: model\.heads"):
        read_ladder(write_ladder(tmp_path, sizes={"a": [], "b": ["model.width=5"], "c": [], "d": []}))
    with pytest.raises(RegardError, match="tokens: expected"):
        read_ladder(write_ladder(tmp_path, tokens=[100]))
