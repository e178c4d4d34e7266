"""Who speaks and how: one process of many, numbers that agree with their nouns, reasons that are given once."""

from pathlib import Path

import pytest
import torch

from regard import api
from regard.errors import counted
from regard.run import training
from regard.run.recipe import resolve_recipe
from regard.train.precision import Precision


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
    api.train(resolve_recipe({"train": {"device": "cpu", "precision": "float32"}}), out=tmp_path)
    said = f"12 steps made; the run is in {tmp_path}\n"
    assert (said in capsys.readouterr().err) == (rank == "0")


def test_a_reason_for_a_format_is_told_once(monkeypatch):
    monkeypatch.setattr(training, "TOLD", set())
    first = Precision(torch.device("cpu"), torch.float32, "float32, as this processor refuses more")
    other = Precision(torch.device("cpu"), torch.float32, "float32, as set")
    assert [training._reason(one) for one in (first, first, other, first)] == [
        "float32, as this processor refuses more", "float32", "float32, as set", "float32",
    ]  # fmt: skip
