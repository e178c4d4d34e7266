"""One model on one, two or four processes: the same losses, the same checkpoints, and less to hold for each."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from parallel_trials import HELD, Counting, Silent
from run_on_paper import held, on_paper
from safetensors.torch import load_file

from regard.errors import ConfigError
from regard.models import DecoderConfig
from regard.models.recurrent.seq2seq import Seq2SeqConfig
from regard.nn.layout import Sequences
from regard.run import trainer, training
from regard.run.recipe import resolve_recipe
from regard.train.log import read_metrics
from regard.train.parallel.model import (
    blocks_of,
    checkpoint_blocks,
    choose_parallel,
    outside_blocks,
    refuse_none,
    refuse_scalars,
)
from regard.train.parallel.state import copy_full, gather_full, local_bytes

TRIALS = Path(__file__).with_name("parallel_trials.py")
MODEL = {"kind": "encoder-decoder", "width": 32, "depth": 2, "heads": 2, "dropout": 0.0}


@pytest.fixture(scope="module", autouse=True)
def no_group_stays():
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def recipe(steps: int = 6, model: dict[str, Any] | None = None, **train: Any) -> dict[str, Any]:
    return {
        "task": "translation",
        "data": {"train": {"street": "train", "limit": 120}, "valid": {"street": "valid", "limit": 20}},
        "tokenizer": {"kind": "bpe", "size": 400},
        "model": {**MODEL, **(model or {})},
        "train": {"steps": steps, "tokens_per_batch": 256, "save_every": 3, "log_every": 1, "precision": "float32",
                  "schedule": {"kind": "constant", "lr": 3e-3}, **train},
    }  # fmt: skip


def here(tree: dict[str, Any], out: Path, resume: bool = False) -> Path:
    training.train_run(resolve_recipe(tree), out, Silent(), resume)
    return out


def losses(folder: Path) -> list[float]:
    return [line["loss"] for line in read_metrics(folder / "metrics.jsonl") if "split" in line]


def course(folder: Path) -> list[tuple[int, str, int]]:
    lines = read_metrics(folder / "metrics.jsonl")
    return [(line["step"], line["split"], line["tokens"]) for line in lines if "split" in line]


def launched(trials: dict[str, list[dict[str, Any]]], out: Path, *options: str) -> subprocess.Popen[str]:
    out.mkdir(exist_ok=True)
    file = out / f"{len(list(out.iterdir()))}.json"
    file.write_text(json.dumps(trials))
    words = [sys.executable, "-m", "torch.distributed.run", *options, str(TRIALS), str(file), str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)


def ended_well(process: subprocess.Popen[str]) -> None:
    _, said = process.communicate(timeout=500)
    assert process.returncode == 0, said[-4000:]


def tell(folder: Path, rank: int) -> dict[str, int]:
    return json.loads((folder / f"held-{rank}.json").read_text())


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return here(recipe(), tmp_path_factory.mktemp("alone") / "run")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two processes, which stop half-way and go on."""
    out = tmp_path_factory.mktemp("pair")
    trials = {"fsdp": [recipe(3, parallel="fsdp"), recipe(6, parallel="fsdp")]}
    ended_well(launched(trials, out, "--standalone", "--nproc-per-node=2"))
    return out / "fsdp"


# The setting


def test_what_auto_chooses():
    assert choose_parallel("auto", 1, 10**12, 10**9) == "none"
    assert choose_parallel("auto", 8, 10**6, None) == "ddp"
    assert choose_parallel("auto", 8, 10**9, 80 * 10**9) == "ddp"
    assert choose_parallel("auto", 8, 3 * 10**9, 80 * 10**9) == "fsdp"
    assert choose_parallel("ddp", 8, 3 * 10**9, 80 * 10**9) == "ddp"
    assert choose_parallel("ddp", 1, 1) == "none"
    assert choose_parallel("fsdp", 1, 1) == "fsdp"


def test_none_refuses_company():
    refuse_none("none", 1)
    with pytest.raises(ConfigError, match=r"train.parallel: none trains in one process, and torchrun has started 4"):
        refuse_none("none", 4)


def test_what_cannot_be_cut_up_is_refused_by_name(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"train.optimiser: adafactor .* train.parallel=ddp"):
        here(recipe(parallel="fsdp", optimiser="adafactor"), tmp_path / "run")
    twice = {
        "task": {"kind": "classification", "adversarial": 0.2},
        "data": {"train": {"file": str(tmp_path / "reviews.tsv"), "text": 0, "label": 1}},
        "tokenizer": "word",
        "model": {"kind": "encoder", "width": 16, "depth": 1, "heads": 2},
        "train": {"steps": 1, "parallel": "fsdp", "device": "cpu"},
    }
    (tmp_path / "reviews.tsv").write_text("".join(f"good {n}\tyes\nbad {n}\tno\n" for n in range(30)))
    with pytest.raises(ConfigError, match=r"train.parallel: task.adversarial reads each batch twice, .* choose ddp"):
        here(twice, tmp_path / "other")
    model = torch.nn.Module()
    model.scale = torch.nn.Parameter(torch.tensor(1.0))
    with pytest.raises(ConfigError, match=r"fsdp cannot shard 'scale', a scalar"):
        refuse_scalars(model)
    lstm = Seq2SeqConfig(width=8, depth=1).build(20)
    with pytest.raises(ConfigError, match=r"train.activation_checkpointing: only Transformers have blocks"):
        checkpoint_blocks(lstm)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("position", ["t5", "relative"])
