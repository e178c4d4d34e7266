"""Experts divided among processes: as one process trains, with less to hold for each."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from run_on_paper import held, on_paper
from safetensors.torch import load_file
from test_parallel import course, ended_well, here, launched, losses, recipe, tell
from torch import nn

from regard.config import Config
from regard.errors import ConfigError
from regard.models import DecoderConfig, EncoderDecoderConfig
from regard.models.recurrent.gnmt import GnmtConfig
from regard.nn.experts import Experts, SingleProcess
from regard.run import trainer
from regard.run.recipe import resolve_recipe
from regard.train.compilation import compile_blocks
from regard.train.parallel.experts import ExpertParallel, choose_expert_parallel, expert_matrices, held_params
from regard.train.parallel.model import choose_parallel
from regard.train.parallel.processes import World

TRIALS = Path(__file__).with_name("expert_trials.py")
PLAIN = {"feedforward": {"kind": "experts", "experts": 4, "hidden": 48, "balance": 0.02, "capacity": 1.0}}
NOISY = {"experts": 4, "hidden": 32, "noise": True, "balance": 0.0, "importance": 0.1, "load": 0.1}
GNMT = {"kind": "gnmt", "width": 32, "depth": 2, "dropout": 0.0, "experts": NOISY}


def transformer(steps: int = 6, **train: Any) -> dict[str, Any]:
    return recipe(steps, PLAIN, **train)


def recurrent(steps: int = 6, **train: Any) -> dict[str, Any]:
    return {**recipe(steps, **train), "model": GNMT}


def divided(processes: int, file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", str(file), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment, timeout=500)


# The setting


EIGHT, SIX = (DecoderConfig(feedforward={"kind": "experts", "experts": n}) for n in (8, 6))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("setting", "processes", "model", "chosen"),
    [
        (1, 3, EIGHT, 1),
        (4, 8, EIGHT, 4),
        (8, 8, EIGHT, 8),
        ("auto", 8, EIGHT, 8),
        ("auto", 4, SIX, 2),
        ("auto", 12, EIGHT, 4),
        ("auto", 5, SIX, 1),
        ("auto", 1, EIGHT, 1),
        ("auto", 8, DecoderConfig(), 1),
        (2, 4, GnmtConfig(**GNMT), 2),
    ],
)
def test_among_how_many(setting: Any, processes: int, model: Config, chosen: int):
    assert choose_expert_parallel(setting, processes, model) == chosen


@pytest.mark.parametrize(
    ("setting", "processes", "model", "sentence"),
    [
        (2, 3, EIGHT, "expected a number that divides the processes, of which torchrun has started 3"),
        (2, 1, EIGHT, "expected a number that divides the processes, of which torchrun has started 1"),
        (4, 4, SIX, "expected a number that divides model.feedforward.experts = 6, got 4"),
        (8, 8, GnmtConfig(**GNMT), "expected a number that divides model.experts.experts = 4, got 8"),
        (2, 2, DecoderConfig(), "the model has no experts to divide among 2"),
    ],
)
def test_what_cannot_be_divided_is_one_sentence(setting: int, processes: int, model: Config, sentence: str):
    with pytest.raises(ConfigError) as refused:
        choose_expert_parallel(setting, processes, model)
    assert str(refused.value).startswith(f"train.expert_parallel: {sentence}")


SIDES = EncoderDecoderConfig(width=16, depth=1, heads=2, feedforward={"kind": "experts", "experts": 4})  # type: ignore[arg-type]
NARROW = DecoderConfig(width=16, depth=3, heads=2, feedforward={**NOISY, "kind": "experts"})  # type: ignore[arg-type]


@pytest.mark.parametrize("config", [SIDES, NARROW, GnmtConfig(**GNMT)], ids=lambda config: config.kind)
@pytest.mark.parametrize("among", [1, 2, 4])
def test_what_each_process_holds_is_counted_without_building_it(config: Any, among: int):
    sizes = (50, 50) if config.shape == "encoder-decoder" else (50,)
    with torch.device("meta"):
        model = config.build(*sizes)
    found = held_params(config, lambda model: model.num_params(*sizes), among)
    assert 4 * found == held(model, "ddp", 4, expert_parallel=among).weights


def test_auto_copies_a_model_whose_experts_are_divided():
    model = DecoderConfig(width=1024, depth=24, heads=16, feedforward={"kind": "experts", "experts": 8})  # type: ignore[arg-type]
    whole, eighth = (held_params(model, lambda model: model.num_params(32_000), among) for among in (1, 8))
    assert whole * 16 > 20e9 > eighth * 16  # bytes, of which a half may be filled
    assert choose_parallel("auto", 8, whole, 40 * 10**9) == "fsdp"
    assert choose_parallel("auto", 8, eighth, 40 * 10**9) == "ddp"


@pytest.mark.parametrize(("among", "chosen"), [(1, "fsdp"), (8, "ddp")])
def test_a_run_counts_what_each_process_will_hold(among: int, chosen: str, monkeypatch: pytest.MonkeyPatch):
    experts = {"kind": "experts", "experts": 8}
    tree = {"task": "language_model", "model": {"kind": "decoder", "width": 64, "heads": 2, "feedforward": experts}}
    asked, task = resolve_recipe(tree), Mock(num_params=lambda model: model.num_params(100))
    whole, eighth = (held_params(asked.model, task.num_params, processes) for processes in (1, 8))
    monkeypatch.setattr(trainer, "gpu_memory", lambda device: 16 * (whole + eighth))  # half of it lies between the two
    assert trainer.parallel_kind(asked, task, World(0, 8, torch.device("cpu")), among) == chosen


def test_refused_before_anything_is_made(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"train.expert_parallel: .* torchrun has started 1 .* got 2; choose 1 or"):
        here(transformer(expert_parallel=2), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    for wrong in (0, "all"):
        with pytest.raises(ConfigError, match=r"train.expert_parallel: expected a number of processes or auto, got"):
            resolve_recipe(transformer(expert_parallel=wrong))


def test_one_process_divides_nothing():
    model = nn.ModuleList([Experts(4, 8, 4)])
    whole = dict(model.named_parameters())
    alone = ExpertParallel(model, World(0, 1, torch.device("cpu")))
    assert type(model[0].expert_group) is SingleProcess
    assert not alone.parameters
    assert list(expert_matrices(model)) == ["0.up", "0.down"]
    assert all(alone.gather(whole, keep=True)[name] is tensor for name, tensor in whole.items())


@torch.no_grad()  # as torch warns of its own look at slopes where compiled code goes on
def test_mixtures_are_left_out_of_what_is_compiled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    torch.manual_seed(0)
    model = DecoderConfig(width=16, depth=1, heads=2, dropout=0.0, feedforward={"kind": "experts"}).build(20)  # type: ignore[arg-type]
    block, x = model.stack.blocks[0], torch.randn(2, 5, 16)
    plain = block.feedforward(x)
    compile_blocks(model)
    assert torch.equal(torch.compile(lambda x: block.feedforward(x) + 1)(x), plain + 1)


# Two processes


def test_a_divided_mixture_is_what_one_process_computes():
    found = divided(2, TRIALS, "2")
    assert found.returncode == 0, found.stderr[-4000:]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return here(transformer(), tmp_path_factory.mktemp("alone") / "run")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two processes that divide the experts; the Transformer's stop half-way and go on."""
    out = tmp_path_factory.mktemp("pair")
    trials = {
        "transformer": [transformer(steps, parallel="ddp", expert_parallel=2) for steps in (3, 6)],
        "recurrent": [recurrent(3, parallel="ddp", expert_parallel="auto")],
    }
    ended_well(launched(trials, out, "--standalone", "--nproc-per-node=2"))
    return out


