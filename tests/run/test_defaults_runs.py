"""Recipes that name only task and data: every kind of task trains to its end, resumes, and says what was decided."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from small_runs import ANIMALS, WORDS
from test_training import Quiet, same, weights
from typer.testing import CliRunner

from regard import api
from regard.cli import app
from regard.compare.sweep import read_sweep
from regard.config import dump_toml, read_toml
from regard.errors import ConfigError, DataError, Interrupted
from regard.run import plan_recipe
from regard.run.defaults.job import PATIENCE, Job
from regard.run.unused_settings import refuse_unused
from regard.train.log import read_metrics
from regard.train.loop import Trainer

SENTENCES = [
    f"the {one} sees the {other} near the {third}" for one in ANIMALS for other in ANIMALS for third in ANIMALS
]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A default budget of few passes over the data; the minutes are not reached."""
    monkeypatch.setattr(Job, "passes", lambda *_: 10.0)


def recipe(folder: Path, task: str) -> Path:
    """A recipe with task and data alone, on data made for it."""
    file = folder / f"{task}.toml"
    file.write_text(dump_toml({"task": task, "data": {"train": MAKERS[task](folder)}}))
    return file


def pairs(folder: Path) -> dict[str, Any]:
    (folder / "pairs.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in SENTENCES))
    return {"file": "pairs.tsv", "source": 0, "target": 1}


def text(folder: Path) -> dict[str, Any]:
    (folder / "text.txt").write_text("".join(f"{text}\n" for text in SENTENCES))
    return {"file": "text.txt"}


def labelled(folder: Path) -> dict[str, Any]:
    rows = [f"a {word} film number {number}\t{label}\n" for number in range(60) for word, label in WORDS]
    (folder / "reviews.tsv").write_text("".join(rows))
    return {"file": "reviews.tsv", "text": 0, "label": 1}


def tagged(folder: Path) -> dict[str, Any]:
    tags = {"the": "DET", "sees": "VERB", "near": "ADP"}
    blocks = []
    for sentence in SENTENCES:
        rows = [(word, tags.get(word, "NOUN")) for word in sentence.split()]
        lines = [f"{i}\t{word}\t_\t{tag}\t_\t_\t{i - 1}\tdep\t_\t_" for i, (word, tag) in enumerate(rows, start=1)]
        blocks.append("\n".join(lines) + "\n\n")
    (folder / "train.conllu").write_text("".join(blocks))
    return {"file": "train.conllu"}


def images(folder: Path) -> dict[str, Any]:
    for label, colour in (("red", (200, 0, 0)), ("blue", (0, 0, 200))):
        (folder / "images" / label).mkdir(parents=True)
        for number in range(20):
            red, green, blue = colour
            Image.new("RGB", (16, 16), (red, green + number, blue)).save(folder / "images" / label / f"{number}.png")
    return {"images": "images"}


def described(folder: Path) -> dict[str, Any]:
    images(folder)
    rows = [f"images/{label}/{number}.png\ta {label} square\n" for label in ("red", "blue") for number in range(20)]
    (folder / "captions.tsv").write_text("".join(rows))
    return {"file": "captions.tsv", "image": 0, "target": 1}


MAKERS = {
    "translation": pairs,
    "summarisation": pairs,
    "language_model": text,
    "masked_language_model": text,
    "classification": labelled,
    "tagging": tagged,
    "image_classification": images,
    "image_description": described,
}


@pytest.mark.parametrize("task", MAKERS)
def test_task_and_data_are_enough(task: str, tmp_path: Path):
    watcher = Quiet()
    run = api.train(recipe(tmp_path, task), out=tmp_path / "run", watcher=watcher)
    assert any("on this machine; train.minutes=… changes it" in sentence for sentence in watcher.said)
    assert run.recipe.model.kind == run.recipe.task.usual_model
    lines = list(read_metrics(run.folder / "metrics.jsonl"))
    learning = [line for line in lines if line["split"] == "train"]
    impatient = learning[-1]["epoch"] < 10
    assert impatient or learning[-1]["lr"] < 0.1 * max(line["lr"] for line in learning)  # the schedule completes
    assert sum(line["split"] == "valid" for line in lines) >= (PATIENCE + 1 if impatient else 8)
    if task in ("translation", "summarisation", "image_description"):
        score = run.recipe.task.default_score
        assert all(score in line for line in lines if line["split"] == "valid")
    assert read_toml(run.folder / "recipe.toml")["defaults"] == "fixed"


@pytest.mark.parametrize("budget", ["steps=40", "epochs=4", "tokens=9000", "flops=1e9", "minutes=0.1"])
def test_the_schedule_completes_and_validates_ten_times_under_any_budget(
    budget: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    clock = iter(range(10**9))
    monkeypatch.setattr("regard.train.loop.time.perf_counter", lambda: next(clock) / 10)  # a tenth of a second a step
    small = ["model.width=16", "model.depth=1", "train.tokens_per_batch=256", "train.log_every=1"]
    out = tmp_path / "run"
    api.train(recipe(tmp_path, "classification"), f"train.{budget}", *small, out=out, watcher=Quiet())
    lines = list(read_metrics(out / "metrics.jsonl"))
    rates = [line["lr"] for line in lines if line["split"] == "train"]
    steps = len(rates)
    assert rates[0] < 0.1 * max(rates)  # warm-up
    assert rates.index(max(rates)) <= max(21, 0.2 * steps)
    assert rates[-1] < 0.1 * max(rates)
    assert sum(line["split"] == "valid" for line in lines) >= 8


def test_a_run_resumes_with_its_own_decisions_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = recipe(tmp_path, "classification")
    settings = ["train.epochs=3"]
    whole = api.train(file, *settings, out=tmp_path / "whole", watcher=Quiet())

    def interrupted(self: Trainer) -> str:
        self.stop = lambda: "asked" if self.spent.steps >= 4 else None
        return fit(self)

    fit = Trainer.fit
    monkeypatch.setattr(Trainer, "fit", interrupted)
    with pytest.raises(Interrupted):
        api.train(file, *settings, out=tmp_path / "cut", watcher=Quiet())
    monkeypatch.setattr(Trainer, "fit", fit)
    before = read_toml(tmp_path / "cut" / "recipe.toml")
    monkeypatch.setattr("regard.run.defaults.plan.survey", None)  # nothing is decided anew
    resumed = api.train(file, *settings, out=tmp_path / "cut", resume=True, watcher=Quiet())
    assert resumed.step == whole.step
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "cut"))
    assert read_toml(tmp_path / "cut" / "recipe.toml") == before