@pytest.mark.parametrize("lay", [Sequences.padded, Sequences.packed])
def test_blocks_that_are_computed_again_give_the_same_gradients(position: str, shared: bool, lay):
    """Also where the first layer makes what all others use."""
    torch.manual_seed(0)
    shape = {"width": 16, "depth": 3, "heads": 2, "dropout": 0.0}
    model = DecoderConfig.from_tree({**shape, "position": {"kind": position, "shared": shared}}).build(20)
    sentences = lay([[5, 6, 7, 8], [9, 4]])

    def gradients() -> list[torch.Tensor]:
        return list(torch.autograd.grad(model(sentences).square().sum(), list(model.parameters())))

    expected = gradients()
    checkpoint_blocks(model)
    torch.testing.assert_close(gradients(), expected)


def test_positions_that_blocks_share_stay_outside_them():
    model = DecoderConfig(width=16, depth=3, heads=2, position="t5").build(20)
    inside = {p for block in blocks_of(model) for p in block.parameters()} - outside_blocks(model)
    assert inside | outside_blocks(model) == set(model.parameters())
    assert set(model.stack.positions.parameters()) <= outside_blocks(model)


# One process


@pytest.mark.parametrize(
    "changes",
    [{}, {"activation_checkpointing": True}, {"accumulate": 2}, {"moving_average": {"decay": 0.9}, "average": 2}],
    ids=["plain", "checkpointing", "accumulate", "averages"],
)
def test_fsdp_alone_trains_as_none_does(changes: dict[str, Any], tmp_path: Path):
    one = here(recipe(3, **changes), tmp_path / "none")
    other = here(recipe(3, parallel="fsdp", **changes), tmp_path / "fsdp")
    assert losses(other) == pytest.approx(losses(one), rel=1e-5)
    files = [sorted(file.name for file in (run / "checkpoints" / "last").iterdir()) for run in (one, other)]
    assert files[0] == files[1]
    for name in [name for name in files[0] if name.endswith(".safetensors")]:
        tensors = [load_file(run / "checkpoints" / "last" / name) for run in (one, other)]
        assert {key: value.shape for key, value in tensors[0].items()} == {
            key: value.shape for key, value in tensors[1].items()
        }


def test_blocks_computed_again_change_nothing_at_all(tmp_path: Path):
    model = {"dropout": 0.2}
    one = here(recipe(3, model), tmp_path / "kept")
    other = here(recipe(3, model, activation_checkpointing=True), tmp_path / "again")
    assert losses(one) == losses(other)


def test_fsdp_in_half_precision_stays_near_none(tmp_path: Path):
    one = here(recipe(3, precision="bfloat16"), tmp_path / "none")
    other = here(recipe(3, precision="bfloat16", parallel="fsdp"), tmp_path / "fsdp")
    assert losses(other) == pytest.approx(losses(one), rel=2e-3)


@pytest.mark.gpu
def test_fsdp_on_a_gpu_trains_as_none_does(tmp_path: Path):
    one = here(recipe(precision="bfloat16", device="cuda"), tmp_path / "none")
    for name, changes in {"plain": {}, "again": {"activation_checkpointing": True}}.items():
        other = here(recipe(precision="bfloat16", device="cuda", parallel="fsdp", **changes), tmp_path / name)
        assert losses(other) == pytest.approx(losses(one), rel=5e-3)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch's compiler looks at all of them
def test_fsdp_on_a_gpu_compiles(tmp_path: Path):
    (tmp_path / "text.txt").write_text("the dog sees the cat, the cat sees the hen\n" * 400)
    tree = {
        **recipe(6, {"kind": "decoder"}, precision="bfloat16", device="cuda"),
        "task": "language_model",
        "data": {"train": {"file": str(tmp_path / "text.txt")}, "batching": {"kind": "stream", "context": 64}},
        "tokenizer": "char",
    }
    one = here(tree, tmp_path / "none")
    cut = {**tree, "train": {**tree["train"], "parallel": "fsdp", "compile": "on"}}
    assert losses(here(cut, tmp_path / "fsdp")) == pytest.approx(losses(one), rel=5e-3)


def test_plain_tensors_are_left_as_they_are():
    weight = torch.randn(3)
    assert gather_full({"weight": weight}, keep=True)["weight"] is weight
    assert gather_full({"weight": weight}, keep=False) == {}
    copy_full(weight, torch.ones(3))
    assert weight.tolist() == [1, 1, 1]
    assert local_bytes([weight, weight.double()]) == 12 + 24


# Two processes


