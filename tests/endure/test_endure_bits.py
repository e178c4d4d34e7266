"""One bit flipped or the tail cut, in every file of a checkpoint of a real run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TRIALS = Path(__file__).with_name("bit_trials.py")


def trials(folder: Path, number: int, resumed: int) -> dict:
    command = [sys.executable, str(TRIALS), str(folder), str(number), str(resumed)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_damage_is_named_and_the_checkpoint_before_it_used(tmp_path: Path):
    found = trials(tmp_path, number=15, resumed=1)
    assert found["problems"] == []
    assert found["files"] == [
        "manifest.json", "model.safetensors", "moving.safetensors", "optimizer.safetensors", "state.json"
    ]  # fmt: skip


@pytest.mark.slow
def test_two_hundred_damages(tmp_path: Path):
    assert trials(tmp_path, number=200, resumed=20)["problems"] == []
