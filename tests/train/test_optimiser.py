"""Each optimiser is torch's over the right groups, and goes on to the bit from what was saved of it."""

import json
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import nn

from regard.config import Config
from regard.errors import ConfigError, RunError
from regard.models import DecoderConfig, EncoderConfig, EncoderDecoderConfig
from regard.nn.experts import ExpertsConfig
from regard.nn.position import RelativeConfig, T5Config
from regard.train.muon import Muon, orthogonal, step_scale
from regard.train.optimiser import (
    AdafactorConfig,
    AdamWConfig,
    MuonConfig,
    Optimiser,
    OptimiserConfig,
    SGDConfig,
    members,
)

KINDS: list[OptimiserConfig] = [
    AdamWConfig(),
    AdamWConfig(decoupled=False, weight_decay=0.1, decay_on="all"),
    AdafactorConfig(weight_decay=0.1),
    MuonConfig(),
    MuonConfig(scaling="original", adamw_scale=0.02, nesterov=False),
    SGDConfig(),
    SGDConfig(nesterov=True, decay_on="tables", weight_decay=0.1),
    SGDConfig(momentum=0.0),
]
IDS = ["adamw", "adam", "adafactor", "muon", "muon-original", "sgd", "sgd-nesterov", "sgd-plain"]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Tensors this small only wait when they are shared between threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Toy(nn.Module):
    """One parameter of every role."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(11, 6)
        self.mix = nn.Conv1d(6, 6, 3, padding=1)
        self.up = nn.Linear(6, 8)
        self.experts = nn.Parameter(torch.randn(3, 8, 6) / 3)
        self.norm = nn.LayerNorm(6)
        self.late = nn.Linear(6, 6, bias=False)
        self.head = nn.Linear(6, 5)

    def forward(self, tokens: torch.Tensor, late: bool) -> torch.Tensor:
        x = self.mix(self.table(tokens).mT).mT
        x = (torch.relu(self.up(x))[:, None] @ self.experts).mean(1)
        x = self.late(x) if late else x
        return self.head(self.norm(x))


def train(model: Toy, optimiser: Optimiser, steps: range) -> None:
    for step in steps:
        torch.manual_seed(step)
        tokens, targets = torch.randint(11, (4, 7)), torch.randint(5, (4, 7))
        optimiser.set_lr(1e-2 / (step + 1))
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(tokens, late=step > 2).flatten(0, 1), targets.flatten()).backward()
        optimiser.step()


def assert_equal_weights(one: nn.Module, other: nn.Module) -> None:
    for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("config", KINDS, ids=IDS)
@pytest.mark.parametrize("saved_after", [0, 2, 5])
def test_resuming_is_exact_to_the_bit(config: OptimiserConfig, saved_after: int):
    whole = Toy()
    train(whole, config.build(whole, lr=0.1), range(10))
    first = Toy()
    optimiser = config.build(first, lr=0.1)
    train(first, optimiser, range(saved_after))
    tensors, scalars = save(optimiser.tensors()), json.dumps(optimiser.scalars())
    second = Toy()
    second.load_state_dict(first.state_dict())
    restored = config.build(second, lr=0.3)
    restored.restore(load(tensors), json.loads(scalars))
    assert restored.lr == optimiser.lr
    train(second, restored, range(saved_after, 10))
    assert_equal_weights(second, whole)


@pytest.mark.parametrize("config", KINDS, ids=IDS)
def test_every_parameter_learns(config: OptimiserConfig):
    model, untouched = Toy(), Toy()
    train(model, config.build(model, lr=0.1), range(4))
    for (name, a), b in zip(model.named_parameters(), untouched.parameters(), strict=True):
        assert not torch.equal(a, b), name


@pytest.mark.parametrize("config", KINDS, ids=IDS)
def test_configs_survive_the_recipe(config: OptimiserConfig):
    class Holder(Config):
        optimiser: OptimiserConfig

    assert Holder.from_tree(Holder(optimiser=config).tree()).optimiser == config


def test_restoring_copies():
    model = Toy()
    optimiser = AdamWConfig().build(model, lr=0.1)
    train(model, optimiser, range(2))
    tensors = {name: value.clone() for name, value in optimiser.tensors().items()}
    kept = {name: value.clone() for name, value in tensors.items()}
    optimiser.restore(tensors, optimiser.scalars())
    train(model, optimiser, range(2, 4))
    assert all(torch.equal(tensors[name], kept[name]) for name in kept)


def test_the_state_goes_by_parameter_names():
    model = Toy()
    optimiser = AdamWConfig().build(model, lr=0.1)
    train(model, optimiser, range(4))
    names = {name for name, _ in model.named_parameters()}
    assert {key.rpartition("/")[0] for key in optimiser.tensors()} == names
    assert {key.rpartition("/")[2] for key in optimiser.tensors()} == {"step", "exp_avg", "exp_avg_sq"}


def saved(config: OptimiserConfig) -> tuple[dict[str, torch.Tensor], dict[str, object]]:
    model = Toy()
    optimiser = config.build(model, lr=0.1)
    train(model, optimiser, range(4))
    return optimiser.tensors(), optimiser.scalars()


def test_another_optimisers_state_is_refused():
    fresh = AdamWConfig().build(Toy(), lr=0.1)
    with pytest.raises(RunError, match=r"the saved optimiser is SGD, the recipe asks for AdamW"):
        fresh.restore(*saved(SGDConfig()))
    tensors, scalars = saved(AdamWConfig())
    with pytest.raises(RunError, match=r"knows a parameter 'other.weight'"):
        fresh.restore({key.replace("up.", "other."): value for key, value in tensors.items()}, scalars)
    with pytest.raises(RunError, match=r"exp_avg of 'up.weight': expected \(8, 6\), got \(6, 8\)"):
        fresh.restore({**tensors, "up.weight/exp_avg": torch.zeros(6, 8)}, scalars)
    with pytest.raises(RunError, match=r"has 32 tensors, expected 33"):
        fresh.restore({key: value for key, value in tensors.items() if key != "up.weight/exp_avg"}, scalars)


@pytest.mark.parametrize("decoupled", [True, False])
def test_adamw_is_torchs(decoupled: bool):
    ours, theirs = Toy(), Toy()
    config = AdamWConfig(betas=(0.8, 0.9), epsilon=1e-6, weight_decay=0.3, decoupled=decoupled)
    decayed = [theirs.mix.weight, theirs.up.weight, theirs.experts, theirs.late.weight, theirs.head.weight]
    others = [p for p in theirs.parameters() if all(p is not d for d in decayed)]
    groups = [{"params": decayed, "weight_decay": 0.3}, {"params": others, "weight_decay": 0.0}]
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    reference = Optimiser(theirs, [kind(groups, lr=1.0, betas=(0.8, 0.9), eps=1e-6, fused=False)])
    train(ours, config.build(ours, lr=1.0), range(6))
    train(theirs, reference, range(6))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_a_step_is_left_out_where_the_numbers_are_unsound_and_else_divided():
    """As told by tensors, which a GPU reads by itself; torch's fused kernels of the processor do so too."""

    def after(divided: float, *told: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(3)
        model = nn.Linear(4, 3)
        optimiser = AdamWConfig(epsilon=1.0).build(model, 0.1)
        for _ in range(2):
            model.weight.grad, model.bias.grad = torch.ones(3, 4) / divided, torch.ones(3) / divided
            optimiser.step(*told)
        return model.weight.detach(), optimiser.tensors()["weight/step"]

    torch.manual_seed(3)
    start, (plain, _) = nn.Linear(4, 3).weight.detach(), after(4.0)
    told, steps = after(1.0, torch.tensor(0.0), torch.tensor(4.0))
    torch.testing.assert_close(told, plain)
    assert steps == 2
    told, steps = after(1.0, torch.tensor(1.0), torch.tensor(4.0))
    assert torch.equal(told, start)
    assert steps == 0


def test_adam_is_fused_on_the_processor():
    (adam,) = AdamWConfig().build(Toy(), lr=0.1).parts
    assert adam.defaults["fused"]


def test_muon_is_torchs_for_matrices():
    torch.manual_seed(0)
    ours, theirs = ([nn.Parameter(torch.zeros(*shape)) for shape in ((8, 5), (5, 8), (8, 5))] for _ in range(2))
    muon = Muon(ours, lr=0.1, weight_decay=0.2, scaling="adamw")
    reference = torch.optim.Muon(theirs, lr=0.1, weight_decay=0.2, adjust_lr_fn="match_rms_adamw")
    for _ in range(3):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        muon.step()
        reference.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0.1, atol=0.02)  # theirs iterates in bfloat16


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 1000))
def test_orthogonal_keeps_directions_and_levels_sizes(rows: int, columns: int, seed: int):
    torch.manual_seed(seed)
    left, _, right = torch.linalg.svd(torch.randn(rows, columns), full_matrices=False)
    sizes = torch.linspace(1.0, 0.1, min(rows, columns))
    result = orthogonal(left @ sizes.diag() @ right)
    assert result.shape == (rows, columns)
    inner = left.mT @ result @ right.mT
    torch.testing.assert_close(inner, inner.diag().diag(), atol=1e-3, rtol=0)
    assert inner.diag().min() > 0.5
    assert inner.diag().max() < 1.5


