"""Mixture of experts: many feed-forward parts, of which each token uses the few that a router picks for it."""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn

from regard.config import refuse
from regard.errors import ConfigError
from regard.nn.dropout import Dropout
from regard.nn.feedforward import AnyFeedForwardConfig


class ExpertsConfig(AnyFeedForwardConfig):
    """Many feed-forward experts, a few of them used for each token (Shazeer 2017)."""

    kind: Literal["experts"] = "experts"
    experts: PositiveInt = 8
    """How many there are."""
    chosen: PositiveInt = 2
    """How many each token uses."""
    hidden: PositiveInt | None = None
    """Inner width of each expert; four times the model's width when left out."""
    capacity: PositiveFloat | None = None
    """While training, an expert takes at most this many times its even share of tokens; the rest pass it by and are
    counted. Left out: no limit."""
    balance: NonNegativeFloat = 0.01
    """Weight of the loss that keeps experts evenly used."""
    noise: bool = False
    """Learned noise on the router's scores while training, as in Shazeer 2017."""
    importance: NonNegativeFloat = 0.0
    """Weight of the loss that keeps the sums of the experts' gates even (Shazeer 2017: 0.1, with balance at 0)."""
    load: NonNegativeFloat = 0.0
    """Weight of the loss that keeps the experts' expected numbers of tokens even (Shazeer 2017: 0.1); needs noise."""

    @model_validator(mode="after")
    def _enough(self) -> "ExpertsConfig":
        if self.chosen > self.experts:
            raise refuse("chosen", f"expected at most experts = {self.experts}, got {self.chosen}")
        if self.load and not self.noise:
            raise refuse("load", "what an expert is expected to get is known only under noise; set noise = true")
        return self

    def hidden_of(self, width: int) -> int:
        """The inner width of each expert in a model of this width."""
        return self.hidden or 4 * width

    def build(self, width: int, dropout: float = 0.0) -> "Experts":
        """The module for a model of this width."""
        return Experts(
            width,
            self.hidden_of(width),
            self.experts,
            self.chosen,
            capacity=self.capacity,
            balance=self.balance,
            noise=self.noise,
            importance=self.importance,
            load=self.load,
            dropout=dropout,
        )

    def num_params(self, width: int) -> int:
        """Learned numbers."""
        return self.experts * 2 * width * self.hidden_of(width) + self.experts * width * (1 + self.noise)

    def flops(self, width: int, tokens: int) -> int:
        """Matrix-product FLOPs of one pass over this many tokens: only the chosen experts compute."""
        router = 2 * tokens * width * self.experts
        return router + 4 * tokens * self.chosen * width * self.hidden_of(width)


class Alone:
    """The processes that compute mixtures together: one, which has all tokens and all experts.

    Where experts are divided among several (`regard.train.parallel.experts`), what knows the others takes its place.
    """

    def counted(self, real: Bool[Tensor, " tokens"]) -> Bool[Tensor, " tokens"]:
        """Those of this process's tokens that count."""
        return real

    def total(self, *sums: Tensor) -> tuple[Tensor, ...]:
        """Sums over this process's tokens as sums over all, with a slope."""
        return sums

    def ahead(self, asked: Int[Tensor, "chosen experts"]) -> Int[Tensor, "chosen experts"]:
        """How many tokens of others are served before this process's first one, by choice and expert."""
        return torch.zeros_like(asked)

    def noise(self, scores: Float[Tensor, "tokens experts"], rows: int) -> Float[Tensor, "tokens experts"]:
        """A normal number for each score; the tokens stand in so many rows."""
        return torch.randn_like(scores)

    def computed(self, order: Int[Tensor, " choices"], kept: Bool[Tensor, " choices"]) -> Int[Tensor, " some"]:
        """Which choices are computed: also those that count for nothing, as leaving them out would make us wait."""
        return order

    def compute(
        self, part: "Experts", rows: Float[Tensor, "rows width"], ends: Int[Tensor, " experts"]
    ) -> Float[Tensor, "rows width"]:
        """Rows sorted by expert through their experts."""
        return part.compute(rows, ends)


