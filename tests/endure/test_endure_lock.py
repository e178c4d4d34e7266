"""Two runs, one folder: the second is refused; what a dead process left locked is taken over."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from endured import tiny_recipe, train

from regard.errors import RunError
from regard.files.run_folder import LOCK_FILE


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_run_in_the_same_process_is_refused(tmp_path: Path, resume: bool):
    refused: list[str] = []

    def second() -> None:
        with pytest.raises(RunError) as caught:
            train(tiny_recipe(4), tmp_path / "run", resume=resume)
        refused.append(str(caught.value))

    train(tiny_recipe(4), tmp_path / "run", {2: second})
    assert refused[0].startswith(f"{tmp_path / 'run'} is being trained by process {os.getpid()} on ")


def test_the_lock_that_a_dead_process_left_is_taken_over(tmp_path: Path):
    out = tmp_path / "run"
    dead = subprocess.Popen(["true"])
    dead.wait()
    out.mkdir()
    record = {"pid": dead.pid, "host": os.uname().nodename, "since": "2026-01-01 00:00"}
    (out / LOCK_FILE).write_text(json.dumps(record))
    train(tiny_recipe(2), out)
    assert (out / LOCK_FILE).read_text() == ""
