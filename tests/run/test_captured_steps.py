"""Training steps as CUDA graphs: the same steps as without, whatever batches are padded with.

Without a GPU the same function computes each step from static batches and scalars, only not as a graph.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_runs import classification, language_model, translation
from test_training import train

from regard.errors import ConfigError, Failure
from regard.train.log import read_metrics
from regard.train.step import TrainingStep

KINDS = ["bucketed", "packed", "consistent", "muon", "stream", "labels", "learned", "lstm"]


def tree_of(kind: str, folder: Path) -> dict[str, Any]:
    """A small run without dropout, whose draws depend on the padding."""
    makers = {"stream": language_model, "labels": classification}
    tree = makers[kind](folder) if kind in makers else translation()
    tree["model"] = {**tree["model"], "dropout": 0.0}
    tree["train"] = {**tree["train"], "log_every": 1, "moving_average": {"decay": 0.9}}
    if kind in ("packed", "consistent", "learned"):
        tree["data"] = {**tree["data"], "batching": "packed"}
    if kind == "consistent":
        tree["task"] = {"kind": "translation", "consistency": 2.0}
        tree["model"]["dropout"] = {"feedforward": 1e-9}
    if kind == "muon":
        tree["train"]["optimiser"] = {"kind": "muon", "weight_decay": 0.1}
    if kind == "learned":
        tree["model"]["position"] = {"kind": "learned", "length": 40}
    if kind == "lstm":
        tree["model"] = {"kind": "lstm-seq2seq", "width": 32, "depth": 1, "dropout": 0.0}
    for split, source in tree["data"].items():
        if isinstance(source, dict) and "file" in source:
            tree["data"][split] = {**source, "file": str(folder / source["file"])}
    return tree


def run(tree: dict[str, Any], out: Path, **settings: Any) -> tuple[list[float], dict[str, torch.Tensor]]:
    train({**tree, "train": {**tree["train"], **settings}}, out)
    losses = [line["loss"] for line in read_metrics(out / "metrics.jsonl") if line.get("split") == "train"]
    return losses, load_file(out / "checkpoints" / "last" / "model.safetensors")


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a CPU take the steps of a graph."""
    monkeypatch.setattr(TrainingStep, "_why_not_captured", lambda _: "")


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_padded_batches_are_those_of_the_batches(kind: str, tmp_path: Path):
    tree = tree_of(kind, tmp_path)
    plain, weights = run(tree, tmp_path / "plain")
    losses, others = run(tree, tmp_path / "graph", cuda_graph=True)
    assert losses == pytest.approx(plain, rel=2e-4)
    for name, weight in weights.items():
        if not name.endswith("key.bias"):  # its gradient is zero but for rounding, which Adam scales up
            torch.testing.assert_close(others[name], weight, rtol=2e-2, atol=5e-4, msg=name)


@pytest.mark.usefixtures("anywhere")
def test_a_step_that_is_not_finite_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tree = tree_of("bucketed", tmp_path)
    compute = TrainingStep._compute_step

    def broken(self: TrainingStep, inputs: Any, scalars: Any) -> torch.Tensor:
        if self.spent.steps == 6:
            scalars.count.fill_(float("nan"))
        return compute(self, inputs, scalars)

    monkeypatch.setattr(TrainingStep, "_compute_step", broken)
    with pytest.raises(Failure, match=r"step 7: the loss is nan .*the weights were not changed"):
        run(tree, tmp_path / "run", cuda_graph=True)
    run(tree, tmp_path / "whole", steps=6)
    at_six = load_file(tmp_path / "run" / "checkpoints" / "last" / "model.safetensors")
    for name, weight in load_file(tmp_path / "whole" / "checkpoints" / "last" / "model.safetensors").items():
        if not name.endswith("key.bias"):
            torch.testing.assert_close(at_six[name], weight, rtol=2e-2, atol=5e-4, msg=name)


def test_a_cpu_has_no_cuda_graphs(tmp_path: Path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ConfigError, match=r"train\.cuda_graph: steps cannot be CUDA graphs here: there is no GPU; "):
        run(tree_of("bucketed", tmp_path), tmp_path / "run", cuda_graph=True)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compiled", ["off", "on"])
def test_a_graph_computes_the_same_bits(kind: str, compiled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With dropout: a graph draws anew at each replay, what the same step draws without a graph."""
    tree = tree_of(kind, tmp_path)
    tree["model"] = {**tree["model"], "dropout": 0.1}
    settings = {"cuda_graph": True, "compile": compiled, "steps": 24, "precision": "auto"}
    _, weights = run(tree, tmp_path / "graph", **settings)
    monkeypatch.setattr("regard.train.cuda_graph.MOST_GRAPHS", 0)
    _, others = run(tree, tmp_path / "eager", **settings)
    for name, weight in weights.items():
        assert torch.equal(others[name], weight), name


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["bucketed", "packed", "muon", "stream"])
def test_a_resumed_graph_computes_the_same_bits(kind: str, tmp_path: Path):
    tree = tree_of(kind, tmp_path)
    tree["model"] = {**tree["model"], "dropout": 0.1}
    settings = {"cuda_graph": True, "precision": "auto", "save_every": 8}
    _, weights = run(tree, tmp_path / "whole", steps=24, **settings)
    run(tree, tmp_path / "parts", steps=8, **settings)
    longer = {**tree, "train": {**tree["train"], **settings, "steps": 24}}
    train(longer, tmp_path / "parts", resume=True)
    others = load_file(tmp_path / "parts" / "checkpoints" / "last" / "model.safetensors")
    for name, weight in weights.items():
        assert torch.equal(others[name], weight), name