def test_orthogonal_takes_each_matrix_of_a_stack_alone():
    stack = torch.randn(2, 3, 4, 6)
    torch.testing.assert_close(orthogonal(stack)[1, 2], orthogonal(stack[1, 2]))


def test_steps_of_muon_are_as_long_as_adamws():
    """Adam's steps are about 0.2 to 0.4 of the learning rate in root mean square."""
    for shape in ((64, 64), (32, 128), (128, 32)):
        direction = orthogonal(torch.randn(*shape)) * step_scale(torch.Size(shape), "adamw")
        assert 0.1 < direction.square().mean().sqrt() < 0.3
    assert step_scale(torch.Size((32, 8)), "original") == 2
    assert step_scale(torch.Size((8, 32)), "original") == 1


def roles(model: nn.Module) -> dict[str, str]:
    return {member.name: member.role for member in members(model)}


def test_muon_takes_the_matrices_inside_and_adamw_the_rest():
    model = Toy()
    muon, adam = MuonConfig().build(model, lr=0.1).parts
    inside = [model.experts, model.up.weight, model.late.weight]
    assert [id(p) for group in muon.param_groups for p in group["params"]] == [id(p) for p in inside]
    assert sum(len(group["params"]) for part in (muon, adam) for group in part.param_groups) == len(
        list(model.parameters())
    )
    assert roles(model) == {
        "experts": "matrix",
        "table.weight": "table",
        "mix.weight": "kernel",
        "mix.bias": "vector",
        "up.weight": "matrix",
        "up.bias": "vector",
        "norm.weight": "vector",
        "norm.bias": "vector",
        "late.weight": "matrix",
        "head.weight": "head",
        "head.bias": "vector",
    }


