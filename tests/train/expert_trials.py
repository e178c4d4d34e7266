"""Divides mixtures among the processes that torchrun has started, and holds them to what one process computes.

    torchrun --nproc-per-node 4 expert_trials.py 2

The processes compute their rows of random batches, with the experts divided among so many of them; each also computes
the whole batch by itself, with all experts, and compares.
"""

import copy
import random
import sys
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.testing import assert_close

from regard.nn.experts import Experts
from regard.train.checkpoint import Checkpoint
from regard.train.parallel import expert_exchange
from regard.train.parallel.experts import ExpertParallel
from regard.train.parallel.processes import World, join_world
from regard.train.step_statistics import gradient_norm

KINDS: list[dict[str, Any]] = [
    {"balance": 0.5},
    {"balance": 0.5, "capacity": 0.6},
    {"noise": True, "balance": 0.0, "importance": 0.3, "load": 0.2},
    {"noise": True, "balance": 0.1, "importance": 0.3, "load": 0.2, "capacity": 1.0},
]
TRIPS: list[int] = []
"""How many numbers this process gave to each exchange of rows."""


@dataclass(frozen=True)
class Case:
    """A batch whose rows are shared out: `bounds` are where the processes' rows begin and end."""

    x: Tensor
    target: Tensor
    lengths: list[int]
    bounds: list[int]

    def rows_of(self, rank: int) -> slice:
        """A process's rows; of a process that has none, the first row, which stands in."""
        first, end = self.bounds[rank : rank + 2]
        return slice(first, end) if end > first else slice(0, 1)

    def has_rows(self, rank: int) -> bool:
        return self.bounds[rank] < self.bounds[rank + 1]

    def loss(self, model: nn.Module, rows: slice, share: float) -> tuple[Tensor, Tensor]:
        """Rows padded to the longest of them, the loss of their tokens, and a share of the loss of balance."""
        lengths = torch.tensor(self.lengths[rows])
        time = int(lengths.max())
        x = self.x[rows, :time].clone().requires_grad_()
        valid = torch.arange(time) < lengths[:, None]
        y = model[0](x, valid)
        assert not y[~valid].any()
        return x, (y * self.target[rows, :time] * valid[..., None]).sum() + share * model[0].balance_loss


def make_case(random: random.Random, processes: int, width: int) -> Case:
    """Some processes may get no row at all."""
    rows, time = random.randint(1, 2 * processes), random.randint(1, 6)
    cuts = sorted(random.randint(0, rows) for _ in range(processes - 1))
    lengths = [random.randint(1, time) for _ in range(rows)]
    generator = torch.Generator().manual_seed(random.randint(0, 10**6))
    x, target = (torch.randn(rows, max(lengths), width, generator=generator) for _ in range(2))
    return Case(x, target, lengths, [0, *cuts, rows])


def compare(case: Case, whole: nn.ModuleList, world: World, among: int) -> None:
    """Outputs, losses, counts, slopes and the norm, divided and not."""
    model = copy.deepcopy(whole)
    divided = ExpertParallel(model, world, among)
    torch.manual_seed(5)
    all_x, loss = case.loss(whole, slice(0, len(case.lengths)), 1.0)
    loss.backward()
    torch.manual_seed(5 + world.rank)
    rows, counts = case.rows_of(world.rank), case.has_rows(world.rank)
    divided.set_counted(counts)
    having = sum(case.has_rows(rank) for rank in range(world.size))
    TRIPS.clear()
    x, own = case.loss(model, rows, counts / having)
    (own * counts * world.size).backward()
    divided.sum_gradients()
    summed = own.detach() * counts
    dist.all_reduce(summed)
    assert_close(summed, loss.detach())
    assert_close(model[0].balance_loss.detach(), whole[0].balance_loss.detach())
    assert model[0].dropped_choices == whole[0].dropped_choices
    if counts:
        assert_close(x.grad / world.size, all_x.grad[rows, : x.shape[1]])
    sent, computed, *slopes = TRIPS
    assert slopes == [sent, computed], "slopes travel as far as what they are slopes of"
    travelled = torch.tensor(sent)
    dist.all_reduce(travelled)
    choices = sum(case.lengths) * whole[0].chosen - int(whole[0].dropped_choices or 0)
    assert travelled == choices * case.x.shape[-1], "each choice that counts goes once, padding stays"
    compare_slopes(model, whole, divided, world)


def compare_slopes(model: nn.Module, whole: nn.Module, divided: ExpertParallel, world: World) -> None:
    for (name, own), reference in zip(model.named_parameters(), whole.parameters(), strict=True):
        if own in divided.parameters:
            assert own.numel() * divided.size == reference.numel()
            assert_close(own.grad, piece(reference.grad, divided, world), msg=name)
        else:
            dist.all_reduce(own.grad)
            own.grad /= world.size  # as DDP does
            assert_close(own.grad, reference.grad, msg=name)
    assert_close(divided.gradient_norm(list(model.parameters())), gradient_norm(list(whole.parameters())))


def piece(whole: Tensor, divided: ExpertParallel, world: World) -> Tensor:
    return whole.chunk(divided.size)[world.rank % divided.size]


def compare_checkpoints(world: World, among: int) -> None:
    """Put together, the parts are the whole; cut up, the whole is the parts; counters and strangers stay."""
    torch.manual_seed(1)
    whole = nn.ModuleList([Experts(3, 5, 2 * among, noise=True)])
    model = copy.deepcopy(whole)
    divided = ExpertParallel(model, world, among)
    weights = dict(whole.named_parameters())
    found = divided.gather(dict(model.named_parameters()), keep=True)
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], weights[name]) for name in weights)
    router = weights["0.router.weight"].detach()
    moments = {"0.up/exp_avg": weights["0.up"] * 2, "0.up/step": torch.tensor(3.0), "0.router.weight/exp_avg": router}
    odd = weights["0.up"][:-1]
    own = divided.shard_checkpoint(Checkpoint(1, dict(weights), moments, {}, {"moving": {"0.up": odd}}))
    assert torch.equal(own.model["0.down"], piece(weights["0.down"], divided, world))
    assert torch.equal(own.optimizer["0.up/exp_avg"], piece(weights["0.up"] * 2, divided, world))
    assert own.optimizer["0.up/step"] == 3
    assert own.extra["moving"]["0.up"] is odd
    again = divided.gather(own.optimizer, keep=world.is_main)
    assert again.keys() == (moments.keys() if world.is_main else set())
    assert all(torch.equal(again[name], moments[name]) for name in again)


def main() -> None:
    world, among = join_world("cpu"), int(sys.argv[1])
    plain = dist.all_to_all_single

    def counted(found: Tensor, given: Tensor, *more: Any, **group: Any) -> None:
        if given.is_floating_point():
            TRIPS.append(given.numel())
        plain(found, given, *more, **group)

    expert_exchange.dist.all_to_all_single = counted
    for number in range(24):
        dice = random.Random(number)
        width, hidden = dice.choice([(4, 8), (3, 5)])  # sizes that the grouped kernel takes, and others
        torch.manual_seed(number)
        kind, experts = KINDS[number % len(KINDS)], among * dice.randint(1, 2)
        whole = nn.ModuleList([Experts(width, hidden, experts, dice.randint(1, min(2, experts)), **kind)])
        compare(make_case(dice, world.size, width), whole, world, among)
    compare_checkpoints(world, among)


if __name__ == "__main__":
    main()