def test_two_processes_have_the_losses_of_one(alone: Path, pair: Path):
    assert losses(pair) == pytest.approx(losses(alone), rel=1e-4)
    assert course(pair) == course(alone)


def test_each_of_two_holds_what_the_paper_says(pair: Path):
    model = on_paper(resolve_recipe(recipe()).model, vocabulary_of(pair))
    for rank in (0, 1):
        assert tell(pair, rank) == vars(held(model, "fsdp", 2, rank))
    assert tell(pair, 0)["weights"] == held(model, "ddp", 2).weights / 2


def vocabulary_of(folder: Path) -> int:
    weights = load_file(folder / "checkpoints" / "last" / "model.safetensors")
    return len(weights["target_embedding.table.weight"])


@pytest.mark.parametrize("kind", ["none", "fsdp"])
def test_what_two_saved_one_goes_on_with(kind: str, alone: Path, pair: Path, tmp_path: Path):
    folder = tmp_path / "run"
    shutil.copytree(pair, folder, symlinks=True)
    shutil.rmtree(folder / "checkpoints" / "step-6")
    here(recipe(6, parallel=kind), folder, resume=True)
    assert losses(folder)[:3] == pytest.approx(losses(alone)[:3], rel=1e-4)
    assert losses(folder)[-4:] == pytest.approx(losses(alone)[-4:], rel=1e-4)
    assert course(folder)[-4:] == course(alone)[-4:]


# More of them


VARIANTS = {
    "checkpointing": recipe(parallel="fsdp", activation_checkpointing=True),
    "averages": recipe(parallel="fsdp", moving_average={"decay": 0.9}, average=2),
    "accumulate": recipe(parallel="fsdp", accumulate=3),
    "muon": recipe(parallel="fsdp", optimiser="muon"),
    "sgd": recipe(parallel="fsdp", optimiser="sgd"),
    "t5": recipe(model={"position": "t5"}, parallel="fsdp"),
    "lstm": {**recipe(parallel="fsdp"), "model": {"kind": "lstm-seq2seq", "width": 32, "depth": 1, "dropout": 0.0}},
    "convs2s": {**recipe(parallel="fsdp"), "model": {"kind": "convs2s", "width": 32, "depth": 2, "dropout": 0.0}},
}


@pytest.mark.slow
def test_every_variant_on_two_has_the_losses_of_one(tmp_path: Path):
    ended_well(
        launched({name: [tree] for name, tree in VARIANTS.items()}, tmp_path, "--standalone", "--nproc-per-node=2")
    )
    for name, tree in VARIANTS.items():
        train = {key: value for key, value in tree["train"].items() if key != "parallel"}
        one = here({**tree, "train": train}, tmp_path / f"{name}-alone")
        assert losses(tmp_path / name) == pytest.approx(losses(one), rel=1e-4), name


@pytest.mark.slow
def test_four_processes_hold_a_quarter_and_two_go_on(alone: Path, tmp_path: Path, monkeypatch):
    trials = {"ddp": [recipe(parallel="ddp")], "fsdp": [recipe(parallel="fsdp")], "half": [recipe(3, parallel="fsdp")]}
    ended_well(launched(trials, tmp_path, "--standalone", "--nproc-per-node=4"))
    model = on_paper(resolve_recipe(recipe()).model, vocabulary_of(tmp_path / "ddp"))
    for kind in ("ddp", "fsdp"):
        assert losses(tmp_path / kind) == pytest.approx(losses(alone), rel=1e-4)
        assert course(tmp_path / kind) == course(alone)
        for rank in range(4):
            assert tell(tmp_path / kind, rank) == vars(held(model, kind, 4, rank))
    ended_well(launched({"half": [recipe(6, parallel="fsdp")]}, tmp_path, "--standalone", "--nproc-per-node=2"))
    assert losses(tmp_path / "half")[-4:] == pytest.approx(losses(alone)[-4:], rel=1e-4)
    monkeypatch.setattr(trainer, "Trainer", Counting)
    here(recipe(9), tmp_path / "half", resume=True)
    assert vars(held(model, "none", 1)) == HELD


@pytest.mark.slow
def test_two_hosts_are_two_agents_that_meet(alone: Path, tmp_path: Path):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    meet = ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}"]
    trials = {"fsdp": [recipe(parallel="fsdp")], "ddp": [recipe(parallel="ddp")]}
    hosts = [launched(trials, tmp_path, *meet, "--rdzv-id=7", "--local-addr=127.0.0.1") for _ in range(2)]
    for host in hosts:
        ended_well(host)
    for kind in trials:
        assert losses(tmp_path / kind) == pytest.approx(losses(alone), rel=1e-4)


@pytest.mark.slow
def test_none_under_torchrun_is_one_sentence(tmp_path: Path):
    process = launched({"none": [recipe(parallel="none")]}, tmp_path, "--standalone", "--nproc-per-node=2")
    _, said = process.communicate(timeout=300)
    assert process.returncode != 0
    assert "train.parallel: none trains in one process, and torchrun has started 2" in said
