"""Runs that resume after something changed: it works, or one sentence says what changed."""

import json
import shutil
from pathlib import Path

import pytest
from small_runs import classification, write_recipe
from test_training import Quiet, course, same, weights

from regard import api
from regard.config import dump_toml, read_toml
from regard.data.sources import SourceConfig
from regard.errors import ConfigError, DataError, RegardError, RunError
from regard.files.manifest import write_manifest
from regard.files.run_folder import MANIFEST_FILE
from regard.run.recipe import read_recipe
from regard.train.log import read_metrics


def resume(base: Path, *settings: str, out: Path | None = None, **options) -> tuple[Path, list[str]]:
    """Resumes the run below `base` with settings on top; its folder and what was said."""
    watcher, out = Quiet(), out or base / "run"
    recipe = options.pop("recipe", base / "recipe.toml")
    api.train(recipe, *settings, out=out, resume=True, watcher=watcher, **options)
    return out, watcher.said


def recipe_tree(base: Path) -> dict:
    tree = classification(base, steps=8)
    tree["train"] |= {"save_every": 4, "tokens_per_batch": 64, "log_every": 1}
    return tree


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("trained")
    api.train(write_recipe(base, recipe_tree(base)), out=base / "run", watcher=Quiet())
    return base


@pytest.fixture
def base(trained: Path, tmp_path: Path) -> Path:
    """A folder with recipe, data and a trained run, whose names all start there."""
    shutil.copytree(trained, tmp_path / "base", symlinks=True)
    return tmp_path / "base"


def change_data(base: Path, old: str = "great", new: str = "grand") -> None:
    file = base / "reviews.tsv"
    file.write_text(file.read_text().replace(old, new))


# Data


def test_changed_data_is_named_and_accepted_only_with_the_flag(base: Path):
    change_data(base, "good film number 7\tpositive", "bad film number 7\tnegative")
    before = (base / "run" / "metrics.jsonl").read_bytes()
    with pytest.raises(RunError, match=r"data\.train .*changed since the checkpoint of step 8.*--data-changed"):
        resume(base, "train.steps=12")
    assert (base / "run" / "metrics.jsonl").read_bytes() == before
    assert read_recipe(base / "run" / "recipe.toml").train.steps == 8
    _, said = resume(base, "train.steps=12", data_changed=True)
    assert any("data.train" in sentence and "accepted with --data-changed" in sentence for sentence in said)
    _, said = resume(base, "train.steps=14")  # the new data is what the newest checkpoint was trained with
    assert not any("data" in sentence and "changed since" in sentence for sentence in said)


def test_data_that_shrank_resumes_at_the_same_share_of_the_epoch(base: Path):
    lines = (base / "reviews.tsv").read_text().splitlines(keepends=True)
    (base / "reviews.tsv").write_text("".join(lines[:60]))
    with pytest.raises(RunError, match=r"data\.train \(\d+ examples, now \d+\)"):
        resume(base, "train.steps=12")
    out, said = resume(base, "train.steps=12", data_changed=True)
    assert any("another number of batches now" in sentence for sentence in said)
    assert course(out)[-1][0] == 12


def test_other_validation_data_chooses_the_best_anew(base: Path):
    rows = [f"a {word} film\t{label}" for word, label in (("good", "positive"), ("bad", "negative"))]
    (base / "valid.tsv").write_text("\n".join(rows) + "\n")
    settings = ["train.steps=12", 'data.valid={file="valid.tsv",text=0,label=1}', 'data.train.part="0%-95%"',
                "data.train.shuffle=true"]  # fmt: skip
    with pytest.raises(RunError, match=r"data\.valid .*changed since"):
        resume(base, *settings)
    out, said = resume(base, *settings, data_changed=True)
    assert any("the best checkpoint is chosen anew" in sentence for sentence in said)
    step = json.loads((out / "checkpoints" / "step-12" / "state.json").read_text())["state"]
    lines = [line for line in read_metrics(out / "metrics.jsonl") if line.get("split") == "valid" and line["step"] > 4]
    assert step["best"] in {line["accuracy"] for line in lines}  # measured on the new data, step 8 once more


