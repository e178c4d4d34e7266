"""Greedy search: always the likeliest token."""

from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.job import Job
from regard.decode.rules import RulesConfig
from regard.decode.stepwise import Batch, Choose, Stepwise


class GreedyConfig(RulesConfig):
    """Always the likeliest next token; the lower id where several are equally likely."""

    kind: Literal["greedy"] = "greedy"

    def build(self) -> "Greedy":
        """The search that these settings describe."""
        return Greedy()


class Greedy(Stepwise):
    """Always the likeliest next token."""

    def chooser(self, job: Job) -> Choose:
        """The same choice for every job."""
        return likeliest

    def pick(self, choose: Choose, batch: Batch, number: int) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        """The likeliest token in each place; on a GPU by one kernel, where nothing depends on what was written."""
        if batch.logits.device.type != "cuda" or batch.job.rules.no_repeat_ngram:
            return super().pick(choose, batch, number)
        from regard.decode.likeliest_kernel import likeliest as by_one_kernel

        return by_one_kernel(batch.logits, batch.job.rules.forbidden(number))


def likeliest(
    allowed: Float[Tensor, "rows vocab"], history: Int[Tensor, "rows past"], sequences: Int[Tensor, " rows"], step: int
) -> Int[Tensor, " rows"]:
    """The token of highest log-probability in each row; the lowest id wins ties."""
    return allowed.argmax(-1)