def test_roles_in_a_whole_model():
    config = EncoderDecoderConfig(width=8, depth=1, heads=2, position=RelativeConfig(), feedforward=ExpertsConfig())
    found = roles(config.build(source_vocab=9, target_vocab=9))
    assert {role for name, role in found.items() if name.endswith("table")} == {"table"}
    assert {role for name, role in found.items() if "norm" in name or name.endswith("bias")} == {"vector"}
    assert {role for name, role in found.items() if name.endswith((".up", ".down"))} == {"matrix"}
    assert {role for name, role in found.items() if name.endswith("query.weight")} == {"matrix"}
    added = {"kind": "bigbird", "added": True, "global_tokens": 2}
    bigbird = roles(EncoderConfig.from_tree({"width": 8, "depth": 1, "heads": 2, "attention": added}).build(vocab=9))
    assert bigbird["stack.added"] == "table"
    t5 = roles(DecoderConfig(width=8, depth=1, heads=2, position=T5Config()).build(vocab=9))
    assert [name for name, role in t5.items() if role == "table"] == [
        "embedding.table.weight",
        "stack.positions.0.table",
    ]


def test_shared_parameters_come_once_and_as_tables():
    model = Toy()
    model.head = nn.Linear(6, 11, bias=False)
    model.head.weight = model.table.weight
    assert roles(model)["table.weight"] == "table"
    assert "head.weight" not in roles(model)


def test_frozen_parameters_are_left_out():
    model = Toy()
    model.table.requires_grad_(False)
    assert "table.weight" not in roles(model)
    with pytest.raises(ConfigError, match="no parameter is trained"):
        members(model.requires_grad_(False))


@pytest.mark.parametrize(("decay_on", "count"), [("matrices", 5), ("tables", 6), ("all", 11)])
def test_weight_decay_acts_where_it_is_asked_for(decay_on: str, count: int):
    optimiser = AdamWConfig.from_tree({"weight_decay": 0.5, "decay_on": decay_on}).build(Toy(), lr=0.1)
    decayed = [group for group in optimiser.parts[0].param_groups if group["weight_decay"] == 0.5]
    assert sum(len(group["params"]) for group in decayed) == count


def test_groups_take_their_share_of_the_learning_rate():
    optimiser = AdamWConfig().build(Toy(), lr=0.1, scale=lambda name: 0.5 if name.startswith("up.") else 1.0)
    optimiser.set_lr(0.4)
    rates = [(group["lr"], len(group["params"])) for group in optimiser.parts[0].param_groups]
    assert rates == [(0.4, 4), (0.4, 5), (0.2, 1), (0.2, 1)]
    muon = MuonConfig(adamw_scale=0.25).build(Toy(), lr=0.4)
    assert [part.param_groups[0]["lr"] for part in muon.parts] == [0.4, 0.1]


def test_nesterov_needs_momentum():
    with pytest.raises(ConfigError, match="nesterov: there is no momentum"):
        SGDConfig(momentum=0.0, nesterov=True)


@pytest.mark.gpu
@pytest.mark.parametrize("config", KINDS, ids=IDS)
def test_a_state_saved_on_the_processor_goes_on_on_a_gpu(config: OptimiserConfig):
    tensors, scalars = saved(config)
    model = Toy().cuda()
    optimiser = config.build(model, lr=0.1)
    optimiser.restore(tensors, scalars)
    model(torch.zeros(2, 3, dtype=torch.long, device="cuda"), late=True).sum().backward()
    optimiser.step()
    assert all(value.isfinite().all() for value in optimiser.tensors().values())
