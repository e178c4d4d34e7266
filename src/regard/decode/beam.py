"""Beam search: the best few sequences of a sentence, side by side.

A beam has `size` places. A hypothesis that ends keeps its place, so the beam narrows as hypotheses finish: a beam of
one is greedy search, and a beam with a place for every sequence is exhaustive. A sentence is done when all places are
finished, when its length limit is reached, or when no open hypothesis can still enter its n best (the proof stands at
`LengthPenalty.bound`).
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor

from regard.config import refuse
from regard.decode.batch import Job
from regard.decode.constraints import NOTHING, RulesConfig
from regard.decode.finished import Finished
from regard.decode.hypothesis import Hypothesis
from regard.decode.penalty import Formula, LengthPenalty
from regard.decode.top_k import top
from regard.decode.trace import Fate, Trace
from regard.errors import Failure


class BeamConfig(RulesConfig):
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
        """The search that these settings describe."""
        penalty = LengthPenalty(self.length_penalty, self.length_formula)
        return BeamSearch(size=self.size, n_best=self.n_best, penalty=penalty)


@dataclass(frozen=True, eq=False)
class Beam:
    """Hypotheses of the sentences that are not done, best first."""

    rows: Int[Tensor, " sentences"]
    """Which row of the job each sentence is."""
    parents: Int[Tensor, "sentences beams"]
    """Which row of the stepper's batch each hypothesis continues."""
    tokens: Int[Tensor, "sentences beams length"]
    logprobs: Float[Tensor, "sentences beams length"]
    totals: Float[Tensor, "sentences beams"]
    """Sum of the log-probabilities; minus infinity in places without a hypothesis."""

    @classmethod
    def unwritten(cls, rows: int, device: torch.device) -> "Beam":
        """One hypothesis a sentence, with nothing in it."""
        row = torch.arange(rows, device=device)
        nothing = torch.zeros(rows, 1, 0, device=device)
        return cls(row, row[:, None], nothing.long(), nothing, torch.zeros(rows, 1, device=device))

    @property
    def standing(self) -> Bool[Tensor, "sentences beams"]:
        """Which places hold a hypothesis."""
        return self.totals > -torch.inf

    def without(self, gone: Bool[Tensor, " sentences #beams"]) -> "Beam":
        """Empties places."""
        return replace(self, totals=self.totals.masked_fill(gone, -torch.inf))

    def take(self, sentences: Int[Tensor, " some #beams"], places: Int[Tensor, "#some beams"]) -> "Beam":
        """The hypotheses in these places of these sentences."""
        parts = (self.parents, self.tokens, self.logprobs, self.totals)
        return Beam(self.rows[sentences[:, 0]], *(part[sentences, places] for part in parts))


