"""Sampling: the next token is drawn at random, by numbers that depend on nothing but the row.

Filters are pure functions between distributions: log-probabilities in, normalised log-probabilities out. None changes
which of two tokens that it keeps is the likelier; of equally likely tokens, lower ids are kept.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor

from regard.config import refuse
from regard.decode.constraints import SearchBase, occurring_tokens, stable_top_k
from regard.decode.job import Job
from regard.decode.stepwise import Choose, Stepwise


class SampleConfig(SearchBase):
    """Samples each token from the model's distribution, or from a filtered one."""

    kind: Literal["sample"] = "sample"
    temperature: float = Field(1.0, ge=0, allow_inf_nan=False)
    """Below one prefers likely tokens more, above one less; 0 always takes the likeliest."""
    top_k: int | None = Field(None, gt=0)
    """Sample among this many likeliest tokens only."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Sample among the fewest likeliest tokens whose probabilities reach this."""
    min_p: float = Field(0.0, ge=0, le=1)
    """Sample among tokens at least this many times as likely as the likeliest."""
    repetition_penalty: float = Field(1.0, gt=0, allow_inf_nan=False)
    """Above one makes tokens of the prompt and the text so far rarer: p becomes p to this power."""
    samples: int = Field(1, gt=0)
    """Sequences to sample for each input."""
    seed: int = Field(1, ge=0)
    """The same seed samples the same sequence for the same input, whatever else is in the batch."""

    @model_validator(mode="after")
    def _samples_at_all(self) -> "SampleConfig":
        for name in ("top_k", "top_p", "min_p", "samples", "seed") if not self.temperature else ():
            if getattr(self, name) != SampleConfig.model_fields[name].default:
                raise refuse(name, "nothing is sampled at temperature 0; leave it out, or set a temperature above 0")
        return self

    def build(self) -> "Sampler":
        return Sampler(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            samples=self.samples,
            seed=self.seed,
        )


@dataclass(kw_only=True, eq=False)
class Sampler(Stepwise):
    """Samples each token from the model's distribution, filtered in the order of the fields."""

    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    samples: int = 1
    seed: int = 1

    def chooser(self, job: Job) -> Choose:
        """Samples by numbers that are fixed before the first step, for each sequence its own."""
        numbers = [np.random.default_rng(seed).random(max(job.limits)) for seed in self.seeds(job)]
        uniforms = torch.as_tensor(np.stack(numbers), device=job.device)

        def choose(allowed: Tensor, history: Tensor, sequences: Tensor, step: int) -> Tensor:
            logprobs = self.filter(allowed, history)
            return logprobs.argmax(-1) if self.temperature == 0 else sample_tokens(logprobs, uniforms[sequences, step])

        return choose

    def seeds(self, job: Job) -> list[list[int]]:
        """What seeds the generator of each sequence: neither its place in the batch nor its neighbours matter."""
        inputs = list(zip(job.source_tokens(), job.prompts, strict=True))
        return [
            [self.seed, sample, len(source), *source, *prompt]
            for source, prompt in inputs
            for sample in range(self.samples)
        ]

    def filter(
        self, logprobs: Float[Tensor, "rows vocab"], history: Int[Tensor, "rows past"]
    ) -> Float[Tensor, "rows vocab"]:
        if self.repetition_penalty != 1:
            seen = occurring_tokens(history, logprobs.shape[-1])
            logprobs = penalise_repeats(logprobs, seen, self.repetition_penalty)
        if self.temperature not in (0, 1):
            logprobs = apply_temperature(logprobs, self.temperature)
        if self.top_k is not None:
            logprobs = keep_top_k(logprobs, self.top_k)
        if self.top_p < 1:
            logprobs = keep_top_p(logprobs, self.top_p)
        if self.min_p > 0:
            logprobs = keep_min_p(logprobs, self.min_p)
        return logprobs


def apply_temperature(logprobs: Float[Tensor, "rows vocab"], temperature: float) -> Float[Tensor, "rows vocab"]:
    """Sharpens (below one) or flattens (above one): p becomes p^(1/temperature), renormalised."""
    best = logprobs.amax(-1, keepdim=True)  # subtracted first, as tiny temperatures would overflow
    return ((logprobs - best) / temperature).log_softmax(-1)


def keep_top_k(logprobs: Float[Tensor, "rows vocab"], k: int) -> Float[Tensor, "rows vocab"]:
    """Keeps the k likeliest tokens, exactly k where at least k are possible."""
    if k >= logprobs.shape[-1]:
        return logprobs.log_softmax(-1)
    tokens = stable_top_k(logprobs, k)[1]
    return _keep(logprobs, torch.zeros_like(logprobs, dtype=torch.bool).scatter_(-1, tokens, True))


def keep_top_p(logprobs: Float[Tensor, "rows vocab"], p: float) -> Float[Tensor, "rows vocab"]:
    """Keeps the nucleus: the smallest set of tokens whose probabilities reach p, the likeliest always."""
    if p >= 1:
        return logprobs.log_softmax(-1)
    ranked, tokens = logprobs.log_softmax(-1).sort(dim=-1, descending=True, stable=True)
    cumulative = ranked.double().exp().cumsum(-1)
    needed = cumulative.roll(1, -1) < p  # a token is needed while those before it fall short of p
    needed[..., 0] = True
    return _keep(logprobs, torch.zeros_like(needed).scatter_(-1, tokens, needed))


def keep_min_p(logprobs: Float[Tensor, "rows vocab"], p: float) -> Float[Tensor, "rows vocab"]:
    """Keeps tokens at least p times as likely as the likeliest."""
    ratio = (logprobs - logprobs.amax(-1, keepdim=True)).double().exp()
    return _keep(logprobs, ratio >= p)


def penalise_repeats(
    logprobs: Float[Tensor, "rows vocab"], seen: Bool[Tensor, "rows vocab"], penalty: float
) -> Float[Tensor, "rows vocab"]:
    """Makes tokens that occurred before rarer: their p becomes p^penalty, renormalised.

    CTRL's rule divides positive logits and multiplies negative ones, which depends on an arbitrary
    shift of the logits; here it is applied to log-probabilities.
    """
    return torch.where(seen, logprobs * penalty, logprobs).log_softmax(-1)


def sample_tokens(logprobs: Float[Tensor, "rows vocab"], uniforms: Float[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """Inverse-transform sampling: the token whose interval of the cumulative distribution holds the row's number."""
    cumulative = logprobs.double().exp().cumsum(-1)
    point = uniforms.double()[:, None] * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, point, right=True)[:, 0]
    return tokens.clamp(max=logprobs.shape[-1] - 1)  # NaN leads beyond the end, and is refused by its log-probability


def _keep(logprobs: Float[Tensor, "rows vocab"], mask: Bool[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
    return logprobs.masked_fill(~mask, -torch.inf).log_softmax(-1)
