"""Whole runs: trained, stopped, killed, resumed, reopened, used."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file
from small_runs import classification, language_model, translation, write_recipe

from regard import api
from regard.errors import ConfigError, Failure, RegardError, RunError
from regard.run.recipe import resolve_recipe
from regard.train.log import read_metrics
from regard.train.loop import Trainer
from regard.train.monitor import Watcher


class Quiet(Watcher):
    def __init__(self):
        self.said = []

    def step(self, line, progress): ...

    def measured(self, line): ...

    def say(self, sentence):
        self.said.append(sentence)


def train(tree: dict, out: Path, **options):
    return api.train(resolve_recipe(tree), out=out, watcher=Quiet(), **options)


def command(recipe: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "regard", "train", str(recipe), "--out", str(out), *more]


def course(folder: Path) -> list[tuple]:
    """What an undisturbed run and a resumed one must have in common."""
    lines = [line for line in read_metrics(folder / "metrics.jsonl") if "event" not in line]
    return [(line["step"], line["split"], line["loss"], line["tokens"], line["lr"]) for line in lines]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file((folder / "checkpoints" / "last").resolve() / "model.safetensors")


def same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(translation(moving_average={"decay": 0.9}), folder)
    return folder


def test_a_run_folder_holds_what_the_design_says(undisturbed: Path):
    names = {path.name for path in undisturbed.iterdir()}
    assert {"recipe.toml", "tokenizer.json", "metrics.jsonl", "README.md", "curves.png", "checkpoints"} <= names
    files = {path.name for path in (undisturbed / "checkpoints" / "step-12").iterdir()}
    assert {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"} <= files
    assert (undisturbed / "checkpoints" / "best").exists()
    line = read_metrics(undisturbed / "metrics.jsonl")[0]
    assert {"step", "split", "loss", "tokens", "seconds", "tokens_per_second", "flops", "lr"} <= line.keys()


def test_the_loss_falls(undisturbed: Path):
    losses = [loss for _, split, loss, _, _ in course(undisturbed) if split == "train"]
    assert sum(losses[-3:]) < sum(losses[:3])


def test_the_same_recipe_gives_the_same_run(undisturbed: Path, tmp_path: Path):
    train(translation(moving_average={"decay": 0.9}), tmp_path / "again")
    assert course(tmp_path / "again") == course(undisturbed)
    assert same(weights(tmp_path / "again"), weights(undisturbed))


def test_stopped_and_resumed_equals_undisturbed_to_the_bit(undisturbed: Path, tmp_path: Path):
    folder = tmp_path / "resumed"
    train(translation(steps=5, moving_average={"decay": 0.9}), folder)
    train(translation(moving_average={"decay": 0.9}), folder, resume=True)
    kept = [line for line in course(undisturbed) if not (line[1] == "valid" and line[0] == 5)]
    assert [line for line in course(folder) if line[:2] != (5, "valid")] == kept
    assert same(weights(folder), weights(undisturbed))


def test_killed_while_training_or_saving_it_resumes_to_the_bit(tmp_path: Path):
    recipe = write_recipe(tmp_path, translation(steps=16, save_every=2))
    subprocess.run(command(recipe, tmp_path / "whole"), check=True, capture_output=True)
    killed = killed_often(recipe, tmp_path / "killed", kills=3)
    assert killed >= 1
    assert course(tmp_path / "killed") == course(tmp_path / "whole")
    assert same(weights(tmp_path / "killed"), weights(tmp_path / "whole"))


@pytest.mark.slow
def test_killed_twenty_times(tmp_path: Path):
    recipe = write_recipe(tmp_path, translation(steps=120, save_every=3))
    subprocess.run(command(recipe, tmp_path / "whole"), check=True, capture_output=True)
    assert killed_often(recipe, tmp_path / "killed", kills=20) == 20
    assert course(tmp_path / "killed") == course(tmp_path / "whole")
    assert same(weights(tmp_path / "killed"), weights(tmp_path / "whole"))


def killed_often(recipe: Path, folder: Path, kills: int) -> int:
    """Kills the process at random moments after its first checkpoint, then lets it end; how often it was killed."""
    chance, done = random.Random(5), 0
    for turn in range(kills + 1):
        more = ["--resume"] if turn else []
        process = subprocess.Popen(command(recipe, folder, *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = newest_step(folder)
        if turn < kills:
            while process.poll() is None and newest_step(folder) <= before:
                time.sleep(0.005)
            time.sleep(chance.random() * 0.15)
            if process.poll() is None:
                process.kill()
                done += 1
        process.wait()
    assert process.returncode == 0
    return done


def newest_step(folder: Path) -> int:
    found = (folder / "checkpoints").glob("step-*")
    return max((int(path.name.split("-")[1].split(".")[0]) for path in found), default=0)


def test_a_stop_request_saves_and_leaves(tmp_path: Path):
    recipe = write_recipe(tmp_path, translation(steps=100_000, save_every=50_000))
    process = subprocess.Popen(command(recipe, tmp_path / "run"), stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "run" / "metrics.jsonl").exists() or not (tmp_path / "run" / "metrics.jsonl").stat().st_size:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert f"stopped and saved; resume with: regard train {tmp_path / 'run'}/recipe.toml --resume" in said
    assert newest_step(tmp_path / "run") > 0


def test_damage_is_named_and_the_checkpoint_before_is_used(tmp_path: Path):
    folder = tmp_path / "run"
    train(translation(steps=8), folder)
    file = folder / "checkpoints" / "step-8" / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    watcher = Quiet()
    api.train(resolve_recipe(translation(steps=9)), out=folder, resume=True, watcher=watcher)
    assert any("step-8/model.safetensors" in said and "using step-4" in said for said in watcher.said)
    with pytest.raises(RunError, match="a run is here already"):
        train(translation(), folder)
    with pytest.raises(RunError, match="cannot resume with another seed"):
        train({**translation(), "seed": 9}, folder, resume=True)


def test_accumulation_is_exact_in_tokens(tmp_path: Path):
    changes = {"model.dropout": 0.0}
    for parts in (1, 3):
        tree = translation(steps=4, accumulate=parts)
        tree["model"] = {**tree["model"], "dropout": 0.0}
        train(tree, tmp_path / str(parts))
    one, three = course(tmp_path / "1"), course(tmp_path / "3")
    assert [line[2] for line in one] == pytest.approx([line[2] for line in three], rel=1e-5), changes


def test_two_processes_see_the_batches_of_one(tmp_path: Path):
    tree = translation(steps=50, save_every=25)
    tree["model"] = {**tree["model"], "dropout": 0.0}
    recipe = write_recipe(tmp_path, tree)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "regard"]
    subprocess.run(command(recipe, tmp_path / "one"), check=True, capture_output=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = ["train", str(recipe), "--out", str(tmp_path / "two")]
    done = subprocess.run([*launch, *words], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    one, two = course(tmp_path / "one"), course(tmp_path / "two")
    assert [line[:2] + line[3:4] for line in one] == [line[:2] + line[3:4] for line in two]
    assert [line[2] for line in one] == pytest.approx([line[2] for line in two], rel=1e-4)


def test_a_tracker_is_told_what_the_metrics_file_holds(tmp_path: Path, monkeypatch):
    told = []

    class SummaryWriter:
        def __init__(self, log_dir, purge_step):
            assert log_dir == str(tmp_path / "run" / "tensorboard")

        def add_scalar(self, tag, value, global_step):
            told.append((tag, value, global_step))

        def flush(self): ...

        def close(self): ...

    board = ModuleType("torch.utils.tensorboard")
    vars(board).update(SummaryWriter=SummaryWriter)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", board)
    train(translation(steps=4, track=["tensorboard"]), tmp_path / "run")
    lines = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if "event" not in line]
    losses = [(f"{line['split']}/loss", line["loss"], line["step"]) for line in lines]
    assert losses == [call for call in told if call[0].endswith("/loss")]


def test_not_a_number_stops_before_the_step(tmp_path: Path, monkeypatch):
    original = Trainer._next_inputs

    def poisoned(self):
        if self.spent.steps == 5:
            self.model.target_embedding.table.weight.data[3] = torch.nan
        return original(self)

    monkeypatch.setattr(Trainer, "_next_inputs", poisoned)
    with pytest.raises(Failure, match=r"step 6: the loss is nan .* batch \d+ of epoch \d+ \(examples"):
        train(translation(), tmp_path / "run")
    assert newest_step(tmp_path / "run") == 4


def test_what_chooses_the_best_is_written_without_dropout(tmp_path: Path):
    tree = translation(steps=6, best="chrf", save_every=6)
    tree["model"] = {**tree["model"], "dropout": 0.5}
    tree["search"] = {"kind": "greedy", "max_length": 8}
    run = train(tree, tmp_path / "run")
    told = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line.get("split") == "valid"][-1]
    assert told["chrf"] == pytest.approx(api.evaluate(run, "valid").metrics["chrf"])


def test_average_of_checkpoints_and_early_stop(tmp_path: Path):
    run = train(translation(steps=12, average=3, keep=3), tmp_path / "run")
    lines = read_metrics(run.folder / "metrics.jsonl")
    assert [line["averaged"] for line in lines if "averaged" in line] == [3]
    stopped = translation(steps=400, patience=1, schedule={"kind": "constant", "lr": 1e-12})
    train(stopped, tmp_path / "patience")
    assert newest_step(tmp_path / "patience") < 400


@pytest.mark.parametrize("limit", [{"epochs": 0.5}, {"tokens": 2000}, {"flops": 2e8}, {"minutes": 0.05}])
def test_budgets(limit: dict, tmp_path: Path):
    tree = translation(steps=12)
    tree["train"] = {**{key: value for key, value in tree["train"].items() if key != "steps"}, **limit}
    run = train(tree, tmp_path / "run")
    spent = read_metrics(run.folder / "metrics.jsonl")[-1]
    name, value = next(iter(limit.items()))
    used = {**spent, "epochs": spent["epoch"], "minutes": spent["seconds"] / 60}
    assert used[name] >= value
    assert run.step < 5000


def test_translation_is_the_same_alone_or_among_others(undisturbed: Path):
    run = api.load(undisturbed)
    sentences = ["The dog sleeps.", "Anna threw away the old chair.", "", "Peter needs twenty-one eggs."] * 8
    together = api.translate(run, sentences)
    assert together[2] == ""
    assert [api.translate(run, [sentence])[0] for sentence in sentences[:4]] == together[:4]
    greedy = run.translate(sentences[:2], resolve_recipe({"search": "greedy"}).search)
    beam = run.translate(sentences[:2], resolve_recipe({"search": {"kind": "beam", "size": 1}}).search)
    assert [row[0].tokens for row in greedy] == [row[0].tokens for row in beam]


def test_an_ensemble_of_one_and_of_itself(undisturbed: Path):
    run = api.load(undisturbed)
    alone = run.translate(["The dog sleeps."])[0][0]
    twice = run.translate(["The dog sleeps."], others=[run])[0][0]
    assert alone.text == twice.text


def test_evaluate_reports_scores_with_signatures(undisturbed: Path):
    report = api.evaluate(undisturbed, "test")
    assert {"bleu", "chrf", "ter", "exact_match", "pronoun"} <= report.metrics.keys()
    assert "tok:13a" in report.signatures["bleu"]
    assert report.examples == 30


def test_over_long_input_is_split_or_refused(tmp_path: Path):
    tree = translation(steps=2)
    tree["data"]["max_length"] = 20
    run = train(tree, tmp_path / "run")
    assert run.translate(["The dog sleeps. The cat sleeps. The cow sleeps. The hen sleeps. " * 3])[0][0].tokens
    with pytest.raises(RegardError, match=r"input 1: a sentence of .* tokens, the model takes at most 20"):
        run.translate(["word " * 100])


def test_language_model(tmp_path: Path):
    recipe = write_recipe(tmp_path, language_model(tmp_path, steps=60))
    run = api.train(recipe, out=tmp_path / "run", watcher=Quiet())
    report = api.evaluate(run, "valid")
    assert report.metrics["perplexity"] < 15
    assert 0 < report.metrics["bits_per_byte"] < 8
    text = api.generate(run, ["the dog "], run.recipe.usual_search.but(max_length=20))[0]
    assert len(text) == 20
    assert "".join(run.stream("the dog ", run.recipe.usual_search.but(max_length=20))) == text
    with pytest.raises(ConfigError, match="is a run of language_model and cannot translate; it can generate"):
        run.translate(["x"])


def test_classification(tmp_path: Path):
    recipe = write_recipe(tmp_path, classification(tmp_path, steps=40))
    run = api.train(recipe, out=tmp_path / "run", watcher=Quiet())
    report = api.evaluate(run, "valid")
    assert report.metrics["accuracy"] > 0.9
    assert report.details["labels"] == ["negative", "positive"]
    assert api.classify(run, ["a good film number 3", "", "a bad film number 7"]) == ["positive", None, "negative"]


def test_verbs_read_lines_and_write_lines(undisturbed: Path):
    text = "The dog sleeps.\n\nAnna sleeps.\n"
    words = [sys.executable, "-m", "regard", "translate", str(undisturbed)]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=True)
    assert len(done.stdout.split("\n")) == 4
    assert done.stdout.split("\n")[1] == ""
    done = subprocess.run([*words, "--json", "--nbest", "3"], input=text, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [len(row["outputs"]) for row in rows] == [3, 1, 3]
    done = subprocess.run([*words[:3], "translate", "nowhere"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("regard: nowhere: no such run folder")
