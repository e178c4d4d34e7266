"""A summariser's whole way: trained, run by either engine, sent away and fetched back, with the same summaries."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard import api
from regard.ctranslate2.model_folder import ConvertedModel
from regard.run import Run
from regard.run.ctranslate2_conversion import convert
from regard.run.recipe import resolve_recipe

TEXT = "Anna saw the old cat. The cat slept! Where is the street? It was too wide. The dog sleeps because it is tired."
STREET = {"train": {"street": "train", "limit": 300}, "valid": {"street": "valid", "limit": 20}, "max_length": 24}
TRAIN = {"steps": 40, "tokens_per_batch": 512, "save_every": 40, "precision": "float32", "compile": "off",
         "schedule": {"kind": "constant", "lr": 5e-3}}  # fmt: skip


class Quiet:
    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **settings: None


@pytest.fixture(scope="module", params=["encoder-decoder", "decoder"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    tree = {
        "task": {"kind": "summarisation", "input_tokens": 12},
        "data": STREET,
        "tokenizer": {"kind": "bpe", "size": 400},
        "model": {"kind": request.param, "width": 32, "depth": 1, "heads": 2, "dropout": 0.0},
        "search": {"kind": "greedy", "max_length": 20},
        "train": TRAIN,
    }
    folder = tmp_path_factory.mktemp("journey") / "run"
    return api.train(resolve_recipe(tree), out=folder, watcher=Quiet())  # type: ignore[arg-type]


def test_out_and_in_again(run: Run, tmp_path: Path) -> None:
    found = api.export(run, "huggingface", tmp_path / "out", examples=8)
    assert found.examples > 1  # those whose summaries fit
    assert found.identical == 1.0
    back = api.import_run(tmp_path / "out", tmp_path / "back")
    assert back.recipe.task == run.recipe.task
    search = run.recipe.usual_search
    assert api.translate(back, [TEXT, ""], search) == api.translate(run, [TEXT, ""], search)


def test_the_command_line_writes_the_same_with_both_engines(run: Run) -> None:
    pytest.importorskip("ctranslate2")
    made = ConvertedModel.read(convert(run.folder, "float32"))
    assert (made.task, made.input_tokens, made.prompted) == (
        "summarisation", 12, run.recipe.model.shape == "decoder",
    )  # fmt: skip
    words = [sys.executable, "-m", "regard", "translate", str(run.folder), "--json", "-v", "--engine"]
    fast, slow = (
        subprocess.run([*words, engine], input=f"{TEXT}\n\n", capture_output=True, text=True, check=True)
        for engine in ("auto", "torch")
    )
    assert fast.stderr.startswith("regard: engine ctranslate2 (float32): installed, and its greedy text is torch's\n")
    for done in (fast, slow):
        assert "1 of 2 texts cut at task.input_tokens" in done.stderr
    rows = [[json.loads(line)["outputs"][0] for line in done.stdout.splitlines()] for done in (fast, slow)]
    for mine, other in zip(*rows, strict=True):
        assert mine["score"] == pytest.approx(other["score"], abs=1e-4)
        assert {**mine, "score": 0, "token_logprobs": 0} == {**other, "score": 0, "token_logprobs": 0}
    assert rows[0][0]["unread"] > 0