def test_two_processes_have_the_losses_of_one(alone: Path, pair: Path, tmp_path: Path):
    assert losses(pair / "transformer") == pytest.approx(losses(alone), rel=1e-4)
    assert course(pair / "transformer") == course(alone)
    one = here(recurrent(3), tmp_path / "recurrent")
    assert losses(pair / "recurrent") == pytest.approx(losses(one), rel=1e-4)


def on_paper_of(tree: dict[str, Any], folder: Path) -> nn.Module:
    weights = load_file(folder / "checkpoints" / "last" / "model.safetensors")
    model = on_paper(resolve_recipe(tree).model, len(weights["target_embedding.table.weight"]))  # type: ignore[arg-type]
    assert {name: p.shape for name, p in model.named_parameters()} == {name: w.shape for name, w in weights.items()}
    return model


def test_each_of_two_holds_half_of_the_experts(pair: Path):
    model = on_paper_of(transformer(), pair / "transformer")
    experts = 4 * sum(p.numel() for p in expert_matrices(model).values())
    assert experts == 4 * (2 + 2) * 4 * 2 * 32 * 48  # bytes, blocks, experts, matrices
    for rank in (0, 1):
        found = tell(pair / "transformer", rank)
        assert found == vars(held(model, "ddp", 2, rank, expert_parallel=2))
        assert found["weights"] == held(model, "ddp", 2).weights - experts // 2
        assert found["moments"] == held(model, "ddp", 2).moments - experts


def test_what_two_divided_one_goes_on_with(alone: Path, pair: Path, tmp_path: Path):
    folder = tmp_path / "run"
    shutil.copytree(pair / "transformer", folder, symlinks=True)
    shutil.rmtree(folder / "checkpoints" / "step-6")
    here(transformer(), folder, resume=True)
    assert losses(folder)[-4:] == pytest.approx(losses(alone)[-4:], rel=1e-4)
    assert course(folder)[-4:] == course(alone)[-4:]


# More of them


