import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from regard.errors import Failure, RunError
from regard.files import lock as lock_module
from regard.files.lock import RunLock
from regard.files.run_folder import LOCK_FILE

HOLD = """
import sys, time
from pathlib import Path
from regard.files.lock import RunLock
with RunLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """A process that holds the lock until it is killed."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_second_process_is_refused_by_the_name_of_the_first(tmp_path):
    run = tmp_path / "runs" / "x"
    process = holder(run)
    try:
        with pytest.raises(RunError) as caught, RunLock(run):
            pass
        wanted = f"{run} is being trained by process {process.pid} on {os.uname().nodename} since 2"
        assert str(caught.value).startswith(wanted)
        assert str(caught.value).endswith("; wait, or choose another --out")
    finally:
        end(process)


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path):
    end(holder(tmp_path))
    assert (tmp_path / LOCK_FILE).read_text()
    with RunLock(tmp_path):
        assert f'"pid": {os.getpid()}' in (tmp_path / LOCK_FILE).read_text()
    assert (tmp_path / LOCK_FILE).read_text() == ""


def test_one_after_the_other_and_in_two_folders(tmp_path):
    for _ in range(2):
        with RunLock(tmp_path / "a"), RunLock(tmp_path / "b"):
            pass


def test_an_error_inside_frees_the_lock(tmp_path):
    with pytest.raises(ZeroDivisionError), RunLock(tmp_path):
        _ = 1 / 0
    with RunLock(tmp_path):
        pass


def test_another_thread_is_refused(tmp_path):
    refused: list[RunError] = []

    def enter() -> None:
        try:
            with RunLock(tmp_path):
                pass
        except RunError as error:
            refused.append(error)

    with RunLock(tmp_path):
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
    assert len(refused) == 1


def test_of_several_ranks_only_the_first_locks(tmp_path):
    with RunLock(tmp_path, rank=0), RunLock(tmp_path, rank=1), RunLock(tmp_path, rank=2):
        assert f'"pid": {os.getpid()}' in (tmp_path / LOCK_FILE).read_text()
    with RunLock(tmp_path, rank=1):
        assert (tmp_path / LOCK_FILE).read_text() == ""


FORK = """
import os, sys, time
from pathlib import Path
from regard.files.lock import RunLock
with RunLock(Path(sys.argv[1])):
    child = os.fork()
    if child == 0 and sys.argv[2] == "outlive":
        os.write(1, b"0\\n")  # it runs, so it has let go of what it inherited; in one go, as the parent writes too
        time.sleep(60)
    if child == 0:
        sys.exit()           # leaves the block in the child, which must not free the parent's lock
    if sys.argv[2] == "leave":
        os.waitpid(child, 0)
    os.write(1, f"{child}\\n".encode())
    time.sleep(60)
"""


@pytest.mark.parametrize("child_does", ["outlive", "leave"])
def test_children_neither_keep_nor_free_the_lock(tmp_path, child_does):
    command = [sys.executable, "-c", FORK, str(tmp_path), child_does]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = 2 if child_does == "outlive" else 1
    child = max(int(process.stdout.readline()) for _ in range(lines))
    try:
        with pytest.raises(RunError, match=f"process {process.pid} "), RunLock(tmp_path):
            pass
        process.kill()
        process.wait()
        with RunLock(tmp_path):
            pass
    finally:
        if child_does == "outlive":
            os.kill(child, signal.SIGKILL)
        process.stdout.close()
        process.wait()


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 5000, b'{"pid": 1}'])
def test_a_record_that_cannot_be_read_does_not_matter(tmp_path, record):
    with RunLock(tmp_path):
        (tmp_path / LOCK_FILE).write_bytes(record)
        with pytest.raises(RunError, match=r"is being trained by another process"), RunLock(tmp_path):
            pass
    (tmp_path / LOCK_FILE).write_bytes(record)
    with RunLock(tmp_path):
        pass


def test_a_folder_that_cannot_be_one_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot be written"), RunLock(tmp_path / "file"):
        pass


def test_a_file_system_without_locks_is_a_sentence(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(lock_module.fcntl, "flock", refuse)
    with pytest.raises(RunError, match=r"cannot lock files \(Function not implemented\)"), RunLock(tmp_path):
        pass


def test_a_full_disk_is_a_failure_and_frees_the_lock(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(lock_module.os, "pwrite", refuse)
        with pytest.raises(Failure, match="the lock could not be written"), RunLock(tmp_path):
            pass
    with RunLock(tmp_path):
        pass


RACE = """
import sys, time
from pathlib import Path
from regard.errors import RunError
from regard.files.lock import RunLock
folder, until, got = Path(sys.argv[1]), time.monotonic() + 0.7, 0
while time.monotonic() < until:
    try:
        with RunLock(folder):
            (folder / "inside").touch(exist_ok=False)   # fails if two are inside
            (folder / "inside").unlink()
            got += 1
    except RunError:
        pass
print(got)
"""


def test_two_that_hurry_are_never_inside_together(tmp_path):
    command = [sys.executable, "-c", RACE, str(tmp_path)]
    racers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for racer in racers:
        out, err = racer.communicate()
        assert racer.returncode == 0, err
        assert int(out) > 0
