"""What may be written: the settings that every search shares, and the tokens that they forbid."""

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor

from regard.config import Config, refuse
from regard.errors import ConfigError

NOTHING = -1  # stands in a history before its first token


class RulesConfig(Config):
    """Settings that every search shares."""

    max_length: int = Field(256, gt=0)
    """Most tokens to write for one input, the end token counted."""
    max_length_ratio: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Most tokens to write per source token; with it, the smaller limit of the two holds."""
    max_length_offset: int = Field(10, ge=0)
    """Tokens allowed beyond `max_length_ratio` times the source's length."""
    min_length: int = Field(0, ge=0)
    """Fewest tokens to write before the end token may come."""
    no_repeat_ngram: int = Field(0, ge=0)
    """Forbids writing any run of this many tokens twice, the prompt counted; 0 forbids nothing."""
    forbid_unknown: bool = False
    """Never write the unknown token."""

    @model_validator(mode="after")
    def _lengths_fit(self) -> "RulesConfig":
        if self.min_length >= self.max_length:
            raise refuse("min_length", f"expected less than max_length ({self.max_length}), got {self.min_length}")
        if (
            self.max_length_ratio is None
            and self.max_length_offset != RulesConfig.model_fields["max_length_offset"].default
        ):
            raise refuse(
                "max_length_offset", "it is added to max_length_ratio, which is not set; set both, or leave it out"
            )
        return self

    def rules(
        self, *, eos: int | None, bos: int | None, pad: int | None, unk: int | None, device: torch.device
    ) -> "Rules":
        """The rules with the vocabulary's special tokens filled in."""
        never = {bos, pad, unk if self.forbid_unknown else None} - {None, eos}
        return Rules(
            eos=eos,
            forbidden=sorted(token for token in never if token is not None),
            min_length=self.min_length,
            no_repeat_ngram=self.no_repeat_ngram,
            device=device,
        )


class Rules:
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
        self._always = torch.tensor(always, dtype=torch.long, device=device)
        self._at_first = torch.tensor([*always, *([] if eos is None else [eos])], dtype=torch.long, device=device)

    def check(self, vocab: int) -> None:
        """Refuses special tokens that the vocabulary does not have, and rules that leave nothing to write."""
        named = self._at_first.tolist()
        beyond = [token for token in named if not 0 <= token < vocab]
        if beyond:
            raise ConfigError(
                "tokens", f"expected special tokens below {vocab} (the model's vocabulary), got {beyond[0]}"
            )
        if len(set(named)) == vocab:
            raise ConfigError("tokens", f"all {vocab} tokens of the vocabulary are special; there is nothing to write")

    def forbidden(self, step: int) -> Int[Tensor, " some"]:
        """The tokens that may not be written as token number `step`, whatever stands before it."""
        return self._at_first if step < self.min_length else self._always

    def apply(
        self, logprobs: Float[Tensor, "rows vocab"], history: Int[Tensor, "rows past"], step: int
    ) -> Float[Tensor, "rows vocab"]:
        """The log-probabilities with minus infinity at what may not be written as token number `step` (from zero)."""
        allowed = logprobs.index_fill(-1, self.forbidden(step), -torch.inf)
        return self._without_repeats(allowed, history) if self.no_repeat_ngram else allowed

    def _without_repeats(
        self, allowed: Float[Tensor, "rows vocab"], history: Int[Tensor, "rows past"]
    ) -> Float[Tensor, "rows vocab"]:
        """Where every token would repeat something, this rule yields: a row must be able to go on."""
        banned = completes_ngram(history, self.no_repeat_ngram, allowed.shape[-1])
        if self.eos is not None:
            banned[:, self.eos] = False  # to end is no repetition
        left = allowed.masked_fill(banned, -torch.inf)
        stuck = left.amax(-1, keepdim=True) == -torch.inf
        return torch.where(stuck, allowed, left)


def completes_ngram(history: Int[Tensor, "rows past"], size: int, vocab: int) -> Bool[Tensor, "rows vocab"]:
    """Which next tokens would repeat a run of `size` tokens that stands in the history already."""
    past = history.shape[1]
    if past < size:
        return torch.zeros(len(history), vocab, dtype=torch.bool, device=history.device)
    runs = history.unfold(1, size, 1)
    now = history[:, past - size + 1 :]
    same = (runs[..., :-1] == now[:, None]).all(-1) & (runs != NOTHING).all(-1)
    return marked(runs[..., -1].where(same, NOTHING), vocab)


def marked(tokens: Int[Tensor, "rows some"], vocab: int) -> Bool[Tensor, "rows vocab"]:
    """Which tokens of the vocabulary stand in each row."""
    spare = tokens.where(tokens != NOTHING, vocab)  # one column more takes what is no token
    marks = torch.zeros(len(tokens), vocab + 1, dtype=torch.bool, device=tokens.device)
    return marks.scatter_(1, spare, True)[:, :vocab]
