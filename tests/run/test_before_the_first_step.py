"""What can fail in a validation, a test or while generating is refused before the first step, and leaves no folder."""

import json
from pathlib import Path
from typing import Any

import pytest
from small_runs import TINY_MODEL, classification, language_model, translation, write_recipe

from regard import api
from regard.errors import ConfigError, DataError, RegardError, RunError
from regard.files.lock import RunLock
from regard.run import conclusion, preflight, trainer
from regard.train.monitor import Quiet


def train(folder: Path, tree: dict[str, Any], *settings: str, out: str = "runs/new", resume: bool = False):
    return api.train(write_recipe(folder, tree), *settings, out=folder / out, resume=resume, watcher=Quiet())


def pairs(folder: Path, name: str, sources: list[str], targets: list[str] | None = None) -> dict[str, str]:
    (folder / f"{name}.src").write_text("".join(f"{text}\n" for text in sources))
    (folder / f"{name}.tgt").write_text("".join(f"{text}\n" for text in targets or sources))
    return {"source": f"{name}.src", "target": f"{name}.tgt"}


def own_translation(folder: Path, valid: list[str], steps: int = 3, **train: Any) -> dict[str, Any]:
    tree = translation(steps, **train)
    tree["data"] = {"train": pairs(folder, "train", [f"word {n} of {n % 7}" for n in range(60)]),
                    "valid": pairs(folder, "valid", valid)}  # fmt: skip
    return tree | {"tokenizer": {"kind": "bpe", "size": 300}}


def unknown_label(folder: Path, split: str) -> dict[str, Any]:
    tree = classification(folder)
    rows = "a film\tpositive\nanother film\tnone of these\n"
    (folder / "held.tsv").write_text(rows)
    tree["data"] |= {"valid": {"file": "reviews.tsv", "text": 0, "label": 1, "limit": 20}}
    tree["data"][split] = {"file": "held.tsv", "text": 0, "label": 1}
    return tree


def torn(folder: Path, split: str) -> dict[str, Any]:
    """A held-out file of which only the last line cannot be read."""
    tree = own_translation(folder, ["one two"])
    (folder / "torn.src").write_bytes(b"one\n" * 40 + b"\xff\xfe\n")
    (folder / "torn.tgt").write_bytes(b"one\n" * 41)
    tree["data"][split] = {"source": "torn.src", "target": "torn.tgt"}
    return tree