def test_moved_data_and_a_moved_run_have_not_changed(base: Path, tmp_path: Path):
    for name in ("reviews.tsv", "recipe.toml"):
        (tmp_path / "elsewhere").mkdir(exist_ok=True)
        (base / name).rename(tmp_path / "elsewhere" / name)
    (base / "run").rename(tmp_path / "renamed")
    out, _ = resume(tmp_path / "elsewhere", "train.steps=10", out=tmp_path / "renamed")
    assert api.evaluate(out, "valid").examples  # the recipe there names the data where it lies now
    assert read_toml(out / "recipe.toml")["data"]["folder"] == str(tmp_path / "elsewhere")


def test_a_run_resumes_from_its_own_recipe_with_the_datas_new_folder(base: Path, tmp_path: Path, monkeypatch):
    from typer.testing import CliRunner

    from regard.cli import app

    file = base / "run" / "recipe.toml"
    file.write_text(file.read_text().replace(read_toml(file)["data"]["folder"], str(base)))
    base.rename(tmp_path / "new")
    recipe = tmp_path / "new" / "run" / "recipe.toml"
    with pytest.raises(RegardError, match=r"reviews\.tsv"):
        resume(base, "train.steps=10", out=recipe.parent, recipe=recipe)
    monkeypatch.chdir(tmp_path / "new" / "run")
    done = CliRunner().invoke(app, ["train", "recipe.toml", "data.folder=..", "train.steps=10", "--resume"])
    assert done.exit_code == 0, done.output
    assert course(recipe.parent)[-1][0] == 10
    assert not (tmp_path / "new" / "run" / "runs").exists()


def test_a_run_whose_data_is_gone_says_where_to_name_it(base: Path, tmp_path: Path):
    file = base / "run" / "recipe.toml"
    file.write_text(file.read_text().replace(read_toml(file)["data"]["folder"], str(tmp_path / "gone")))
    with pytest.raises(ConfigError, match=r"data\.folder: .*gone is no longer there; name other data with --data"):
        api.evaluate(base / "run", "valid")
    source = SourceConfig(file=str(base / "reviews.tsv"), text=0, label=1, limit=8)
    assert api.evaluate(base / "run", source).examples == 8


def test_data_through_a_link_has_not_changed(base: Path, tmp_path: Path):
    (tmp_path / "link").symlink_to(base, target_is_directory=True)
    out, said = resume(tmp_path / "link", "train.steps=9")
    assert course(out)[-1][0] == 9
    assert not any("data" in sentence and "changed since" in sentence for sentence in said)


# Vocabularies and labels


def test_a_changed_tokenizer_is_named(base: Path):
    file = base / "run" / "tokenizer.json"
    tree = json.loads(file.read_text())
    vocabulary = tree["model"]["vocab"]
    vocabulary["good"], vocabulary["bad"] = vocabulary["bad"], vocabulary["good"]
    file.write_text(json.dumps(tree))
    with pytest.raises(RunError, match=r"tokenizer\.json changed since the checkpoint of step 8"):
        resume(base, "train.steps=12")
    with pytest.raises(RunError, match=r"tokenizer\.json changed since step"):
        api.load(base / "run")
    out, _ = resume(base, "train.steps=12", data_changed=True)
    assert api.load(out).step == 12


def test_a_tokenizer_that_was_only_formatted_anew_is_the_same(base: Path):
    file = base / "run" / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()), indent=3))
    assert course(resume(base, "train.steps=9")[0])[-1][0] == 9


def test_changed_and_missing_labels_are_named(base: Path):
    file = base / "run" / "labels.json"
    file.write_text(json.dumps(json.loads(file.read_text())[::-1]))
    for attempt in (lambda: resume(base, "train.steps=12"), lambda: api.load(base / "run")):
        with pytest.raises(RunError, match=r"labels\.json changed since"):
            attempt()
    file.unlink()
    for attempt in (lambda: resume(base, "train.steps=12"), lambda: api.load(base / "run")):
        with pytest.raises(RunError, match=r"labels\.json: the labels of the run are missing"):
            attempt()


def test_a_missing_tokenizer_is_named(base: Path):
    (base / "run" / "tokenizer.json").unlink()
    with pytest.raises(DataError, match=r"tokenizer\.json: no such file"):
        resume(base, "train.steps=12")


