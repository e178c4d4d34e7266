"""Whole comparisons: equal budgets, failed rows, interrupted and resumed, shared by processes."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_sweeps import BROKEN, LSTM, TINY, Quiet, write_sweep

from regard.compare import Comparison, compare_sweep, read_sweep
from regard.compare.budget import Planner
from regard.compare.queue import Job, Queue, turn
from regard.errors import Failure, RunError
from regard.files.lock import RunLock
from regard.run.recipe import resolve_recipe
from regard.run.trained import read_run_recipe
from regard.train.log import read_metrics

VARIANTS = {"transformer": [], "lstm": LSTM, "broken": BROKEN}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("compared")


@pytest.fixture(scope="module")
def compared(folder: Path) -> Comparison:
    return compare_sweep(read_sweep([write_sweep(folder, VARIANTS, seeds=2)]), folder / "out", Quiet())


def test_equal_flops_end_within_one_per_cent_of_the_first_recipes_own_budget(compared: Comparison, folder: Path):
    recipe = read_sweep([folder / "sweep.toml"]).variants[0].recipe
    amount = Planner(folder / "plan").recipe_amount(recipe, "flops")
    runs = [run for row in compared.rows[:2] for run in row.outcomes]
    assert len(runs) == 4
    assert all(amount <= run.flops <= 1.01 * amount for run in runs), [run.flops / amount for run in runs]
    assert {run.steps for run in runs[:2]} <= {109, 110, 111}  # the first recipe asked for 110
    assert all(abs(run.steps - 110) > 2 for run in runs[2:]), [run.steps for run in runs]  # its steps cost otherwise


def test_what_is_counted_is_what_the_metrics_file_says(compared: Comparison, folder: Path):
    lines = read_metrics(folder / "out/runs/lstm/seed-2/metrics.jsonl")
    last = [line for line in lines if line.get("split") == "train"][-1]
    run = compared.rows[1].outcomes[1]
    assert (run.flops, run.tokens, run.steps) == (last["flops"], last["tokens"], last["step"])


def test_a_failed_variant_is_a_row_that_says_why(compared: Comparison, folder: Path):
    row = compared.rows[2]
    assert row.mean is None
    assert row.notes[0].startswith("failed with 2 of 2 seeds: step 2: the loss is nan")
    assert "- broken: failed with 2 of 2 seeds" in (folder / "out" / "table.md").read_text()


def test_the_folder_holds_table_and_picture(compared: Comparison, folder: Path):
    tree = json.loads((folder / "out" / "table.json").read_text())
    assert tree == json.loads(json.dumps(compared.tree()))
    assert [row["name"] for row in tree["rows"]] == list(VARIANTS)
    assert (folder / "out" / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert r"\begin{tabular}" in (folder / "out" / "table.tex").read_text()
    assert "evidence" not in tree["rows"][0]["runs"][0]


def test_killed_and_started_again_it_loses_no_finished_run(compared: Comparison, folder: Path, tmp_path: Path):
    file = write_sweep(tmp_path, {name: VARIANTS[name] for name in ("transformer", "lstm")}, seeds=1)
    out = tmp_path / "out"
    script = f"from regard.compare import *; from pathlib import *; compare_sweep(read_sweep([Path({str(file)!r})]), "
    script += f"Path({str(out)!r}))"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (out / "runs/lstm/seed-1/checkpoints/last").exists():
        time.sleep(0.01)
    assert process.poll() is None
    process.kill()
    process.wait()
    result = out / "runs/transformer/seed-1/result.json"
    finished, watcher = result.stat().st_mtime_ns, Quiet()
    again = compare_sweep(read_sweep([file]), out, watcher)
    assert result.stat().st_mtime_ns == finished
    assert [said for said in watcher.said if said.startswith("[")] == ["[2/2] runs/lstm/seed-1"]
    assert any(said.startswith("resumed at step") for said in watcher.said)
    for one, other in zip(again.rows, compared.rows[:2], strict=True):
        assert one.scores == other.scores[:1]
        assert one.outcomes[0].flops == other.outcomes[0].flops


def test_done_runs_are_skipped_and_the_table_is_the_same(compared: Comparison, folder: Path):
    before, watcher = (folder / "out" / "table.md").read_text(), Quiet()
    sweep = read_sweep([folder / "sweep.toml"])
    compare_sweep(sweep, folder / "out", watcher)
    assert [said for said in watcher.said if said.startswith("[")] == [
        "[3/6] runs/broken/seed-1",
        "[6/6] runs/broken/seed-2",
    ]
    assert (folder / "out" / "table.md").read_text() == before


def test_another_budget_wants_another_folder(compared: Comparison, folder: Path):
    sweep = read_sweep([folder / "sweep.toml"], budget="steps=5")
    with pytest.raises(RunError, match=r"runs/transformer/seed-1: was run with other settings .* another --out"):
        compare_sweep(sweep, folder / "out", Quiet())


def test_missing_data_costs_one_row(tmp_path: Path):
    recipe = {**TINY, "train": {**TINY["train"], "steps": 2}}
    variants = {"here": [], "gone": ["data.train={source='no.en',target='no.de'}"]}
    file = write_sweep(tmp_path, variants, recipe, seeds=1, keep_weights=False)
    found = compare_sweep(read_sweep([file]), tmp_path / "out", Quiet())
    assert len(found.rows[0].scores) == 1
    assert "no.en" in found.rows[1].notes[0]
    assert not (tmp_path / "out/runs/here/seed-1/checkpoints").exists()
    assert (tmp_path / "out/runs/here/seed-1/result.json").is_file()


def test_tuning_takes_the_rate_with_the_lowest_validation_loss(tmp_path: Path):
    recipe = {**TINY, "train": {**TINY["train"], "steps": 20}}
    options = {"seeds": 1, "tune": True, "tune_share": 0.5, "tune_factors": [1e-4, 1.0, 1e15], "budget": "steps"}
    file = write_sweep(tmp_path, {"one": ["train.schedule.lr=30"]}, recipe, **options)
    found = compare_sweep(read_sweep([file]), tmp_path / "out", Quiet())
    assert found.rows[0].learning_rate == 3e-3
    assert {path.name for path in (tmp_path / "out/tune/one").iterdir()} == {"lr-0.003", "lr-30", "lr-3e+16"}
    assert found.rows[0].outcomes[0].steps == 20


def test_where_no_rate_can_be_trained_with_the_row_says_so(tmp_path: Path):
    options = {"seeds": 1, "tune": True, "budget": "steps=4", "tune_share": 1.0, "tune_factors": [1.0]}
    file = write_sweep(tmp_path, {"broken": BROKEN}, **options)
    [row] = compare_sweep(read_sweep([file]), tmp_path / "out", Quiet()).rows
    assert row.notes == ["failed with 1 of 1 seeds: training failed with every learning rate that was tried"]


def test_what_another_process_works_on_is_waited_for(tmp_path: Path, monkeypatch):
    recipe = resolve_recipe({**TINY, "train": {**TINY["train"], "steps": 2}})
    jobs = [Job(f"runs/{name}", recipe, tested=False) for name in ("theirs", "ours")]
    elsewhere, watcher = RunLock(tmp_path / "locks/runs/theirs"), Quiet()
    elsewhere.__enter__()
    monkeypatch.setattr("regard.compare.queue.time.sleep", lambda _: elsewhere.__exit__())
    done = Queue(tmp_path, watcher).work(jobs)
    titles = [said for said in watcher.said if said.startswith("[")]
    assert titles == ["[1/2] runs/ours", "[2/2] runs/theirs"]
    assert {key: outcome.steps for key, outcome in done.items()} == {"runs/ours": 2, "runs/theirs": 2}


def test_a_failure_counts_for_all_who_share_the_queue_and_is_tried_again_by_who_comes_later(
    compared: Comparison, folder: Path
):
    out = folder / "out"
    job = Job("runs/broken/seed-1", read_run_recipe(out / "runs/broken/seed-1"))
    failed = (out / job.key / "result.json").stat().st_mtime
    before, later = (Queue(out, Quiet(), began=began) for began in (failed - 1, failed + 1))
    known = before.work([job])[job.key]
    assert known.problem == compared.rows[2].outcomes[0].problem
    assert (out / job.key / "result.json").stat().st_mtime == failed
    assert later.work([job])[job.key].problem is not None
    assert (out / job.key / "result.json").stat().st_mtime > failed


def test_tables_are_written_one_process_after_the_other(tmp_path: Path, monkeypatch):
    elsewhere, waited = RunLock(tmp_path), []
    elsewhere.__enter__()
    monkeypatch.setattr("regard.compare.queue.time.sleep", lambda _: waited.append(elsewhere.__exit__()))
    with turn(tmp_path), pytest.raises(RunError, match="is being trained by"):
        RunLock(tmp_path).__enter__()
    assert len(waited) == 1


def test_a_failure_that_cannot_be_written_down_is_still_a_row(tmp_path: Path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise Failure("the disk is full")

    monkeypatch.setattr("regard.compare.queue.train_run", full)
    monkeypatch.setattr("regard.compare.queue.Outcome.save", full)
    job = Job("runs/lost", resolve_recipe(TINY))
    assert Queue(tmp_path, Quiet()).work([job])["runs/lost"].problem == "the disk is full"


def test_a_picture_that_cannot_be_drawn_costs_no_comparison(compared: Comparison, tmp_path: Path, monkeypatch):
    def fails(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("regard.compare.comparison.table.write_figure", fails)
    said = compared.write_plot(tmp_path / "plot.png")
    assert said == f"{tmp_path / 'plot.png'} could not be written (no space left); the tables beside it are whole"