class Experts(nn.Module):
    """y = Σ_{e ∈ chosen} g_e · W₂ᵉ ReLU(W₁ᵉ x), the gates g a softmax over the chosen experts' router scores.

    Tokens are sorted by expert, and all experts computed in one grouped matrix product each way.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        experts: int,
        chosen: int = 2,
        *,
        capacity: float | None = None,
        balance: float = 0.01,
        noise: bool = False,
        importance: float = 0.0,
        load: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if chosen > experts:
            raise ConfigError("model.feedforward.chosen", f"expected at most experts = {experts}, got {chosen}")
        if load and not noise:
            raise ConfigError("model.feedforward.load", "what an expert is expected to get is known only under noise")
        self.experts, self.chosen, self.capacity = experts, chosen, capacity
        self.balance, self.importance, self.load = balance, importance, load
        self.router = nn.Linear(width, experts, bias=False)
        self.noise = nn.Linear(width, experts, bias=False) if noise else None
        self.up = nn.Parameter(torch.empty(experts, width, hidden))
        self.down = nn.Parameter(torch.empty(experts, hidden, width))
        self.dropout = Dropout(dropout)
        self.company = Alone()
        """The processes among which the experts are divided."""
        self.balance_loss: Tensor | None = None
        """What to add to the loss after a training pass: each kind of unevenness times its weight."""
        self.passed_by: Tensor | None = None
        """Choices that found their expert full in the last pass."""
        for matrix in self.matrices():
            nn.init.xavier_uniform_(matrix)

    def matrices(self) -> list[Tensor]:
        """The matrices of each expert, to be drawn each by itself."""
        return [*self.up.data, *self.down.data]

    def forward(
        self, x: Float[Tensor, "batch time width"], valid: Bool[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time width"]:
        """Each token through its chosen experts; padding (not `valid`) counts for nothing in balance and capacity."""
        tokens = x.flatten(0, 1)
        real = torch.ones_like(tokens[:, 0], dtype=torch.bool) if valid is None else valid.flatten()
        real = self.company.counted(real)
        gates, expert = self.route(tokens, real, len(x))
        kept = self._within_capacity(expert, real)
        weight = (gates * kept).flatten()
        order = self.company.computed(expert.flatten().argsort(stable=True), kept.flatten())
        source = order // self.chosen
        ends = torch.bincount(expert.flatten()[order], minlength=self.experts).cumsum(0).int()
        y = self.company.compute(self, tokens[source], ends) * weight[order, None].to(x.dtype)
        return torch.zeros_like(tokens).index_add(0, source, y.to(x.dtype)).view_as(x)

    def route(
        self, tokens: Float[Tensor, "tokens width"], real: Bool[Tensor, " tokens"], rows: int = 1
    ) -> tuple[Float[Tensor, "tokens chosen"], Int[Tensor, "tokens chosen"]]:
        """Gates and numbers of the experts chosen for each token, of so many rows; a token's gates sum to one."""
        scores = clean = self.router(tokens).float()
        deviation = None
        if self.noise is not None and self.training:
            deviation = F.softplus(self.noise(tokens).float())
            scores = clean + self.company.noise(clean, rows) * deviation
        best, expert = scores.topk(self.chosen, dim=-1)
        gates = best.softmax(-1)
        if self.training:
            self.balance_loss = self.balance * unevenness(scores, expert, real, self.company)
            if self.importance:
                (importance,) = self.company.total(gate_sums(gates, expert, self.experts, real))
                self.balance_loss = self.balance_loss + self.importance * squared_variation(importance)
            if self.load and deviation is not None:
                (load,) = self.company.total(expected_load(clean, scores, deviation, self.chosen, real))
                self.balance_loss = self.balance_loss + self.load * squared_variation(load)
        return gates, expert

    def compute(
        self, tokens: Float[Tensor, "rows width"], ends: Int[Tensor, " experts"]
    ) -> Float[Tensor, "rows width"]:
        """Rows sorted by expert through their experts; expert e has the rows up to `ends[e]`."""
        inner = self.dropout(F.relu(grouped_product(tokens, self.up, ends)))
        return grouped_product(inner, self.down, ends)

    def _within_capacity(
        self, expert: Int[Tensor, "tokens chosen"], real: Bool[Tensor, " tokens"]
    ) -> Bool[Tensor, "tokens chosen"]:
        """True where the chosen expert still has room; first choices are served before second ones."""
        kept = real[:, None].expand_as(expert)
        if self.capacity is not None and self.training:
            (count,) = self.company.total(real.sum())
            limit = (self.capacity * count.double() * self.chosen / self.experts).ceil()
            asked = F.one_hot(expert.T.flatten(), self.experts) * kept.T.flatten()[:, None]
            ahead = self.company.ahead(asked.view(self.chosen, -1, self.experts).sum(1))
            place = (asked.cumsum(0) * asked).sum(-1).view(self.chosen, -1).T + ahead.T.gather(0, expert)
            full = kept & (place > limit)
            (self.passed_by,) = self.company.total(full.sum())
            kept = kept & ~full
        return kept