# The recipe


def test_the_recipe_in_force_is_written(base: Path):
    out, said = resume(base, "train.steps=12", "train.schedule.lr=0.001")
    assert read_recipe(out / "recipe.toml").train.steps == 12
    assert read_recipe(out / "recipe.toml").train.schedule.lr == 0.001
    assert any("train.steps=12 (was 8)" in sentence for sentence in said)
    kept = json.loads((out / "checkpoints" / "step-12" / "state.json").read_text())["state"]["fingerprint"]
    assert kept["recipe"]["train"]["steps"] == 12


@pytest.mark.parametrize("setting", ["model.dropout=0.5", "tokenizer.kind=bpe", "model.width=64"])
def test_settings_that_weights_were_made_with_stay(base: Path, setting: str):
    for options in ({}, {"data_changed": True}):
        with pytest.raises(RunError, match=rf"cannot resume with another {setting.partition('=')[0]}"):
            resume(base, setting, "train.steps=12", **options)


@pytest.mark.parametrize("setting", ["seed=7", "data.max_length=9", "task.smoothing=0.1", "data.overlong=cut"])
def test_settings_of_data_and_task_change_only_with_the_flag(base: Path, setting: str):
    with pytest.raises(RunError, match=rf"cannot resume with another {setting.partition('=')[0]}.*--data-changed"):
        resume(base, setting, "train.steps=9")
    assert course(resume(base, setting, "train.steps=9", data_changed=True)[0])[-1][0] == 9


def test_an_edited_recipe_of_the_run_is_compared_with_the_checkpoint(base: Path):
    file = base / "run" / "recipe.toml"
    tree = read_toml(file)
    file.write_text(dump_toml({**tree, "seed": 9}))
    with pytest.raises(RunError, match=r"another seed \(was 1, now 9\)"):
        resume(base, "train.steps=12", recipe=file)
    resume(base, "train.steps=9")
    assert read_recipe(file).seed == 1


def test_a_run_is_not_opened_as_another_model_of_the_same_size(base: Path):
    file = base / "run" / "recipe.toml"
    text = file.read_text()
    file.write_text(text.replace("heads = 2", "heads = 4"))
    with pytest.raises(
        ConfigError, match=r"model\.heads: .* has 4, but step \d was trained with 2; restore the setting"
    ):
        api.load(base / "run")
    file.write_text(text.replace("steps = 8", "steps = 99"))
    assert api.load(base / "run")


def test_an_imported_model_is_a_start_and_no_run_to_resume(base: Path):
    edit_state(base / "run" / "checkpoints" / "step-8", lambda state: state.clear())
    with pytest.raises(RunError, match=r"step 8 was not saved by a run .* model\.from="):
        resume(base, "train.steps=12")


def edit_state(step: Path, edit) -> None:
    """Changes the state of a checkpoint as another version of regard would have written it."""
    tree = json.loads((step / "state.json").read_text())
    edit(tree["state"])
    (step / "state.json").write_text(json.dumps(tree))
    (step / MANIFEST_FILE).unlink()
    write_manifest(step)


def test_old_checkpoints_without_a_fingerprint_resume(base: Path):
    for name in ("fingerprint", "batches"):
        edit_state(base / "run" / "checkpoints" / "step-8", lambda state, name=name: state.pop(name))
    change_data(base)
    out, said = resume(base, "train.steps=10")
    assert sum("nothing could be compared" in sentence for sentence in said) == 1
    assert course(out)[-1][0] == 10
    assert api.load(out)


def test_without_a_checkpoint_all_begins_anew_with_the_data_of_now(base: Path):
    shutil.rmtree(base / "run" / "checkpoints")
    change_data(base, "good", "fine")
    out, said = resume(base)
    assert any("starts from the beginning" in sentence for sentence in said)
    run = api.load(out)
    assert "fine" in run.task.vocabularies.tokenizers["text"].core.get_vocab()
    assert run.step == 8


# Training


