"""Mixture of experts: many feed-forward networks, of which a router selects a few for each token."""

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
    """Number of experts."""
    chosen: PositiveInt = 2
    """Experts per token (top-k)."""
    hidden: PositiveInt | None = None
    """Hidden width of each expert; four times the model's width when left out."""
    capacity: PositiveFloat | None = None
    """Capacity factor: in training, an expert takes at most this many times its even share of tokens; the rest are
    dropped and counted. Left out: no limit."""
    balance: NonNegativeFloat = 0.01
    """Weight of the load-balancing loss."""
    noise: bool = False
    """Learned noise on the router's logits in training (noisy top-k gating, Shazeer 2017)."""
    importance: NonNegativeFloat = 0.0
    """Weight of the importance loss, which balances the sums of gates (Shazeer 2017: 0.1, with balance at 0)."""
    load: NonNegativeFloat = 0.0
    """Weight of the load loss, which balances the expected tokens per expert (Shazeer 2017: 0.1); needs noise."""

    @model_validator(mode="after")
    def _enough(self) -> "ExpertsConfig":
        if self.chosen > self.experts:
            raise refuse("chosen", f"expected at most experts = {self.experts}, got {self.chosen}")
        if self.load and not self.noise:
            raise refuse("load", "what an expert is expected to get is known only under noise; set noise = true")
        return self

    def hidden_of(self, width: int) -> int:
        return self.hidden or 4 * width

    def build(self, width: int, dropout: float = 0.0) -> "Experts":
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
        return self.experts * 2 * width * self.hidden_of(width) + self.experts * width * (1 + self.noise)

    def flops(self, width: int, tokens: int) -> int:
        """Matmul FLOPs: only the chosen experts compute."""
        router = 2 * tokens * width * self.experts
        return router + 4 * tokens * self.chosen * width * self.hidden_of(width)


class SingleProcess:
    """The processes that share the experts: one, with all tokens and all experts.

    Expert parallelism (`regard.train.parallel.experts`) replaces it by a group that communicates.
    """

    def counted(self, real: Bool[Tensor, " tokens"]) -> Bool[Tensor, " tokens"]:
        """This process's tokens that are no padding."""
        return real

    def total(self, *sums: Tensor) -> tuple[Tensor, ...]:
        """Sums over this process's tokens reduced over all processes, with gradient."""
        return sums

    def ahead(self, requests: Int[Tensor, "chosen experts"]) -> Int[Tensor, "chosen experts"]:
        """Tokens of other processes served before this one's first, by choice and expert."""
        return torch.zeros_like(requests)

    def noise(self, scores: Float[Tensor, "tokens experts"], rows: int) -> Float[Tensor, "tokens experts"]:
        """Normal noise for each score; the tokens come from so many rows."""
        return torch.randn_like(scores)

    def computed(self, order: Int[Tensor, " choices"], served: Bool[Tensor, " choices"]) -> Int[Tensor, " some"]:
        """The choices to compute: also dropped ones, as filtering them would synchronise with the GPU."""
        return order

    def compute(
        self, part: "Experts", rows: Float[Tensor, "rows width"], ends: Int[Tensor, " experts"]
    ) -> Float[Tensor, "rows width"]:
        """Rows sorted by expert through their experts."""
        return part.compute(rows, ends)