REFUSED = {
    "valid label": (lambda folder: unknown_label(folder, "valid"), (), DataError, "none of these"),
    "test label": (lambda folder: unknown_label(folder, "test"), (), DataError, "none of these"),
    "valid torn": (lambda folder: torn(folder, "valid"), (), DataError, "UTF-8"),
    "test torn": (lambda folder: torn(folder, "test"), (), DataError, "UTF-8"),
    "no test file": (lambda _: translation(), ("data.test={file='n.tsv',source='a',target='b'}",), DataError, "n.tsv"),
    "best": (lambda _: translation(), ("train.best=accuracy",), ConfigError, "train.best"),
    "tracker": (lambda _: translation(), ("train.track=['trackio']",), RegardError, "not installed"),
    "between": (lambda _: translation(), ("train.residual_dtype=bfloat16",), ConfigError, "train.residual_dtype"),
    "context": (lambda folder: language_model(folder),
                ("model.position={kind='learned',length=16}",), ConfigError, "model.position.length"),
    "search": (lambda folder: language_model(folder),
               ("search={kind='greedy',max_length_ratio=2.0}",), ConfigError, "max_length_ratio"),
    "empty": (lambda folder: own_translation(folder, []), (), DataError, "valid.src"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_fail_later_is_refused_first_and_leaves_nothing(case: str, tmp_path: Path, monkeypatch):
    make, settings, error, said = REFUSED[case]
    if case == "tracker":
        monkeypatch.setitem(__import__("sys").modules, "trackio", None)
    tree = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(trainer.Trainer, "step", lambda self: pytest.fail("a step was made"))
    with pytest.raises(error, match=said):
        train(tmp_path, tree, *settings)
    assert [path for path in sorted(tmp_path.rglob("*")) if path not in before] == [tmp_path / "recipe.toml"]


def test_a_refused_start_leaves_nothing(tmp_path: Path):
    train(tmp_path, translation(1), out="first")
    for setting, said in (
        ("start.freeze=['nothing']", "start.freeze"),
        ("start.freeze_layers=9", "start.freeze_layers"),
    ):
        with pytest.raises(ConfigError, match=said):
            train(tmp_path, translation(1), f"model.from={tmp_path / 'first'}", setting)
        assert not (tmp_path / "runs").exists()


def test_an_error_in_the_first_step_leaves_nothing_and_in_a_later_one_everything(tmp_path: Path, monkeypatch):
    original, at = trainer.Trainer._next_inputs, [0]

    def fails(self: trainer.Trainer) -> list:
        if self.spent.steps == at[0]:
            raise ConfigError("model", "cannot compute this")
        return original(self)

    monkeypatch.setattr(trainer.Trainer, "_next_inputs", fails)
    with pytest.raises(ConfigError):
        train(tmp_path, translation(4))
    assert not (tmp_path / "runs").exists()
    at[0] = 2
    with pytest.raises(ConfigError):
        train(tmp_path, translation(4))
    assert (tmp_path / "runs" / "new" / "checkpoints" / "step-2").is_dir()


def test_files_of_others_stay_where_a_run_is_refused(tmp_path: Path):
    out = tmp_path / "runs" / "new"
    (out / "cache").mkdir(parents=True)
    (out / "notes.txt").write_text("mine")
    (out / "tokenizer.json").write_text("mine too")
    with pytest.raises(ConfigError):
        train(tmp_path, translation(), "train.residual_dtype=bfloat16")
    assert (out / "notes.txt").read_text() == "mine"
    assert (out / "tokenizer.json").read_text() == "mine too"
    assert not (out / "recipe.toml").exists()
    train(tmp_path, translation(1))
    assert (out / "notes.txt").read_text() == "mine"


def test_a_refused_second_run_leaves_the_first_alone(tmp_path: Path):
    train(tmp_path, translation(2))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*") if path.is_file()}
    with pytest.raises(RunError, match="a run is here already"):
        train(tmp_path, translation(2))
    with pytest.raises(ConfigError, match=r"train\.best"):
        train(tmp_path, translation(2), "train.best=nothing", resume=True)
    with pytest.raises(RunError, match="cannot resume with another model"):
        train(tmp_path, translation(2), "model.width=64", resume=True)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*") if path.is_file()}
    lock = tmp_path / "runs" / "new" / ".lock"
    assert before | {lock: 0} == after | {lock: 0}


def test_a_lock_whose_folder_was_removed_is_taken_anew(tmp_path: Path, monkeypatch):
    from regard.files import lock as locking

    original, removed = locking._open, []

    def opened(file: Path) -> int:
        descriptor = original(file)
        if not removed:
            removed.append(file.unlink())
        return descriptor

    monkeypatch.setattr(locking, "_open", opened)
    with RunLock(tmp_path / "run"), pytest.raises(RunError, match="is being trained"), RunLock(tmp_path / "run"):
        pytest.fail("two processes hold one lock")


def test_validation_pairs_beyond_the_positions_are_left_out_and_counted(tmp_path: Path):
    said: list[str] = []

    class Watching(Quiet):
        def say(self, sentence: str) -> None:
            said.append(sentence)

    tree = own_translation(tmp_path, ["word 3", "word " * 200])
    tree["model"] |= {"position": {"kind": "learned", "length": 24}}
    api.train(write_recipe(tmp_path, tree), out=tmp_path / "run", watcher=Watching())
    assert any(one.startswith("data.valid: 1 pair left out: source longer than 24 tokens (at ") for one in said)
    assert next(one for one in said if "left out" in one).endswith(":2)")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["split"] for line in lines if line["step"] == 3] == ["train", "valid"]


def test_training_pairs_beyond_the_positions_are_left_out_too(tmp_path: Path):
    tree = own_translation(tmp_path, ["word 3"], steps=40)
    longer = ["word " * 40] + [f"word {number}" for number in range(40)]
    tree["data"]["train"] = pairs(tmp_path, "train", longer)
    tree["model"] |= {"position": {"kind": "learned", "length": 24}}
    train(tmp_path, tree)
    assert (tmp_path / "runs" / "new" / "checkpoints" / "step-40").is_dir()


def test_linformer_takes_no_longer_texts_than_it_is_built_for(tmp_path: Path):
    tree = classification(tmp_path, steps=4)
    with (tmp_path / "reviews.tsv").open("a") as stream:
        stream.write("a film " * 40 + "\tpositive\n")
    tree["model"] = {"kind": "encoder", **TINY_MODEL, "attention": {"kind": "linformer", "length": 12, "projected": 4}}
    run = train(tmp_path, tree)
    assert run.longest == 12


@pytest.mark.parametrize("valid", [["word 3"], ["", ""], ["", "word 4", " "]])
def test_a_validation_of_one_pair_or_of_blank_ones_ends_no_run(valid: list[str], tmp_path: Path):
    train(tmp_path, own_translation(tmp_path, valid, best="bleu"))


def test_a_disk_without_room_for_a_checkpoint_is_refused(tmp_path: Path, monkeypatch):
    class Usage:
        total, free = 1 << 30, 1000

    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda _: Usage)
    with pytest.raises(RunError, match=r"a checkpoint takes about .* MiB and 0 MiB are free"):
        train(tmp_path, translation(1))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["curves", "model_card"])
def test_a_picture_or_card_that_cannot_be_written_fails_no_finished_run(name: str, tmp_path: Path, monkeypatch):
    def fails(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(conclusion, name, fails)
    assert train(tmp_path, translation(1)).step == 1