def unevenness(
    scores: Float[Tensor, "tokens experts"],
    expert: Int[Tensor, "tokens chosen"],
    real: Bool[Tensor, " tokens"],
    company: Alone | None = None,
) -> Float[Tensor, ""]:
    """experts · Σ_e (share of choices that fall on e) · (mean router probability of e): one when used evenly."""
    used = (F.one_hot(expert, scores.shape[-1]).sum(1) * real[:, None]).sum(0)
    liked = (scores.softmax(-1) * real[:, None]).sum(0)
    count, used, liked = (company or Alone()).total(real.sum(), used, liked)
    count = count.clamp(min=1)
    return scores.shape[-1] * (used / (count * expert.shape[1]) * (liked / count)).sum()


def gate_sums(
    gates: Float[Tensor, "tokens chosen"],
    expert: Int[Tensor, "tokens chosen"],
    experts: int,
    real: Bool[Tensor, " tokens"],
) -> Float[Tensor, " experts"]:
    """Importance(e) = Σ_x g_e(x): how much of all that is said an expert says."""
    weight = (gates * real[:, None]).flatten()
    return weight.new_zeros(experts).index_add(0, expert.flatten(), weight)


def expected_load(
    clean: Float[Tensor, "tokens experts"],
    noisy: Float[Tensor, "tokens experts"],
    deviation: Float[Tensor, "tokens experts"],
    chosen: int,
    real: Bool[Tensor, " tokens"],
) -> Float[Tensor, " experts"]:
    """Load(e) = Σ_x P(e is among the chosen if only its own noise is drawn again); unlike a count, it has a slope."""
    if chosen == clean.shape[1]:
        return real.sum().to(clean.dtype).expand(chosen)
    best = noisy.topk(chosen + 1, dim=-1).values
    to_stay, to_enter = best[:, chosen:], best[:, chosen - 1 : chosen]
    threshold = torch.where(noisy > to_stay, to_stay, to_enter)
    return (torch.special.ndtr((clean - threshold) / deviation) * real[:, None]).sum(0)


def squared_variation(x: Float[Tensor, " experts"]) -> Float[Tensor, ""]:
    """CV² = variance / mean²: zero when all are equal, whatever their size."""
    return x.var(correction=0) / (x.mean().square() + 1e-10)


def grouped_product(
    rows: Float[Tensor, "rows n"], matrices: Float[Tensor, "experts n m"], ends: Int[Tensor, " experts"]
) -> Float[Tensor, "rows m"]:
    """Each group of rows times its own matrix, all in one call."""
    matrices = matrices.to(rows.dtype)
    aligned = all(size * rows.element_size() % 16 == 0 for size in matrices.shape[1:])
    if aligned and rows.dtype != torch.float64 and len(rows):
        return F.grouped_mm(rows, matrices, offs=ends)
    return _padded_product(rows, matrices, ends)


def _padded_product(
    rows: Float[Tensor, "rows n"], matrices: Float[Tensor, "experts n m"], ends: Int[Tensor, " experts"]
) -> Float[Tensor, "rows m"]:
    """The same for sizes that the grouped kernel does not take: groups padded to the largest, one batched product."""
    counts = torch.diff(ends, prepend=ends.new_zeros(1)).long()
    group = torch.repeat_interleave(torch.arange(len(counts), device=rows.device), counts)
    place = torch.arange(len(rows), device=rows.device) - (ends.long() - counts)[group]
    grid = rows.new_zeros(len(counts), int(counts.max()) if len(rows) else 0, rows.shape[1])
    grid = grid.index_put((group, place), rows)
    return (grid @ matrices)[group, place]


def balance_loss(model: nn.Module) -> Tensor | None:
    """The balance losses of all mixtures in a model after a training pass, summed; None where there are none."""
    losses = [
        part.balance_loss for part in model.modules() if isinstance(part, Experts) and part.balance_loss is not None
    ]
    return torch.stack(losses).sum() if losses else None
