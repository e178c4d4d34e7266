"""Beam search: the best few sequences of a sentence, side by side.

Each step expands all open hypotheses by one token, prunes the candidates to the beam's size, and moves out those that
finish. A finished hypothesis keeps its slot, so the beam narrows: a beam of one is greedy search, and one with a slot
for every sequence is exhaustive. A sentence is complete when all slots are finished, when its length limit is reached,
or when no open hypothesis can still enter its n best (proof at `LengthPenalty.bound`).
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor

from regard.config import refuse
from regard.config.search_options import Formula, length_divisor
from regard.decode.constraints import NO_TOKEN, SearchBase, stable_top_k
from regard.decode.job import Hypothesis, Job
from regard.decode.trace import Fate, Trace
from regard.errors import Failure
from regard.nn.device import to_list


class BeamConfig(SearchBase):
    """Keeps the best few sequences side by side; the more, the better the best one and the slower."""

    kind: Literal["beam"] = "beam"
    size: int = Field(5, gt=0)
    """Sequences kept side by side; 1 is greedy search."""
    n_best: int = Field(1, gt=0)
    """Sequences to return for each input, best first."""
    length_penalty: float = Field(1.0, ge=0, allow_inf_nan=False)
    """How strongly long sequences are favoured: the power alpha of the formula; 0 compares plain probabilities."""
    length_formula: Formula = "power"
    """What the log-probability is divided by: `power` is length^alpha, `gnmt` is ((5 + length) / 6)^alpha."""

    @model_validator(mode="after")
    def _n_best_fits(self) -> "BeamConfig":
        if self.n_best > self.size:
            raise refuse("n_best", f"expected at most the beam's size ({self.size}), got {self.n_best}")
        if not self.length_penalty and self.length_formula != "power":
            raise refuse("length_formula", "every formula is 1 with length_penalty 0; leave it out")
        return self

    def build(self) -> "BeamSearch":
        penalty = LengthPenalty(self.length_penalty, self.length_formula)
        return BeamSearch(size=self.size, n_best=self.n_best, penalty=penalty)


@dataclass(frozen=True)
class LengthPenalty:
    """A hypothesis of log-probability s and length l (the end token counted) scores s / lp(l): `length_divisor`."""

    alpha: float = 1.0
    formula: Formula = "power"

    def divisor(self, lengths: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return length_divisor(lengths.double(), self.alpha, self.formula).float()

    def score(self, totals: Float[Tensor, "*shape"], length: int) -> Float[Tensor, "*shape"]:
        """s / lp(l), for hypotheses of one length."""
        return totals / self.divisor(torch.full_like(totals, length, dtype=torch.long))

    def bound(self, totals: Float[Tensor, "*shape"], limits: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The highest score that open hypotheses of these log-probabilities can still reach: s / lp(L).

        Proof. Let s ≤ 0 be the log-probability of an open hypothesis and L the most tokens it may come to have. Each
        further token adds a log-probability ≤ 0, so any finished continuation has s' ≤ s and a length l ≤ L. As
        lp(l) > 0, s' / lp(l) ≤ s / lp(l); as s ≤ 0 and 0 < lp(l) ≤ lp(L), s / lp(l) ≤ s / lp(L). Rounding keeps both
        steps: sums and quotients of floats are rounded in an order-preserving way, and powers are taken in double
        precision, whose error is far below the difference between two lengths. ∎

        So a sentence is complete once its n-th best finished score is at least the bound of its best open hypothesis:
        later ones score no higher than the n best do, and among equal scores the one that finished first is kept.
        """
        return totals / self.divisor(limits)


@dataclass(frozen=True, eq=False)
class Beam:
    """Open hypotheses of the sentences that are not complete, best first."""

    rows: Int[Tensor, " sentences"]
    """Which row of the job each sentence is."""
    parents: Int[Tensor, "sentences beams"]
    """Which row of the stepper's batch each hypothesis continues."""
    tokens: Int[Tensor, "sentences beams length"]
    logprobs: Float[Tensor, "sentences beams length"]
    totals: Float[Tensor, "sentences beams"]
    """Sum of the log-probabilities; minus infinity in empty slots."""

    @classmethod
    def initial(cls, rows: int, device: torch.device) -> "Beam":
        row = torch.arange(rows, device=device)
        empty = torch.zeros(rows, 1, 0, device=device)
        return cls(row, row[:, None], empty.long(), empty, torch.zeros(rows, 1, device=device))

    @property
    def occupied(self) -> Bool[Tensor, "sentences beams"]:
        return self.totals > -torch.inf

    def without(self, removed: Bool[Tensor, " sentences #beams"]) -> "Beam":
        return replace(self, totals=self.totals.masked_fill(removed, -torch.inf))

    def take(self, sentences: Int[Tensor, " some #beams"], slots: Int[Tensor, "#some beams"]) -> "Beam":
        parts = (self.parents, self.tokens, self.logprobs, self.totals)
        return Beam(self.rows[sentences[:, 0]], *(part[sentences, slots] for part in parts))