class Experts(nn.Module):
    """y = Σ_{e ∈ chosen} g_e · W₂ᵉ ReLU(W₁ᵉ x), the gates g a softmax over the chosen experts' router scores.

    Tokens are sorted by expert, and all experts computed by one grouped matmul each way.
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
        self.expert_group = SingleProcess()
        """The processes among which the experts are divided."""
        self.balance_loss: Tensor | None = None
        """The weighted balancing losses of the last training pass."""
        self.dropped_choices: Tensor | None = None
        """Choices that exceeded their expert's capacity in the last pass."""
        for matrix in self.matrices():
            nn.init.xavier_uniform_(matrix)

    def matrices(self) -> list[Tensor]:
        """The matrices of each expert, initialised separately."""
        return [*self.up.data, *self.down.data]

    def forward(
        self, x: Float[Tensor, "batch time width"], valid: Bool[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time width"]:
        """Each token through its chosen experts; padding (not `valid`) is ignored in balance and capacity."""
        tokens = x.flatten(0, 1)
        real = torch.ones_like(tokens[:, 0], dtype=torch.bool) if valid is None else valid.flatten()
        real = self.expert_group.counted(real)
        gates, expert = self.route(tokens, real, len(x))
        served = self._within_capacity(expert, real)
        weight = (gates * served).flatten()
        order = self.expert_group.computed(expert.flatten().argsort(stable=True), served.flatten())
        source = order // self.chosen
        ends = torch.bincount(expert.flatten()[order], minlength=self.experts).cumsum(0).int()
        y = self.expert_group.compute(self, tokens[source], ends) * weight[order, None].to(x.dtype)
        return torch.zeros_like(tokens).index_add(0, source, y.to(x.dtype)).view_as(x)

    def route(
        self, tokens: Float[Tensor, "tokens width"], real: Bool[Tensor, " tokens"], rows: int = 1
    ) -> tuple[Float[Tensor, "tokens chosen"], Int[Tensor, "tokens chosen"]]:
        """Gates and indices of the experts chosen for each token; a token's gates sum to one."""
        scores = clean = self.router(tokens).float()
        deviation = None
        if self.noise is not None and self.training:
            deviation = F.softplus(self.noise(tokens).float())
            scores = clean + self.expert_group.noise(clean, rows) * deviation
        best, expert = scores.topk(self.chosen, dim=-1)
        gates = best.softmax(-1)
        if self.training:
            self.balance_loss = self.balance * load_balance(scores, expert, real, self.expert_group)
            if self.importance:
                (importance,) = self.expert_group.total(gate_sums(gates, expert, self.experts, real))
                self.balance_loss = self.balance_loss + self.importance * squared_variation(importance)
            if self.load and deviation is not None:
                (load,) = self.expert_group.total(expected_load(clean, scores, deviation, self.chosen, real))
                self.balance_loss = self.balance_loss + self.load * squared_variation(load)
        return gates, expert

    def compute(
        self, tokens: Float[Tensor, "rows width"], ends: Int[Tensor, " experts"]
    ) -> Float[Tensor, "rows width"]:
        """Rows sorted by expert through their experts; expert e has the rows up to `ends[e]`."""
        inner = self.dropout(F.relu(grouped_matmul(tokens, self.up, ends)))
        return grouped_matmul(inner, self.down, ends)

    def _within_capacity(
        self, expert: Int[Tensor, "tokens chosen"], real: Bool[Tensor, " tokens"]
    ) -> Bool[Tensor, "tokens chosen"]:
        """True where the chosen expert has capacity left; first choices are served before second ones."""
        served = real[:, None].expand_as(expert)
        if self.capacity is not None and self.training:
            (count,) = self.expert_group.total(real.sum())
            limit = (self.capacity * count.double() * self.chosen / self.experts).ceil()
            requests = F.one_hot(expert.T.flatten(), self.experts) * served.T.flatten()[:, None]
            ahead = self.expert_group.ahead(requests.view(self.chosen, -1, self.experts).sum(1))
            position = (requests.cumsum(0) * requests).sum(-1).view(self.chosen, -1).T + ahead.T.gather(0, expert)
            full = served & (position > limit)
            (self.dropped_choices,) = self.expert_group.total(full.sum())
            served = served & ~full
        return served


def load_balance(
    scores: Float[Tensor, "tokens experts"],
    expert: Int[Tensor, "tokens chosen"],
    real: Bool[Tensor, " tokens"],
    expert_group: SingleProcess | None = None,
) -> Float[Tensor, ""]:
    """experts · Σ_e (share of choices that fall on e) · (mean router probability of e): one when used evenly."""
    used = (F.one_hot(expert, scores.shape[-1]).sum(1) * real[:, None]).sum(0)
    probability = (scores.softmax(-1) * real[:, None]).sum(0)
    count, used, probability = (expert_group or SingleProcess()).total(real.sum(), used, probability)
    count = count.clamp(min=1)
    return scores.shape[-1] * (used / (count * expert.shape[1]) * (probability / count)).sum()


def gate_sums(
    gates: Float[Tensor, "tokens chosen"],
    expert: Int[Tensor, "tokens chosen"],
    experts: int,
    real: Bool[Tensor, " tokens"],
) -> Float[Tensor, " experts"]:
    """Importance(e) = Σ_x g_e(x)."""
    weight = (gates * real[:, None]).flatten()
    return weight.new_zeros(experts).index_add(0, expert.flatten(), weight)


def expected_load(
    clean: Float[Tensor, "tokens experts"],
    noisy: Float[Tensor, "tokens experts"],
    deviation: Float[Tensor, "tokens experts"],
    chosen: int,
    real: Bool[Tensor, " tokens"],
) -> Float[Tensor, " experts"]:
    """Load(e) = Σ_x P(e is among the chosen if only its noise is resampled); unlike a count, differentiable."""
    if chosen == clean.shape[1]:
        return real.sum().to(clean.dtype).expand(chosen)
    best = noisy.topk(chosen + 1, dim=-1).values
    to_stay, to_enter = best[:, chosen:], best[:, chosen - 1 : chosen]
    threshold = torch.where(noisy > to_stay, to_stay, to_enter)
    return (torch.special.ndtr((clean - threshold) / deviation) * real[:, None]).sum(0)


def squared_variation(x: Float[Tensor, " experts"]) -> Float[Tensor, ""]:
    """CV² = variance / mean²: zero when all are equal, whatever their size."""
    return x.var(correction=0) / (x.mean().square() + 1e-10)


def grouped_matmul(
    rows: Float[Tensor, "rows n"], matrices: Float[Tensor, "experts n m"], ends: Int[Tensor, " experts"]
) -> Float[Tensor, "rows m"]:
    """Each group of rows times its own matrix."""
    matrices = matrices.to(rows.dtype)
    aligned = all(size * rows.element_size() % 16 == 0 for size in matrices.shape[1:])
    if aligned and rows.dtype != torch.float64 and len(rows):
        return F.grouped_mm(rows, matrices, offs=ends)
    return _padded_matmul(rows, matrices, ends)


def _padded_matmul(
    rows: Float[Tensor, "rows n"], matrices: Float[Tensor, "experts n m"], ends: Int[Tensor, " experts"]
) -> Float[Tensor, "rows m"]:
    """For sizes that the grouped kernel does not take: groups padded to the largest, one batched matmul."""
    counts = torch.diff(ends, prepend=ends.new_zeros(1)).long()
    group = torch.repeat_interleave(torch.arange(len(counts), device=rows.device), counts)
    position = torch.arange(len(rows), device=rows.device) - (ends.long() - counts)[group]
    grid = rows.new_zeros(len(counts), int(counts.max()) if len(rows) else 0, rows.shape[1])
    grid = grid.index_put((group, position), rows)
    return (grid @ matrices)[group, position]


def balance_loss(model: nn.Module) -> Tensor | None:
    """The summed balancing losses of all mixtures of a model; None without mixtures."""
    losses = [
        part.balance_loss for part in model.modules() if isinstance(part, Experts) and part.balance_loss is not None
    ]
    return torch.stack(losses).sum() if losses else None