FREE = {"feedforward": {**PLAIN["feedforward"], "balance": 0.0, "capacity": None}}
VARIANTS = {
    "fsdp": transformer(parallel="fsdp", expert_parallel=2),
    "fsdp-averages": transformer(parallel="fsdp", expert_parallel=2, moving_average={"decay": 0.9}, average=2),
    "fsdp-muon": transformer(parallel="fsdp", expert_parallel=2, optimiser="muon"),
    "averages": transformer(expert_parallel=2, moving_average={"decay": 0.9}, average=2),
    "checkpointing": transformer(expert_parallel=2, activation_checkpointing=True),
    "accumulate": recipe(6, FREE, expert_parallel=2, accumulate=3),
    "clipped": transformer(expert_parallel=2, optimiser="sgd", clip=0.05),
    "muon": transformer(expert_parallel=2, optimiser="muon"),
    "few-rows": transformer(12, expert_parallel=2, tokens_per_batch=44),
    "noisy": recipe(6, {"feedforward": {"kind": "experts", **NOISY}}, expert_parallel=2, activation_checkpointing=True),
}


@pytest.mark.slow
def test_every_variant_on_two_has_the_losses_of_one(tmp_path: Path):
    ended_well(
        launched({name: [tree] for name, tree in VARIANTS.items()}, tmp_path, "--standalone", "--nproc-per-node=2")
    )
    for name, tree in VARIANTS.items():
        train = {key: value for key, value in tree["train"].items() if key not in ("parallel", "expert_parallel")}
        one = here({**tree, "train": train}, tmp_path / f"{name}-alone")
        assert losses(tmp_path / name) == pytest.approx(losses(one), rel=1e-4), name
        assert course(tmp_path / name) == course(one)


@pytest.mark.slow
@pytest.mark.parametrize("among", [2, 4])
def test_a_mixture_divided_among_some_of_four_is_what_one_process_computes(among: int):
    found = divided(4, TRIALS, str(among))
    assert found.returncode == 0, found.stderr[-4000:]


@pytest.mark.slow
def test_twenty_steps_of_four_are_those_of_one(tmp_path: Path):
    kinds = {"transformer": transformer, "recurrent": recurrent}
    trials = {
        f"{name}-{parallel}-{among}": (name, parallel, among)
        for name, parallel, among in [
            ("transformer", "ddp", 4), ("transformer", "ddp", 2), ("transformer", "fsdp", 2),
            ("recurrent", "ddp", 4), ("recurrent", "ddp", 2), ("recurrent", "fsdp", 4),
        ]
    }  # fmt: skip
    trees = {
        key: [kinds[name](20, parallel=parallel, expert_parallel=among, save_every=20)]
        for key, (name, parallel, among) in trials.items()
    }
    ended_well(launched(trees, tmp_path, "--standalone", "--nproc-per-node=4"))
    ones = {name: here(kind(20, save_every=20), tmp_path / f"{name}-alone") for name, kind in kinds.items()}
    for key, (name, parallel, among) in trials.items():
        assert losses(tmp_path / key) == pytest.approx(losses(ones[name]), rel=1e-4), key
        assert course(tmp_path / key) == course(ones[name])
        if name == "transformer":
            model = on_paper_of(transformer(), tmp_path / key)
            for rank in range(4):
                assert tell(tmp_path / key, rank) == vars(held(model, parallel, 4, rank, among))


@pytest.mark.slow
def test_four_divided_then_two_then_one_then_four_again(tmp_path: Path):
    folder = tmp_path / "run"
    ended_well(launched({"run": [transformer(3, expert_parallel=4)]}, tmp_path, "--standalone", "--nproc-per-node=4"))
    changed = {"run": [transformer(6, parallel="fsdp", expert_parallel=2)]}
    ended_well(launched(changed, tmp_path, "--standalone", "--nproc-per-node=2"))
    here(transformer(9), folder, resume=True)
    ended_well(launched({"run": [transformer(12, expert_parallel=2)]}, tmp_path, "--standalone", "--nproc-per-node=4"))
    undisturbed = here(transformer(12), tmp_path / "alone")

    def trained(run: Path) -> dict[str, torch.Tensor]:
        return load_file(run / "checkpoints" / "last" / "model.safetensors")

    def of_steps(run: Path) -> dict[int, float]:
        return {step: loss for (step, split, _), loss in zip(course(run), losses(run), strict=True) if split == "train"}

    assert of_steps(folder) == pytest.approx(of_steps(undisturbed), rel=1e-4)
    assert trained(folder).keys() == trained(undisturbed).keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"expert_parallel": 4}, "train.expert_parallel: expected a number that divides the processes"),
        ({"expert_parallel": 2, "optimiser": "adafactor"}, "train.optimiser: adafactor measures all experts"),
    ],
)
def test_refused_under_torchrun_in_one_sentence(changes: dict[str, Any], sentence: str, tmp_path: Path):
    process = launched({"run": [transformer(**changes)]}, tmp_path, "--standalone", "--nproc-per-node=2")
    _, said = process.communicate(timeout=300)
    assert process.returncode != 0
    assert sentence in said