class FinishedHypotheses:
    """Up to `size` hypotheses a row, in the order they finished."""

    def __init__(self, rows: int, size: int, longest: int, device: torch.device) -> None:
        self.size = size
        # a spare slot takes what is not kept: selecting by a mask would wait for the device
        slots = (rows, size + 1)
        self.tokens = torch.zeros(*slots, longest, dtype=torch.long, device=device)
        self.logprobs = torch.zeros(*slots, longest, device=device)
        self.scores = torch.full(slots, -torch.inf, device=device)
        self.lengths = torch.zeros(slots, dtype=torch.long, device=device)
        self.ended = torch.zeros(slots, dtype=torch.bool, device=device)
        self.count = torch.zeros(rows, dtype=torch.long, device=device)

    def add(
        self,
        rows: Int[Tensor, " sentences"],
        mask: Bool[Tensor, "sentences some"],
        tokens: Int[Tensor, "sentences some length"],
        logprobs: Float[Tensor, "sentences some length"],
        scores: Float[Tensor, "sentences some"],
        ended: Bool[Tensor, "sentences some"],
    ) -> None:
        """Adds the hypotheses under `mask`; `ended`: those with their end token."""
        slot = self.count[rows, None] + mask.cumsum(1) - 1
        index = (rows[:, None], slot.where(mask, self.size))
        length = tokens.shape[-1]
        self.tokens[(*index, slice(length))] = tokens
        self.logprobs[(*index, slice(length))] = logprobs
        self.scores[index] = scores
        self.lengths[index] = length
        self.ended[index] = ended
        self.count[rows] += mask.sum(1)

    def nth_best(self, rows: Int[Tensor, " sentences"], n: int) -> Float[Tensor, " sentences"]:
        """The n-th best score of each row; minus infinity where fewer have finished."""
        return self.scores[rows, : self.size].topk(n, dim=1).values[:, -1]

    def best(self, n: int) -> list[list[Hypothesis]]:
        """The n best of each row: ended before cut, then by score, then the earlier first."""
        parts = (self.tokens, self.logprobs, self.scores, self.lengths, self.ended)
        slots = zip(*(to_list(part.flatten(0, 1)) for part in parts), strict=True)
        hypotheses = [_hypothesis(*slot) for slot in slots]
        starts = range(0, len(hypotheses), self.size + 1)
        rows = [hypotheses[start : start + count] for start, count in zip(starts, to_list(self.count), strict=True)]
        return [sorted(row, key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))[:n] for row in rows]


