"""What a search is asked to do, apart from how: a stepper, its inputs, and the rules of writing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.constraints import NOTHING, Rules, RulesConfig
from regard.decode.ensemble import Ensemble
from regard.errors import ConfigError
from regard.models.prefix_decoder import Prompted
from regard.models.stepper import Stepper, last_logits
from regard.nn.layout import Sequences

Tokens = Sequence[int]


@dataclass(frozen=True)
class Job:
    """One batch to write: row i continues `prompts[i]`, translating row i of the source where there is one."""

    stepper: Stepper[Any]
    source: Sequences | None
    prompts: list[list[int]]
    begin: list[int]
    """What stands before every prompt: the begin token, or nothing."""
    limits: list[int]
    """Most tokens to write in each row, the end token counted."""
    rules: Rules
    device: torch.device
    regroup: bool = True
    """Drop rows from the batch as they finish; without it every step has the same shape."""
    ahead: bool = False
    """Give the device its next step before reading what it chose in this one: for devices that work by themselves."""

    @property
    def eos(self) -> int | None:
        """The token that ends a row, if any."""
        return self.rules.eos

    @property
    def rows(self) -> int:
        """How many rows are to be written."""
        return len(self.prompts)

    @property
    def capacity(self) -> int:
        """Room that the stepper needs: all rows advance in step, and the last token is never fed."""
        return len(self.begin) + max(map(len, self.prompts)) + max(self.limits) - 1

    def start(self, copies: int = 1) -> tuple[Float[Tensor, "rows vocab"], Any]:
        """Feeds the prompts: logits of the first token to write, and the state; each row `copies` times in a row."""
        given = [[*self.begin, *prompt] for prompt in self.prompts]
        state = self.stepper.start(self.source, rows=self.rows, capacity=self.capacity)
        tokens, lengths = laid(given, self.device)
        first, state = last_logits(self.stepper, tokens, state, lengths)
        self.rules.check(first.shape[-1])
        if copies == 1:
            return first, state
        rows = torch.arange(self.rows, device=self.device).repeat_interleave(copies)
        return first[rows], self.stepper.reorder(state, rows)

    def history(self, copies: int = 1) -> Int[Tensor, "rows past"]:
        """The prompts, aligned at their ends so that new tokens can be appended."""
        past = max(map(len, self.prompts), default=0)
        aligned = [[NOTHING] * (past - len(prompt)) + prompt for prompt in self.prompts]
        history = torch.tensor(aligned, dtype=torch.long, device=self.device).reshape(self.rows, past)
        return history.repeat_interleave(copies, 0)

    def source_tokens(self) -> list[list[int]]:
        """The source's tokens without padding; empty rows where there is no source."""
        if self.source is None:
            return [[] for _ in self.prompts]
        rows, lengths = self.source.tokens.tolist(), self.source.layout.lengths.tolist()
        return [row[:length] for row, length in zip(rows, lengths, strict=True)]


def laid(given: Sequence[Tokens], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Rows of any lengths as a stepper takes them: their tokens, and the lengths where these differ."""
    padded = Sequences.padded(given, device=device)
    ragged = len({len(row) for row in given}) > 1
    return padded.tokens, padded.layout.lengths if ragged else None


def make_job(
    stepper: Stepper[Any],
    source: Sequences | None,
    prompts: Sequence[Tokens] | None,
    config: RulesConfig,
    *,
    eos: int | None,
    bos: int | None,
    pad: int | None = None,
    unk: int | None = None,
    device: torch.device | str | None = None,
    regroup: bool = True,
) -> Job:
    """A job from a search's settings and the vocabulary's special tokens, with its inputs checked."""
    given = checked_prompts(source, prompts, bos)
    where = torch.device(device) if device is not None else home(source)
    begin = [] if bos is None else [bos]
    return Job(
        stepper=stepper,
        source=source,
        prompts=given,
        begin=begin,
        limits=within_positions(length_limits(config, source, len(given)), stepper, source, begin, given),
        rules=config.rules(eos=eos, bos=bos, pad=pad, unk=unk, device=where),
        device=where,
        regroup=regroup,
        ahead=where.type == "cuda",
    )


def home(source: Sequences | None) -> torch.device:
    """Where to work when nobody says: where the source is."""
    return torch.device("cpu") if source is None else source.tokens.device


def checked_prompts(source: Sequences | None, prompts: Sequence[Tokens] | None, bos: int | None) -> list[list[int]]:
    """One prompt a row, empty ones where none are given; each row must have a first token to start from."""
    if prompts is None and source is None:
        raise ConfigError("prompts", "a model without a source needs one prompt a row, which may be empty")
    rows = len(prompts or ()) if source is None else len(source.tokens)
    given = [list(prompt) for prompt in prompts] if prompts is not None else [[] for _ in range(rows)]
    if len(given) != rows:
        raise ConfigError("prompts", f"expected {rows} prompts, one for each row of the source, got {len(given)}")
    if bos is None and [] in given:
        row = given.index([])
        raise ConfigError("prompts", f"row {row} is empty and there is no begin token; give it at least one token")
    return given


def positions_of(stepper: Any, source: Sequences | None = None) -> int | None:  # noqa: ANN401
    """Positions that a stepper has for a sequence that it generates, the smallest number of an ensemble's members.

    Where the source is the beginning of that sequence, what the longest one leaves.
    """
    if isinstance(stepper, Ensemble):
        members = [positions_of(member, source) for member in stepper.members]
        return min((positions for positions in members if positions is not None), default=None)
    if isinstance(stepper, Prompted):
        positions = positions_of(stepper.decoder)
        read = 0 if source is None else int(source.layout.lengths.max()) - 1  # without its end token
        return None if positions is None else positions - read
    config = getattr(getattr(stepper, "model", stepper), "config", None)
    return getattr(config, "longest_target", None)


def within_positions(
    limits: list[int], stepper: Stepper[Any], source: Sequences | None, begin: Tokens, prompts: Sequence[Tokens]
) -> list[int]:
    """The limits, none of which leads beyond the positions of the model: rows advance in step, the last token is not
    read."""
    positions = positions_of(stepper, source) if limits else None
    if positions is None:
        return limits
    read = len(begin) + max(map(len, prompts))
    if read > positions:
        raise ConfigError("prompts", f"{read} tokens to continue, and the model has {positions} positions; shorten it")
    return [min(limit, positions - read + 1) for limit in limits]


def length_limits(config: RulesConfig, source: Sequences | None, rows: int) -> list[int]:
    """Most tokens to write in each row."""
    if config.max_length_ratio is None:
        return [config.max_length] * rows
    if source is None:
        raise ConfigError("max_length_ratio", "only a model with a source can use it; set max_length instead")
    allowed = [
        int(config.max_length_ratio * length) + config.max_length_offset for length in source.layout.lengths.tolist()
    ]
    return [max(1, min(config.max_length, limit)) for limit in allowed]
