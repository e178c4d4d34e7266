"""A disk that is full, a folder that is read-only, rights that are lost: said, and the checkpoint before is whole."""

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from endured import differences, tiny_recipe, train

from regard.data import store_writer as store_writing
from regard.errors import Failure, RegardError, RunError
from regard.files import atomic as durable
from regard.train import log
from regard.train.checkpoint import latest

TRIALS = Path(__file__).with_name("disk_trials.py")


def can_mount(place: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    mount = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", str(place)]
    return subprocess.run(mount, capture_output=True).returncode == 0


def test_a_disk_that_is_full_or_read_only_while_training(tmp_path: Path):
    if not can_mount(tmp_path):
        pytest.skip("mounting a small disk is not permitted here")
    script = f"mount -t tmpfs -o size=12m tmpfs {tmp_path} && exec {sys.executable} {TRIALS} {tmp_path}"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == ["full after step 3", "full after step 4", "read-only after step 3", "read-only after step 4"]
    for name, trial in found.items():
        words = "No space left on device" if "full" in name else "Read-only file system"
        assert f"({words}); it needs " in trial["said"], name
        assert trial | {"said": ""} == {
            "code": 1, "said": "", "traceback": False, "problems": [], "differences": [], "checkpoint": "step-2"
        }, name  # fmt: skip


CODES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("where", ["mkdir", "fsync", "rename"])
def test_any_refusal_while_saving_leaves_the_one_before(tmp_path: Path, monkeypatch, code: int, where: str):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        after = {3: lambda: patch.setattr(durable.os, where, refuse)}
        with pytest.raises(Failure, match=r"it needs [0-9,]+ bytes and [0-9,]+ are free") as caught:
            train(tiny_recipe(6), tmp_path / "run", after)
    assert os.strerror(code) in str(caught.value)
    assert latest(tmp_path / "run" / "checkpoints") == (tmp_path / "run" / "checkpoints" / "step-2", [])


@pytest.mark.parametrize("code", CODES)
def test_a_line_of_metrics_that_cannot_be_written_stops_the_run(tmp_path: Path, monkeypatch, code: int):
    def refuse(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        after = {3: lambda: patch.setattr(log.os, "write", refuse)}
        with pytest.raises(Failure, match=r"a line of metrics.jsonl could not be written .*; it needs [0-9]+ bytes"):
            train(tiny_recipe(6), tmp_path / "run", after)


@pytest.mark.parametrize("code", CODES)
def test_a_store_or_a_beginning_that_cannot_be_written_is_a_sentence(tmp_path: Path, monkeypatch, code: int):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(store_writing.ArrayFile, "write", refuse)
        with pytest.raises(Failure, match=r"needs more than the [0-9,]+ bytes that were written, and [0-9,]+ are free"):
            train(tiny_recipe(2), tmp_path / "store")
    with monkeypatch.context() as patch:
        patch.setattr("regard.tasks.base.Vocabularies.save", refuse)
        with pytest.raises(Failure, match=r"the vocabulary could not be written .*needs [0-9,]+ bytes"):
            train(tiny_recipe(2), tmp_path / "beginning")
    assert not (tmp_path / "beginning" / "recipe.toml").exists()
    train(tiny_recipe(2), tmp_path / "beginning")


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder that others may enter, as pytest's may not be."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


def losing_rights(folder: Path, mode: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """One function takes the rights to a folder away (the superuser becomes someone else), one gives them back."""
    superuser = os.geteuid() == 0
    before: dict[str, int] = {}

    def take() -> None:
        before["mode"] = folder.stat().st_mode
        folder.chmod(mode)
        if superuser:
            os.seteuid(65534)

    def give_back() -> None:
        if superuser:
            os.seteuid(0)
        folder.chmod(before["mode"])

    return take, give_back


def test_rights_that_are_lost_while_training(open_place: Path):
    recipe, out = tiny_recipe(6), open_place / "run"
    train(recipe, open_place / "whole")
    take, give_back = losing_rights(out / "checkpoints", 0o555)
    try:
        with pytest.raises(Failure, match=r"\(Permission denied\); it needs [0-9,]+ bytes and [0-9,]+ are free"):
            train(recipe, out, {3: take})
    finally:
        give_back()
    assert latest(out / "checkpoints") == (out / "checkpoints" / "step-2", [])
    train(recipe, out, resume=True)
    assert differences(out, open_place / "whole") == []


def test_a_folder_that_may_not_be_written_is_refused_at_once(open_place: Path):
    (open_place / "runs").mkdir()
    take, give_back = losing_rights(open_place / "runs", 0o555)
    take()
    try:
        with pytest.raises(RunError, match=r"cannot be written \(Permission denied\); choose another --out"):
            train(tiny_recipe(2), open_place / "runs" / "x")
    finally:
        give_back()


def test_a_file_that_nothing_expected_to_fail_is_one_sentence_too(monkeypatch, capsys):
    from regard.cli import main

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error", "some/file")

    monkeypatch.setattr("regard.api.train", refuse)
    monkeypatch.setattr("sys.argv", ["regard", "train", "x.toml"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    assert capsys.readouterr().err == "regard: some/file: Input/output error\n"
    assert not issubclass(OSError, RegardError)
