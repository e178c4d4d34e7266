"""A process of a team that is killed or frozen: noticed, started again, and the run ends as if nothing had been."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch.distributed as dist
from endured import command, losses, tiny_tree

from regard.config import dump_toml
from regard.train.parallel.watchdog import INTERVAL, MISSED, Watchdog


class TestWatchdog:
    """The counting itself, on a store within this process."""

    def watchdogs(self, size: int, interval: float = 0.02) -> tuple[list[Watchdog], list[str], threading.Event]:
        store, said, left = dist.HashStore(), [], threading.Event()

        def leave(sentence: str) -> None:
            said.append(sentence)
            left.set()

        return [Watchdog(rank, size, store=store, interval=interval, leave=leave) for rank in range(size)], said, left

    def test_nobody_leaves_while_all_count_nor_when_one_has_ended_well(self):
        (first, second, third), said, left = self.watchdogs(3)
        with first, second:
            with third:
                time.sleep(0.1)
            assert not left.wait(0.02 * MISSED * 3)
        assert said == []

    def test_silence_is_noticed_by_name(self):
        (first, second), said, left = self.watchdogs(2)
        with first:
            second._store.set("1", "7")  # it counted up to here, and then stood still
            assert left.wait(30)
        assert said[0].startswith("process 1 of 2 has made no progress for 0.16 s; process 0 exits, so that torchrun")

    def test_one_that_has_not_begun_is_waited_for(self):
        (first, _), said, left = self.watchdogs(2)
        with first:
            assert not left.wait(0.02 * MISSED * 3)
        assert said == []

    def test_alone_there_is_nothing_to_count(self):
        with Watchdog(0, 1) as alone:
            assert not alone._thread.is_alive()

    def test_the_target_of_a_minute_is_kept(self):
        assert INTERVAL * (MISSED + 2) <= 60


def launch(folder: Path, out: Path, processes: int, *more: str, **train: object) -> subprocess.Popen[str]:
    recipe = folder / f"{out.name}-{processes}.toml"
    tree = tiny_tree(**train)
    recipe.write_text(dump_toml({**tree, "model": {**tree["model"], "dropout": 0.0}}))
    words = command(recipe, out, "--resume")[1:]
    run = ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "--max-restarts=3", *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-m", *run, *words], stderr=subprocess.PIPE, text=True, env=environment)


def rank_processes(launcher: int) -> dict[int, int]:
    """The processes that torchrun started, by rank."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        ranks = [value.split(b"=")[1] for value in variables if value.startswith(b"RANK=")]
        if parent == launcher and ranks:
            found[int(ranks[0])] = int(entry.name)
    return found


def wait_for_checkpoint(out: Path, process: subprocess.Popen[str]) -> None:
    while process.poll() is None and not list(out.glob("checkpoints/step-*")):
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()[1]


def ends(process: subprocess.Popen[str], seconds: float = 240) -> str:
    _, said = process.communicate(timeout=seconds)
    assert process.returncode == 0, said
    return said


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run in two processes, left alone."""
    folder = tmp_path_factory.mktemp("whole")
    ends(launch(folder, folder / "run", 2, steps=400, save_every=20, log_every=10))
    return folder / "run"


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_is_noticed_and_all_go_on_after_a_restart(tmp_path: Path, whole: Path, rank: int):
    process = launch(tmp_path, tmp_path / "run", 2, steps=400, save_every=20, log_every=10)
    wait_for_checkpoint(tmp_path / "run", process)
    before = rank_processes(process.pid)
    os.kill(before[rank], signal.SIGKILL)
    begun = time.monotonic()
    while set(rank_processes(process.pid).values()) & set(before.values()):
        time.sleep(0.05)
    assert time.monotonic() - begun < 60
    ends(process)
    assert losses(tmp_path / "run") == pytest.approx(losses(whole), rel=1e-6)


@pytest.mark.slow
def test_a_frozen_process_is_noticed_within_a_minute_and_all_go_on(tmp_path: Path, whole: Path):
    process = launch(tmp_path, tmp_path / "run", 2, steps=400, save_every=20, log_every=10)
    wait_for_checkpoint(tmp_path / "run", process)
    time.sleep(2 * INTERVAL)
    before = rank_processes(process.pid)
    os.kill(before[1], signal.SIGSTOP)
    begun = time.monotonic()
    while Path(f"/proc/{before[0]}").exists():
        time.sleep(0.05)
        assert time.monotonic() - begun < 60, "it was not noticed"
    said = ends(process)
    assert "process 1 of 2 has made no progress for 40 s" in said
    assert losses(tmp_path / "run") == pytest.approx(losses(whole), rel=1e-6)


@pytest.mark.slow
def test_four_processes_go_on_as_two(tmp_path: Path, whole: Path):
    process = launch(tmp_path, tmp_path / "run", 4, steps=400, save_every=20, log_every=10)
    wait_for_checkpoint(tmp_path / "run", process)
    for pid in (process.pid, *rank_processes(process.pid).values()):
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    ends(launch(tmp_path, tmp_path / "run", 2, steps=400, save_every=20, log_every=10))
    assert losses(tmp_path / "run") == pytest.approx(losses(whole), rel=1e-4)
