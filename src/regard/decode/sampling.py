"""Sampling: the next token is drawn at random, and a row's draws depend on nothing but the row."""

from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor

from regard.config import refuse
from regard.decode.batch import Job
from regard.decode.constraints import RulesConfig, marked
from regard.decode.filters import draw, keep_min_p, keep_top_k, keep_top_p, penalise_repeats, temper
from regard.decode.stepwise import Choose, Stepwise


class SampleConfig(RulesConfig):
    """Draws each token at random, from the model's distribution or a narrowed one."""

    kind: Literal["sample"] = "sample"
    temperature: float = Field(1.0, ge=0, allow_inf_nan=False)
    """Below one prefers likely tokens more, above one less; 0 always takes the likeliest."""
    top_k: int | None = Field(None, gt=0)
    """Draw among this many likeliest tokens only."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Draw among the fewest likeliest tokens whose probabilities reach this."""
    min_p: float = Field(0.0, ge=0, le=1)
    """Draw among tokens at least this many times as likely as the likeliest."""
    repetition_penalty: float = Field(1.0, gt=0, allow_inf_nan=False)
    """Above one makes tokens that stand in the prompt or were written already rarer: p becomes p to this power."""
    samples: int = Field(1, gt=0)
    """Sequences to draw for each input."""
    seed: int = Field(1, ge=0)
    """The same seed draws the same sequence for the same input, whatever else is in the batch."""

    @model_validator(mode="after")
    def _draws(self) -> "SampleConfig":
        for name in ("top_k", "top_p", "min_p", "samples", "seed") if not self.temperature else ():
            if getattr(self, name) != SampleConfig.model_fields[name].default:
                raise refuse(name, "nothing is drawn at temperature 0; leave it out, or set a temperature above 0")
        return self

    def build(self) -> "Sampler":
        """The search that these settings describe."""
        return Sampler(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            samples=self.samples,
            seed=self.seed,
        )


class Sampler(Stepwise):
    """Draws each token from the model's distribution, narrowed by filters in the order of the arguments."""

    def __init__(
        self,
        *,
        repetition_penalty: float = 1.0,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        min_p: float = 0.0,
        samples: int = 1,
        seed: int = 1,
    ) -> None:
        self.repetition_penalty = repetition_penalty
        self.temperature = temperature
        self.top_k, self.top_p, self.min_p = top_k, top_p, min_p
        self.samples, self.seed = samples, seed

    def chooser(self, job: Job) -> Choose:
        """Draws with numbers that were fixed before the first step, for each sequence its own."""
        uniforms = row_uniforms(job, self.samples, self.seed)

        def choose(allowed: Tensor, history: Tensor, sequences: Tensor, step: int) -> Tensor:
            narrowed = self.narrow(allowed, history)
            return narrowed.argmax(-1) if self.temperature == 0 else draw(narrowed, uniforms[sequences, step])

        return choose

    def narrow(
        self, logprobs: Float[Tensor, "rows vocab"], history: Int[Tensor, "rows past"]
    ) -> Float[Tensor, "rows vocab"]:
        """The distribution to draw from."""
        if self.repetition_penalty != 1:
            logprobs = penalise_repeats(logprobs, marked(history, logprobs.shape[-1]), self.repetition_penalty)
        if self.temperature not in (0, 1):
            logprobs = temper(logprobs, self.temperature)
        if self.top_k is not None:
            logprobs = keep_top_k(logprobs, self.top_k)
        if self.top_p < 1:
            logprobs = keep_top_p(logprobs, self.top_p)
        if self.min_p > 0:
            logprobs = keep_min_p(logprobs, self.min_p)
        return logprobs


def row_uniforms(job: Job, samples: int, seed: int) -> Float[Tensor, "sequences steps"]:
    """Numbers in [0, 1) for every step of every sequence, from a generator of its own.

    The generator is seeded by the seed, the sample's number and the row's own tokens: neither its place in the batch
    nor its neighbours matter, and equal inputs draw equal samples.
    """
    inputs = zip(job.source_tokens(), job.prompts, strict=True)
    seeds = [[seed, sample, len(source), *source, *prompt] for source, prompt in inputs for sample in range(samples)]
    drawn = [np.random.default_rng(row).random(max(job.limits)) for row in seeds]
    return torch.from_numpy(np.stack(drawn)).to(job.device)
