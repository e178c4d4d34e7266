"""What a machine does to a process that saves: no room, no rights, no power, a kill."""

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from checkpoint_cases import names, save_step, tensors_of

from regard.errors import Failure, RunError
from regard.files import atomic as durable
from regard.train import checkpoint as checkpoint_module
from regard.train.checkpoint import latest, load, prune, save, size_on_disk

TRIALS = Path(__file__).with_name("saving_trials.py")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A place for checkpoints, with a disk that need not be waited for."""
    monkeypatch.setattr(durable.os, "fsync", lambda descriptor: None)
    return tmp_path / "checkpoints"


class TestRefusalsOfTheDisk:
    CODES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.EFBIG)

    @pytest.mark.parametrize("code", CODES)
    @pytest.mark.parametrize("operation", ["fsync", "rename", "mkdir"])
    def test_the_one_before_stays_whole_and_the_bytes_are_said(self, folder, monkeypatch, operation, code):
        save_step(folder, 1)
        before = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

        def refuse(*_: object, **__: object) -> None:
            raise OSError(code, os.strerror(code))

        with monkeypatch.context() as patch:
            patch.setattr(durable.os, operation, refuse)
            with pytest.raises(Failure) as caught:
                save_step(folder, 2)
        needed = size_on_disk({"model": tensors_of(2), "optimizer": {"moment": tensors_of(2)["layer.weight"]}})
        message = str(caught.value)
        assert message.startswith(f"{folder}: the checkpoint of step 2 could not be written ({os.strerror(code)});")
        assert f"needs {needed + len(state_text(2)):,} bytes and " in message
        assert "are free there" in message
        assert {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()} == before
        assert latest(folder) == (folder / "step-1", [])

    def test_too_little_room_is_noticed_before_anything_is_written(self, folder, monkeypatch):
        save_step(folder, 1)
        usage = shutil.disk_usage(folder)._replace(free=1000)
        monkeypatch.setattr(durable.shutil, "disk_usage", lambda _: usage)
        monkeypatch.setattr(checkpoint_module, "save_file", lambda *_, **__: pytest.fail("it wrote"))
        with pytest.raises(Failure, match="and 1,000 are free there"):
            save_step(folder, 2)
        assert names(folder) == ["last", "step-1"]

    def test_an_interrupt_while_saving_leaves_nothing_aside(self, folder, monkeypatch):
        save_step(folder, 1)

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(durable.os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            save_step(folder, 2)
        assert names(folder) == ["last", "step-1"]

    def test_a_limit_on_file_sizes_is_like_a_full_disk(self, tmp_path):
        folder = tmp_path / "checkpoints"
        save_step(folder, 1)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
        try:
            with pytest.raises(Failure, match=r"checkpoint of step 2 could not be written \(File too large\)"):
                save(folder, 2, {"w": torch.zeros(5000)}, {}, {})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert names(folder) == ["last", "step-1"]
        assert latest(folder) == (folder / "step-1", [])

    def test_a_disk_that_is_full_indeed(self, tmp_path):
        command = f"mount -t tmpfs -o size=400k tmpfs {tmp_path} && exec {sys.executable} {TRIALS} full {tmp_path}"
        if not can_mount(tmp_path):
            pytest.skip("mounting a small disk is not permitted here")
        got = run(["unshare", "-rm", "sh", "-c", command])
        wanted = "checkpoint of step 2 could not be written (No space left on device); it needs 289,968 bytes and "
        assert wanted in got["before"]
        assert wanted in got["during"]
        assert got["found"] == [1, 0]
        assert got["names"] == ["last", "step-1"]

    def test_rights_that_are_lost_are_like_a_full_disk_when_saving_and_a_sentence_when_reading(self):
        place = Path(tempfile.mkdtemp())
        place.chmod(0o755)
        try:
            for step in (1, 2, 3):
                save_step(place, step)
            with without_rights(place, 0o555):
                with pytest.raises(
                    Failure, match=r"\(Permission denied\); it needs [0-9,]+ bytes and [0-9,]+ are free"
                ):
                    save_step(place, 4)
                with pytest.raises(Failure, match="removal of old checkpoints could not be written"):
                    prune(place)
            with without_rights(place, 0):
                with pytest.raises(RunError, match=r"cannot be read \(Permission denied\)"):
                    latest(place)
                with pytest.raises(RunError, match=r"cannot be read \(Permission denied\)"):
                    load(place / "step-3")
            with without_rights(place / "step-3", 0), pytest.raises(RunError, match="cannot be read"):
                latest(place)
            assert latest(place) == (place / "step-3", [])
            assert names(place) == ["last", "step-1", "step-2", "step-3"]
        finally:
            shutil.rmtree(place)


@contextmanager
def without_rights(folder: Path, mode: int) -> Iterator[None]:
    """Rights taken away for a while; from the superuser, by being someone else."""
    before, superuser = folder.stat().st_mode, os.geteuid() == 0
    folder.chmod(mode)
    if superuser:
        os.seteuid(65534)
    try:
        yield
    finally:
        if superuser:
            os.seteuid(0)
        folder.chmod(before)


def state_text(step: int) -> str:
    return json.dumps({"step": step, "state": {}}, indent=1)


def can_mount(place: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", str(place)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def run(command: list[str]) -> dict:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class TestPowerCuts:
    def test_everything_is_on_the_disk_before_its_name_is_and_then_the_name(self, folder, monkeypatch):
        calls: list[str] = []
        rename = Path.rename

        def note_rename(path: Path, target: Path) -> Path:
            calls.append(f"rename {path.name} {target.name}")
            return rename(path, target)

        def note_sync(descriptor: int) -> None:
            calls.append(f"sync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).relative_to(folder.parent)}")

        monkeypatch.setattr(durable.os, "fsync", note_sync)
        monkeypatch.setattr(checkpoint_module.Path, "rename", note_rename)
        save_step(folder, 1)
        files = ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json", ""]
        written = [f"sync {Path('checkpoints/.step-1.saving') / file}" for file in files]
        assert calls == [*written, "rename .step-1.saving step-1", "sync checkpoints", "sync checkpoints"]


class TestKills:
    def test_killed_at_every_operation_and_at_random_moments_nothing_is_lost(self, tmp_path):
        got = run([sys.executable, str(TRIALS), "kill", str(tmp_path), "6"])
        assert min(got["operations"]) > 20

    @pytest.mark.slow
    def test_killed_at_a_hundred_random_moments_nothing_is_lost(self, tmp_path):
        got = run([sys.executable, str(TRIALS), "kill", str(tmp_path), "100"])
        assert got["saved"] > 20
        assert got["aside"] > 30
