"""Who speaks and how: one process of many, numbers that agree with their nouns."""

from pathlib import Path

import pytest

from regard import api
from regard.errors import counted
from regard.run.recipe import resolve_recipe


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 parts"), (1, "1 part"), (2, "2 parts"), (1024, "1,024 parts"), (1001, "1,001 parts")]
)
def test_nouns_agree_with_their_numbers(number: int, told: str):
    assert counted(number, "part") == told


@pytest.mark.parametrize("rank", ["0", "1"])
def test_only_the_first_process_says_how_training_ended(rank: str, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setattr(api, "train_run", lambda *_: "12 steps made")
    monkeypatch.setattr(api, "load", lambda folder: folder)
    monkeypatch.setattr(api, "conclusion", lambda run: ["best: step 12"])
    api.train(resolve_recipe({"train": {"device": "cpu", "precision": "float32"}}), out=tmp_path)
    said = f"12 steps made; the run is in {tmp_path}\n"
    assert (said in capsys.readouterr().err) == (rank == "0")
