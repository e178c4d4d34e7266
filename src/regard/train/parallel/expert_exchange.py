"""All-to-all of expert parallelism: tokens to the processes of their experts and back; sums over all processes.

    process 0   rows sorted by expert   a a b | c d          a a b | a b      sorted:  a a a b b   through a and b, and
    process 1                           a b | c c d     →    c d | c c d               c c c d d   through c and d, back

The number of rows differs from process to process; gloo has the collective as NCCL does.
"""

from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd import Function

from regard.nn.experts import Experts, SingleProcess


class Company(SingleProcess):
    """Processes that hold the experts together: a mixture computes what one process would compute.

    `near` are the processes that together hold all experts, `everyone` those that share a batch; ranks follow the rows
    of the batch.
    """

    def __init__(self, near: dist.ProcessGroup, everyone: dist.ProcessGroup) -> None:
        self.near, self.everyone = near, everyone
        self.rank, self.size = dist.get_rank(everyone), dist.get_world_size(everyone)
        self.counts = True
        """Whether this process's rows count, or stand in for an empty micro-batch."""

    def counted(self, real: Bool[Tensor, " tokens"]) -> Bool[Tensor, " tokens"]:
        """None of the rows that stand in for an empty micro-batch count."""
        return real if self.counts else torch.zeros_like(real)

    def total(self, *sums: Tensor) -> tuple[Tensor, ...]:
        """The sums over all processes, each in its own dtype; reduced in float64, in which counts are exact."""
        together = _Total.apply(torch.cat([part.double().flatten() for part in sums]), self.everyone)
        parts = together.split([part.numel() for part in sums])  # type: ignore[union-attr]
        return tuple(part.view_as(local).to(local.dtype) for part, local in zip(parts, sums, strict=True))

    def ahead(self, requests: Int[Tensor, "chosen experts"]) -> Int[Tensor, "chosen experts"]:
        """Of the same choice, tokens of the processes before this one; of earlier choices, those of all others."""
        gathered = self._gather(requests)
        others = gathered.sum(0) - requests
        return gathered[: self.rank].sum(0) + others.cumsum(0) - others

    def noise(self, scores: Float[Tensor, "tokens experts"], rows: int) -> Float[Tensor, "tokens experts"]:
        """The first process draws for all rows as if they were its own, padded to the longest; all take their part."""
        time, experts = len(scores) // rows, scores.shape[1]
        sizes = self._gather(torch.tensor([rows * self.counts, time], device=scores.device)).tolist()
        shape = (sum(size[0] for size in sizes), max(size[1] for size in sizes), experts)
        drawn = (torch.randn if self.rank == 0 else torch.empty)(shape, dtype=scores.dtype, device=scores.device)
        dist.broadcast(drawn, group=self.everyone, group_src=0)
        first = sum(size[0] for size in sizes[: self.rank])
        noise = drawn[first : first + rows, :time].reshape(-1, experts)
        return noise if self.counts else torch.zeros_like(scores)

    def computed(self, order: Int[Tensor, " choices"], served: Bool[Tensor, " choices"]) -> Int[Tensor, " some"]:
        """Only what counts: padding, and tokens beyond an expert's capacity, are not sent."""
        return order[served[order]]

    def compute(
        self, part: Experts, rows: Float[Tensor, "rows width"], ends: Int[Tensor, " experts"]
    ) -> Float[Tensor, "rows width"]:
        """Sends rows, sorted by expert, to the processes of their experts, computes them there, and returns them."""
        going = torch.diff(ends, prepend=ends.new_zeros(1)).view(dist.get_world_size(self.near), -1)
        coming = torch.empty_like(going)
        dist.all_to_all_single(coming, going, group=self.near)
        sent, received = going.sum(1).tolist(), coming.sum(1).tolist()
        arrived = _exchanged(rows, sent, received, self.near)
        expert = torch.arange(coming.shape[1], device=rows.device).repeat(len(coming))
        order = expert.repeat_interleave(coming.flatten()).argsort(stable=True)  # from by process to by expert
        y = part.compute(arrived[order], coming.sum(0).cumsum(0).int())
        return _exchanged(y[order.argsort()], received, sent, self.near)

    def _gather(self, local: Tensor) -> Tensor:
        """The tensors of all processes, by rank; all must have one shape."""
        tensors = [torch.empty_like(local) for _ in range(self.size)]
        dist.all_gather(tensors, local.contiguous(), group=self.everyone)
        return torch.stack(tensors)


def _exchanged(rows: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup) -> Tensor:
    return _Exchange.apply(rows, sent, received, group)  # type: ignore[return-value]


class _Exchange(Function):
    """All-to-all of rows; gradients go the same way back.

    torch has such functions in modules that are private or on their way out (2.13); the collective itself is neither.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup) -> Tensor:  # noqa: ANN401
        ctx.sizes, ctx.group = (received, sent), group
        output = rows.new_empty(sum(received), *rows.shape[1:])
        dist.all_to_all_single(output, rows.contiguous(), received, sent, group=group)
        return output

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override] # noqa: ANN401
        sent, received = ctx.sizes
        return _exchanged(grad_output, sent, received, ctx.group), None, None, None


class _Total(Function):
    """Sum over processes; its gradient is summed over processes too."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, group: dist.ProcessGroup) -> Tensor:  # noqa: ANN401
        ctx.group = group
        summed = part.clone()
        dist.all_reduce(summed, group=group)
        return summed

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:  # type: ignore[override] # noqa: ANN401
        summed = grad_output.clone()
        dist.all_reduce(summed, group=ctx.group)
        return summed, None