def test_another_batch_size_resumes_at_the_same_share_of_the_epoch(base: Path, trained: Path):
    state = json.loads((trained / "run" / "checkpoints" / "step-8" / "state.json").read_text())["state"]
    assert state["index"]
    for size in (32, 600):
        out, said = resume(base, f"train.tokens_per_batch={size}", "train.steps=12")
        assert any("another number of batches now" in sentence for sentence in said)
        epochs = [line["epoch"] for line in read_metrics(out / "metrics.jsonl") if line.get("split") == "train"]
        assert epochs == sorted(epochs)
        shutil.rmtree(out)
        shutil.copytree(trained / "run", out, symlinks=True)


ACCEPTED = [
    "train.schedule=linear", "train.accumulate=2", "train.precision=bfloat16", "train.clip=0", "train.keep=5",
    "train.moving_average={}", "train.average=2", "train.best=loss", "train.patience=3", "train.save_every=3",
    "train.optimiser.weight_decay=0.3", "train.valid_every=2", "train.log_every=7",
    "train.activation_checkpointing=true", "train.parallel=none",
]  # fmt: skip


@pytest.mark.parametrize("setting", ACCEPTED)
def test_training_settings_that_may_change(base: Path, setting: str):
    out, _ = resume(base, setting, "train.steps=10")
    assert read_metrics(out / "metrics.jsonl")[-1]["step"] == 10
    assert api.load(out)


def test_a_moving_average_may_end(base: Path):
    resume(base, "train.moving_average={}", "train.steps=9")
    out, _ = resume(base, "train.steps=10")
    assert course(out)[-1][0] == 10
    assert api.load(out)


def test_an_optimiser_of_the_same_kind_that_cannot_use_the_state_is_refused_by_name(base: Path):
    with pytest.raises(RunError, match=r"train\.optimiser: the saved optimiser is AdamW, the recipe asks for Adam;"):
        resume(base, "train.optimiser.decoupled=false", "train.steps=12")


@pytest.mark.parametrize("kind", ["sgd", "muon", "adafactor"])
def test_another_optimiser_is_refused_by_name(base: Path, kind: str):
    with pytest.raises(ConfigError, match=rf"train\.optimiser: .*adamw, which {kind} cannot use"):
        resume(base, f"train.optimiser={kind}", "train.steps=12")


@pytest.mark.parametrize("limit", ["steps=3", "tokens=5", "epochs=0.01", "minutes=0.00001", "flops=10"])
def test_a_budget_below_what_was_used_is_refused_by_name(base: Path, limit: str):
    name = limit.partition("=")[0]
    with pytest.raises(ConfigError, match=rf"train\.{name}: expected at least the .* has used already"):
        resume(base, f"train.{limit}")
    assert read_recipe(base / "run" / "recipe.toml").train.steps == 8


def test_a_finished_run_resumes_to_what_it_is(base: Path, trained: Path):
    out, _ = resume(base)
    assert same(weights(out), weights(trained / "run"))
    assert course(out) == course(trained / "run")


def test_another_metric_for_the_best_starts_counting_anew(base: Path):
    out, said = resume(base, "train.best=loss", "train.steps=10")
    assert any("the best checkpoint is chosen anew" in sentence for sentence in said)
    assert api.load(out).step >= 8


# Files of the run


def test_a_missing_metrics_file_starts_anew(base: Path):
    (base / "run" / "metrics.jsonl").unlink()
    out, _ = resume(base, "train.steps=10")
    assert [line["step"] for line in read_metrics(out / "metrics.jsonl") if line.get("split") == "train"] == [9, 10]


def test_a_damaged_metrics_file_is_named_with_its_line(base: Path):
    file = base / "run" / "metrics.jsonl"
    file.write_bytes(b"\x00garbage\n" + file.read_bytes())
    with pytest.raises(DataError, match=r"metrics\.jsonl:1: is not a line of metrics"):
        resume(base, "train.steps=10")


def test_a_deleted_cache_and_a_deleted_recipe_are_made_again(base: Path, trained: Path):
    shutil.rmtree(base / "run" / "cache")
    (base / "run" / "recipe.toml").unlink()
    out, _ = resume(base)
    assert same(weights(out), weights(trained / "run"))
    assert read_recipe(out / "recipe.toml").train.steps == 8
    (out / "recipe.toml").unlink()
    with pytest.raises(RunError, match="a run is here already"):
        api.train(base / "recipe.toml", out=out, watcher=Quiet())