def test_a_run_s_recipe_repeats_it(tmp_path: Path):
    first = api.train(recipe(tmp_path, "classification"), "train.steps=6", out=tmp_path / "one", watcher=Quiet())
    plan = plan_recipe(tmp_path / "one" / "recipe.toml")
    assert plan.decisions == ()
    assert plan.recipe.tree() == first.recipe.tree()


def test_check_says_what_was_decided_and_why(tmp_path: Path):
    file = recipe(tmp_path, "classification")
    done = CliRunner().invoke(app, ["config", "--check", str(file), "model.width=32"])
    assert done.exit_code == 0, done.output
    assert '# model.kind = "encoder"   # the usual kind for classification' in done.output
    assert "# model.width" not in done.output
    assert "width = 32" in done.output
    assert "on this machine; train.minutes=… changes it" in done.output
    tree = json.loads(CliRunner().invoke(app, ["config", "--check", str(file), "--json"]).stdout)
    assert tree["model"]["kind"] == "encoder"


def test_check_without_data_says_so(tmp_path: Path):
    file = tmp_path / "recipe.toml"
    file.write_text('task = "classification"\ndata.train = { file = "lost.tsv", text = 0, label = 1 }\n')
    output = CliRunner().invoke(app, ["config", "--check", str(file)]).output
    assert "decided once the data can be read" in output
    with pytest.raises(DataError, match=r"lost\.tsv"):
        plan_recipe(file)
    with pytest.raises(ConfigError, match=r"model\.widht"):
        plan_recipe(file, ["model.widht=3"])


@pytest.mark.parametrize("setting", ["model.width=-0.5", "model.depth=0", "tokenizer.size=-1", "train.minutes=-2"])
def test_a_value_that_no_rule_can_use_is_refused_by_its_setting(setting: str, tmp_path: Path):
    file = recipe(tmp_path, "language_model")
    with pytest.raises(ConfigError, match=re.escape(setting.partition("=")[0])):
        plan_recipe(file, [setting])


def test_variants_differ_only_in_what_they_state(tmp_path: Path):
    file = recipe(tmp_path, "translation")
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(dump_toml({"base": file.name, "budget": "steps=20", "variants": {
        "usual": [], "wide": ["model.width=64"], "rotary": ["model.position.kind=rotary"],
    }}))  # fmt: skip
    usual, wide, rotary = (variant.recipe for variant in read_sweep([sweep]).variants)
    assert wide.model == usual.model.but(width=64)
    assert rotary.train == usual.train == wide.train
    assert usual.train.schedule.kind == "cosine"


def test_presets_and_other_kinds_keep_their_own_settings(tmp_path: Path):
    file = recipe(tmp_path, "translation")
    plan = plan_recipe(file, ["model.preset=transformer-base"])
    assert (plan.recipe.model.width, plan.recipe.model.depth) == (512, 6)
    assert not [decision for decision in plan.decisions if decision.path.startswith("model.")]
    lstm = plan_recipe(file, ["model.kind=lstm-seq2seq"]).recipe
    assert lstm.model.kind == "lstm-seq2seq"
    assert lstm.train.schedule.kind == "cosine"


def test_what_would_change_nothing_beside_the_recipe_s_settings_is_not_decided(tmp_path: Path):
    file = recipe(tmp_path, "translation")
    plan = plan_recipe(file, ["model.dropout=0", "model.feedforward=none"])
    plan.recipe.check()
    refuse_unused(plan.recipe)
    assert "task.consistency" not in [decision.path for decision in plan.decisions]


def test_a_table_on_the_command_line_is_filled_like_one_of_the_file(tmp_path: Path):
    file = recipe(tmp_path, "translation")
    whole, table = (
        plan_recipe(file, [given]).recipe for given in ("model.dropout.word=0.1", "model.dropout={word=0.1}")
    )
    assert table.model.dropout == whole.model.dropout
    assert table.model.dropout.residual > 0
    later = plan_recipe(file, ["model.width=32", "model={width=64}", "model.depth=1"]).recipe.model
    assert (later.width, later.depth) == (64, 1)