@dataclass(frozen=True, kw_only=True)
class BeamSearch:
    """Beam search with a length penalty, by hand: `BeamSearch(size=5, penalty=LengthPenalty(0.6, "gnmt"))`."""

    size: int = 5
    n_best: int = 1
    penalty: LengthPenalty = LengthPenalty()

    def run(self, job: Job, trace: Trace | None = None) -> list[list[Hypothesis]]:
        """The n best hypotheses of each row, best first; each step waits for the device once."""
        if not job.rows:
            return []
        beam, (logits, state) = Beam.initial(job.rows, job.device), job.start()
        finished = FinishedHypotheses(job.rows, self.size, max(job.limits), job.device)
        limits, history = torch.tensor(job.limits, device=job.device), job.history()
        while True:
            candidates = self.expand(job, beam, logits, history, extra=trace.top if trace else 0)
            pruned = self.prune(candidates, finished)
            if trace:
                _record(trace, candidates, pruned, job.eos, beams=beam.totals.shape[1])
            beam = self._regroup(self.finish(pruned, finished, limits, job.eos), job.regroup)
            if not len(beam.rows):
                return finished.best(self.n_best)
            state = job.stepper.reorder(state, beam.parents.flatten())
            logits, state = job.stepper.step(beam.tokens[..., -1].reshape(-1, 1), state)
            logits = logits[:, -1]

    def expand(
        self, job: Job, beam: Beam, logits: Float[Tensor, "rows vocab"], history: Int[Tensor, "all past"], extra: int
    ) -> Beam:
        """The best continuations of each sentence's hypotheses by one token, `extra` more than the beam can keep."""
        sentences, beams, step = beam.tokens.shape
        vocab = logits.shape[-1]
        prompts = history[beam.rows, None].expand(-1, beams, -1)
        past = torch.cat([prompts, beam.tokens], -1).flatten(0, 1)
        logprobs = job.constraints.apply(logits.float().log_softmax(-1), past, step).view(sentences, beams, vocab)
        totals = (beam.totals[..., None] + logprobs).flatten(1)
        totals, indices = stable_top_k(totals, min(self.size + extra, beams * vocab))
        sentence = torch.arange(sentences, device=job.device)[:, None]
        parent, token, logprob = indices // vocab, indices % vocab, logprobs.flatten(1).gather(1, indices)
        return Beam(
            rows=beam.rows,
            parents=sentence * beams + parent,
            tokens=torch.cat([beam.tokens[sentence, parent], token[..., None]], -1),
            logprobs=torch.cat([beam.logprobs[sentence, parent], logprob[..., None]], -1),
            totals=totals,
        )

    def prune(self, candidates: Beam, finished: FinishedHypotheses) -> Beam:
        """Keeps as many candidates as the beam has slots without a finished hypothesis."""
        free_slots = self.size - finished.count[candidates.rows, None]
        rank = torch.arange(candidates.totals.shape[1], device=free_slots.device)
        return candidates.without(rank >= free_slots)

    def finish(self, beam: Beam, finished: FinishedHypotheses, limits: Int[Tensor, " all"], eos: int | None) -> Beam:
        """Moves out what ended or reached its limit; the rest stays open, best first, none of a complete sentence."""
        length = beam.tokens.shape[-1]
        limit = limits[beam.rows]
        ended = beam.occupied & (beam.tokens[..., -1] == (NO_TOKEN if eos is None else eos))
        moved = ended | (beam.occupied & (limit == length)[:, None])
        scores = self.penalty.score(beam.totals, length)
        finished.add(beam.rows, moved, beam.tokens, beam.logprobs, scores, ended)
        rest = beam.without(moved)
        order = (~rest.occupied).int().sort(dim=1, stable=True).indices
        rest = rest.take(torch.arange(len(order), device=order.device)[:, None], order)
        return rest.without(self.is_complete(rest, finished, limit)[:, None])

    def is_complete(
        self, beam: Beam, finished: FinishedHypotheses, limits: Int[Tensor, " sentences"]
    ) -> Bool[Tensor, " sentences"]:
        """Whether no open hypothesis of a sentence can still enter its n best."""
        return finished.nth_best(beam.rows, self.n_best) >= self.penalty.bound(beam.totals[:, 0], limits)

    def _regroup(self, beam: Beam, drop: bool) -> Beam:
        """Drops complete sentences, and slots that are empty in all others; this waits for the device."""
        open_slots: list[int] = to_list(beam.occupied.sum(1).where(~beam.totals.isnan().any(1), -1))
        if min(open_slots) < 0:
            raise Failure("the model's logits are NaN; its weights are damaged")
        remaining = [sentence for sentence, slots in enumerate(open_slots) if any(open_slots) and (slots or not drop)]
        beams = max(open_slots) if drop else min(self.size, beam.totals.shape[1])
        device = beam.rows.device
        sentences = torch.tensor(remaining, dtype=torch.long, device=device)
        return beam.take(sentences[:, None], torch.arange(beams, device=device)[None])


def _record(trace: Trace, candidates: Beam, pruned: Beam, eos: int | None, beams: int) -> None:
    """Records what became of each candidate; `beams` is the number of slots of the parents' beam."""
    step = candidates.tokens.shape[-1] - 1
    parts = (candidates.parents % beams, candidates.tokens[..., -1], candidates.logprobs[..., -1], candidates.totals)
    columns = [to_list(part) for part in (*parts, pruned.occupied, candidates.occupied)]
    for row, *sentence in zip(to_list(candidates.rows), *columns, strict=True):
        considered: list[tuple[int, int, float, float, Fate]] = []
        for parent, token, logprob, total, is_kept, possible in zip(*sentence, strict=True):
            fate: Fate = "pruned" if not is_kept else "finished" if token == eos else "kept"
            if possible:
                considered.append((parent, token, logprob, total, fate))
        trace.record_branches(row, step, considered)


def _hypothesis(tokens: list[int], logprobs: list[float], score: float, length: int, ended: bool) -> Hypothesis:
    return Hypothesis(tokens[: length - ended], score, logprobs[:length], finished=ended)
