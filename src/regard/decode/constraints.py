"""Which tokens may be generated: settings that every search shares, tokens that they forbid, the best of the others."""

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor

from regard.config import Config, refuse
from regard.errors import ConfigError
from regard.nn.device import to_list

NO_TOKEN = -1
"""Left padding of a history."""
LOWEST = -1e300  # below every finite float32, yet not infinite


class SearchBase(Config):
    """Settings that every search shares."""

    max_length: int = Field(256, gt=0)
    """Most tokens to generate for one input, the end token counted."""
    max_length_ratio: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Most tokens to generate per source token; with it, the smaller limit of the two holds."""
    max_length_offset: int = Field(10, ge=0)
    """Tokens allowed beyond `max_length_ratio` times the source's length."""
    min_length: int = Field(0, ge=0)
    """Fewest tokens to generate before the end token."""
    no_repeat_ngram: int = Field(0, ge=0)
    """No n-gram of this many tokens occurs twice, the prompt counted; 0: no such limit."""
    forbid_unknown: bool = False
    """Never generate the unknown token."""

    @model_validator(mode="after")
    def _lengths_fit(self) -> "SearchBase":
        if self.min_length >= self.max_length:
            raise refuse("min_length", f"expected less than max_length ({self.max_length}), got {self.min_length}")
        if (
            self.max_length_ratio is None
            and self.max_length_offset != SearchBase.model_fields["max_length_offset"].default
        ):
            raise refuse(
                "max_length_offset", "it is added to max_length_ratio, which is not set; set both, or leave it out"
            )
        return self

    def constraints(
        self, *, eos: int | None, bos: int | None, pad: int | None, unk: int | None, device: torch.device
    ) -> "Constraints":
        """The constraints for a vocabulary's special tokens."""
        never = {bos, pad, unk if self.forbid_unknown else None} - {eos}
        return Constraints(
            eos=eos,
            forbidden=sorted(token for token in never if token is not None),
            min_length=self.min_length,
            no_repeat_ngram=self.no_repeat_ngram,
            device=device,
        )


class Constraints:
    """Forbids tokens by setting their log-probabilities to minus infinity; what is left is not renormalised."""

    def __init__(
        self,
        *,
        eos: int | None,
        forbidden: list[int] | None = None,
        min_length: int = 0,
        no_repeat_ngram: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.eos = eos
        self.min_length = min_length
        self.no_repeat_ngram = no_repeat_ngram
        always = forbidden or []
        self._forbidden = torch.tensor(always, dtype=torch.long, device=device)
        early = [*always, *([] if eos is None else [eos])]
        self._forbidden_early = torch.tensor(early, dtype=torch.long, device=device)

    def check(self, vocab: int) -> None:
        """Refuses special tokens that the vocabulary does not have, and constraints that leave no token."""
        special: list[int] = to_list(self._forbidden_early)
        beyond = [token for token in special if not 0 <= token < vocab]
        if beyond:
            raise ConfigError(
                "tokens", f"expected special tokens below {vocab} (the model's vocabulary), got {beyond[0]}"
            )
        if len(set(special)) == vocab:
            raise ConfigError("tokens", f"all {vocab} tokens of the vocabulary are special; none is left to generate")

    def forbidden(self, step: int) -> Int[Tensor, " some"]:
        """The tokens forbidden as token number `step`, whatever the history."""
        return self._forbidden_early if step < self.min_length else self._forbidden

    def apply(
        self, logprobs: Float[Tensor, "rows vocab"], history: Int[Tensor, "rows past"], step: int
    ) -> Float[Tensor, "rows vocab"]:
        """The log-probabilities, minus infinity at tokens forbidden as token number `step` (from zero)."""
        allowed = logprobs.index_fill(-1, self.forbidden(step), -torch.inf)
        return self._without_repeats(allowed, history) if self.no_repeat_ngram else allowed

    def _without_repeats(
        self, allowed: Float[Tensor, "rows vocab"], history: Int[Tensor, "rows past"]
    ) -> Float[Tensor, "rows vocab"]:
        """Without effect in rows where every token would repeat an n-gram, so that they can go on."""
        banned = completes_ngram(history, self.no_repeat_ngram, allowed.shape[-1])
        if self.eos is not None:
            banned[:, self.eos] = False  # the end token is no repetition
        left = allowed.masked_fill(banned, -torch.inf)
        stuck = left.amax(-1, keepdim=True) == -torch.inf
        return torch.where(stuck, allowed, left)


def completes_ngram(history: Int[Tensor, "rows past"], size: int, vocab: int) -> Bool[Tensor, "rows vocab"]:
    """Which next tokens would repeat an n-gram of `size` tokens of the history."""
    past = history.shape[1]
    if past < size:
        return torch.zeros(len(history), vocab, dtype=torch.bool, device=history.device)
    ngrams = history.unfold(1, size, 1)
    suffix = history[:, past - size + 1 :]
    matches = (ngrams[..., :-1] == suffix[:, None]).all(-1) & (ngrams != NO_TOKEN).all(-1)
    return occurring_tokens(ngrams[..., -1].where(matches, NO_TOKEN), vocab)


def occurring_tokens(tokens: Int[Tensor, "rows some"], vocab: int) -> Bool[Tensor, "rows vocab"]:
    """Which tokens of the vocabulary occur in each row."""
    columns = tokens.where(tokens != NO_TOKEN, vocab)  # a spare column takes the padding
    occurs = torch.zeros(len(tokens), vocab + 1, dtype=torch.bool, device=tokens.device)
    return occurs.scatter_(1, columns, True)[:, :vocab]


def stable_top_k(
    scores: Float[Tensor, "*rows choices"], count: int
) -> tuple[Float[Tensor, "*rows count"], Int[Tensor, "*rows count"]]:
    """The `count` highest log-probabilities (none above zero), best first, and their indices; lower indices win ties.

    `torch.topk` promises no order of ties, and 16-bit logits tie often. A double has 29 bits of mantissa more than a
    float. The index is added there, which makes a negative number smaller by less than any difference between floats,
    so that `topk` sees no ties and agrees with `argmax`. On a CPU, where ties are rare and looking for them is cheap,
    plain `topk` comes first.
    """
    if scores.device.type == "cpu":
        best, indices = scores.topk(min(count + 1, scores.shape[-1]), dim=-1)
        if not bool((best[..., 1:] == best[..., :-1]).any()):
            return best[..., :count], indices[..., :count]
    keys = scores.double().clamp_(min=LOWEST)
    keys.view(torch.int64).add_(torch.arange(scores.shape[-1], device=scores.device))
    indices = keys.topk(count, dim=-1).indices
    return scores.gather(-1, indices), indices