class BeamSearch:
    """Beam search with a length penalty, by hand: `BeamSearch(size=5, penalty=LengthPenalty(0.6, "gnmt"))`."""

    def __init__(self, *, size: int = 5, n_best: int = 1, penalty: LengthPenalty | None = None) -> None:
        self.size, self.n_best = size, n_best
        self.penalty = penalty or LengthPenalty()

    def run(self, job: Job, trace: Trace | None = None) -> list[list[Hypothesis]]:
        """The n best hypotheses of each row, best first; each step waits for the device once."""
        if not job.rows:
            return []
        beam, (logits, state) = Beam.unwritten(job.rows, job.device), job.start()
        finished = Finished(job.rows, self.size, max(job.limits), job.device)
        limits, history = torch.tensor(job.limits, device=job.device), job.history()
        while True:
            candidates = self.expand(job, beam, logits, history, watched=trace.top if trace else 0)
            kept = self.prune(candidates, finished)
            if trace:
                _record(trace, candidates, kept, job.eos, beams=beam.totals.shape[1])
            beam = self._regroup(self.finish(kept, finished, limits, job.eos), job.regroup)
            if not len(beam.rows):
                return finished.best(self.n_best)
            state = job.stepper.reorder(state, beam.parents.flatten())
            logits, state = job.stepper.step(beam.tokens[..., -1].reshape(-1, 1), state)
            logits = logits[:, -1]

    def expand(
        self, job: Job, beam: Beam, logits: Float[Tensor, "rows vocab"], history: Int[Tensor, "all past"], watched: int
    ) -> Beam:
        """The best continuations of each sentence's hypotheses by one token, `watched` more than could be kept."""
        sentences, beams, step = beam.tokens.shape
        vocab = logits.shape[-1]
        prompts = history[beam.rows, None].expand(-1, beams, -1)
        written = torch.cat([prompts, beam.tokens], -1).flatten(0, 1)
        logprobs = job.rules.apply(logits.float().log_softmax(-1), written, step).view(sentences, beams, vocab)
        totals = (beam.totals[..., None] + logprobs).flatten(1)
        totals, places = top(totals, min(self.size + watched, beams * vocab))
        sentence = torch.arange(sentences, device=job.device)[:, None]
        parent, token = places // vocab, places % vocab
        return Beam(
            rows=beam.rows,
            parents=sentence * beams + parent,
            tokens=torch.cat([beam.tokens[sentence, parent], token[..., None]], -1),
            logprobs=torch.cat([beam.logprobs[sentence, parent], logprobs.flatten(1).gather(1, places)[..., None]], -1),
            totals=totals,
        )

    def prune(self, candidates: Beam, finished: Finished) -> Beam:
        """Keeps as many candidates as the beam has places that no finished hypothesis holds."""
        room = self.size - finished.count[candidates.rows, None]
        rank = torch.arange(candidates.totals.shape[1], device=room.device)
        return candidates.without(rank >= room)

    def finish(self, kept: Beam, finished: Finished, limits: Int[Tensor, " all"], eos: int | None) -> Beam:
        """Moves out what ended or may not grow; the rest stays open, best first, none where the sentence is done."""
        length = kept.tokens.shape[-1]
        limit = limits[kept.rows]
        ended = kept.standing & (kept.tokens[..., -1] == (NOTHING if eos is None else eos))
        moved = ended | (kept.standing & (limit == length)[:, None])
        scores = self.penalty.score(kept.totals, length)
        finished.add(kept.rows, moved, kept.tokens, kept.logprobs, scores, ended)
        rest = kept.without(moved)
        order = (~rest.standing).int().sort(dim=1, stable=True).indices
        rest = rest.take(torch.arange(len(order), device=order.device)[:, None], order)
        return rest.without(self.hopeless(rest, finished, limit)[:, None])

    def hopeless(self, beam: Beam, finished: Finished, limits: Int[Tensor, " sentences"]) -> Bool[Tensor, " sentences"]:
        """Whether no open hypothesis of a sentence can still enter its n best."""
        return finished.nth_best(beam.rows, self.n_best) >= self.penalty.bound(beam.totals[:, 0], limits)

    def _regroup(self, beam: Beam, drop: bool) -> Beam:
        """Leaves out sentences that are done and places that are empty in all others; here the device is waited for."""
        places = beam.standing.sum(1).where(~beam.totals.isnan().any(1), -1).tolist()
        if min(places) < 0:
            raise Failure("the model's logits are not numbers (NaN); its weights are damaged")
        going = any(places)
        kept = [sentence for sentence, standing in enumerate(places) if going and (standing or not drop)]
        beams = max(places) if drop else min(self.size, beam.totals.shape[1])
        device = beam.rows.device
        sentences = torch.tensor(kept, dtype=torch.long, device=device)
        return beam.take(sentences[:, None], torch.arange(beams, device=device)[None])


def _record(trace: Trace, candidates: Beam, kept: Beam, eos: int | None, beams: int) -> None:
    """Tells a trace what became of each candidate; `beams` is how many places the parents' beam had."""
    step = candidates.tokens.shape[-1] - 1
    parts = (candidates.parents % beams, candidates.tokens[..., -1], candidates.logprobs[..., -1], candidates.totals)
    columns = [part.tolist() for part in (*parts, kept.standing, candidates.standing)]
    for row, *sentence in zip(candidates.rows.tolist(), *columns, strict=True):
        considered: list[tuple[int, int, float, float, Fate]] = []
        for parent, token, logprob, total, standing, possible in zip(*sentence, strict=True):
            fate: Fate = "pruned" if not standing else "finished" if token == eos else "kept"
            if possible:
                considered.append((parent, token, logprob, total, fate))
        trace.record_branches(row, step, considered)
