"""What a search is given and what it returns: a stepper with a batch of inputs; hypotheses or tokens."""

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from typing import Required, TypedDict, TypeVar, Unpack

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.constraints import NO_TOKEN, Constraints, SearchBase
from regard.decode.steppers import AnyStepper, max_positions
from regard.errors import ConfigError
from regard.models.stepper import last_logits
from regard.nn.device import to_list
from regard.nn.layout import Sequences
from regard.progress import phase

Tokens = Sequence[int]
Input = TypeVar("Input", bound=Sized)
Output = TypeVar("Output")


@dataclass(frozen=True)
class Hypothesis:
    """One generated sequence, without its prompt, begin token and end token."""

    tokens: list[int]
    score: float
    """What the search ranks by: the sum of the log-probabilities, in beam search divided by the length penalty."""
    token_logprobs: list[float]
    """The model's log-probability of each token, and of the end token last where `finished`."""
    finished: bool
    """Whether the end token was generated; otherwise the length limit cut the sequence."""


@dataclass(frozen=True)
class GeneratedToken:
    row: int
    sample: int
    """Which of the row's samples; zero where there is one only."""
    token: int
    logprob: float
    ended: bool
    """Whether this is the end token, which is no part of the text."""
    last: bool
    """Whether it is the row's last token."""


@dataclass(frozen=True)
class Job:
    """One batch to decode: row i continues `prompts[i]`, given row i of the source where there is one."""

    stepper: AnyStepper
    source: Sequences | None
    prompts: list[list[int]]
    begin: list[int]
    """Tokens before every prompt: the begin token, or none."""
    limits: list[int]
    """Most tokens to generate in each row, the end token counted."""
    constraints: Constraints
    device: torch.device
    regroup: bool = True
    """Drop rows from the batch as they finish; without it every step has the same shape."""
    ahead: bool = False
    """Launch the next step before reading the tokens of this one, so that a GPU never waits for the CPU."""

    @property
    def eos(self) -> int | None:
        return self.constraints.eos

    @property
    def rows(self) -> int:
        return len(self.prompts)

    @property
    def capacity(self) -> int:
        """Tokens that the cache must hold: rows advance in step, and the last token is never fed."""
        return len(self.begin) + max(map(len, self.prompts)) + max(self.limits) - 1

    def start(self, copies: int = 1) -> tuple[Float[Tensor, "rows vocab"], object]:
        """Feeds the prompts: logits of the first token, and the state; each row repeated `copies` times."""
        prefixes = [[*self.begin, *prompt] for prompt in self.prompts]
        state = self.stepper.start(self.source, rows=self.rows, capacity=self.capacity)
        tokens, lengths = pad_rows(prefixes, self.device)
        logits, state = last_logits(self.stepper, tokens, state, lengths)
        self.constraints.check(logits.shape[-1])
        if copies == 1:
            return logits, state
        rows = torch.arange(self.rows, device=self.device).repeat_interleave(copies)
        return logits[rows], self.stepper.reorder(state, rows)

    def history(self, copies: int = 1) -> Int[Tensor, "rows past"]:
        """The prompts, padded on the left so that new tokens can be appended."""
        past = max(map(len, self.prompts), default=0)
        aligned = [[NO_TOKEN] * (past - len(prompt)) + prompt for prompt in self.prompts]
        history = torch.tensor(aligned, dtype=torch.long, device=self.device).reshape(self.rows, past)
        return history.repeat_interleave(copies, 0)

    def source_tokens(self) -> list[list[int]]:
        """The source's tokens without padding; empty rows where there is no source."""
        if self.source is None:
            return [[] for _ in self.prompts]
        rows: list[list[int]] = to_list(self.source.tokens)
        lengths: list[int] = to_list(self.source.layout.lengths)
        return [row[:length] for row, length in zip(rows, lengths, strict=True)]


class JobOptions(TypedDict, total=False):
    """The vocabulary's special tokens, and how a search runs on the device."""

    eos: Required[int | None]
    bos: Required[int | None]
    """Never generated, and before every prompt."""
    pad: int | None
    """Never generated."""
    unk: int | None
    """Not generated where the settings say so."""
    device: torch.device | str | None
    """Where the stepper works, by default where the source is."""
    regroup: bool
    """Whether rows leave the batch as they finish, as is usual; without, results are the same and shapes constant."""


def make_job(
    stepper: AnyStepper,
    source: Sequences | None,
    prompts: Sequence[Tokens] | None,
    config: SearchBase,
    **options: Unpack[JobOptions],
) -> Job:
    """A job from a search's settings and the vocabulary's special tokens, with its inputs checked."""
    eos, bos, device = options["eos"], options["bos"], device_of(source, options.get("device"))
    rows, begin = checked_prompts(source, prompts, bos), [] if bos is None else [bos]
    constraints = config.constraints(eos=eos, bos=bos, pad=options.get("pad"), unk=options.get("unk"), device=device)
    return Job(
        stepper=stepper,
        source=source,
        prompts=rows,
        begin=begin,
        limits=within_positions(length_limits(config, source, len(rows)), stepper, source, begin, rows),
        constraints=constraints,
        device=device,
        regroup=options.get("regroup", True),
        ahead=device.type == "cuda",
    )


def pad_rows(rows: Sequence[Tokens], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Rows of any lengths as a stepper takes them: their tokens, and the lengths where these differ."""
    padded = Sequences.padded(rows, device=device)
    ragged = len({len(row) for row in rows}) > 1
    return padded.tokens, padded.layout.lengths if ragged else None


def device_of(source: Sequences | None, device: torch.device | str | None) -> torch.device:
    if device is not None:
        return torch.device(device)
    return torch.device("cpu") if source is None else source.tokens.device


def checked_prompts(source: Sequences | None, prompts: Sequence[Tokens] | None, bos: int | None) -> list[list[int]]:
    """One prompt for each row, empty ones by default; each row must have a first token to start from."""
    if prompts is None and source is None:
        raise ConfigError("prompts", "a model without a source needs one prompt a row, which may be empty")
    count = len(prompts or ()) if source is None else len(source.tokens)
    rows = [list(prompt) for prompt in prompts] if prompts is not None else [list[int]() for _ in range(count)]
    if len(rows) != count:
        raise ConfigError("prompts", f"expected {count} prompts, one for each row of the source, got {len(rows)}")
    if bos is None and [] in rows:
        empty = rows.index([])
        raise ConfigError("prompts", f"row {empty} is empty and there is no begin token; give it at least one token")
    return rows


def within_positions(
    limits: list[int], stepper: AnyStepper, source: Sequences | None, begin: Tokens, prompts: Sequence[Tokens]
) -> list[int]:
    """The limits clipped to the model's positions: rows advance in step, and the last token is never fed."""
    positions = max_positions(stepper, source) if limits else None
    if positions is None:
        return limits
    prefix = len(begin) + max(map(len, prompts))
    if prefix > positions:
        raise ConfigError("prompts", f"{prefix} tokens, and the model has {positions} positions; shorten it")
    return [min(limit, positions - prefix + 1) for limit in limits]


def length_limits(config: SearchBase, source: Sequences | None, rows: int) -> list[int]:
    if config.max_length_ratio is None:
        return [config.max_length] * rows
    if source is None:
        raise ConfigError("max_length_ratio", "only a model with a source can use it; set max_length instead")
    lengths: list[int] = to_list(source.layout.lengths)
    limits = [int(config.max_length_ratio * length) + config.max_length_offset for length in lengths]
    return [max(1, min(config.max_length, limit)) for limit in limits]


def batches(lengths: Sequence[int], tokens_per_batch: int, rows_per_batch: int | None = None) -> list[list[int]]:
    """Indices of the inputs, batch by batch, longest first, so that what does not fit in memory fails at once.

    A batch of r rows whose longest has n tokens counts as r × n, as it is padded. An input longer than the budget gets
    a batch of its own: an input is never cut.
    """
    for name, setting in (("tokens_per_batch", tokens_per_batch), ("rows_per_batch", rows_per_batch)):
        if setting is not None and setting < 1:
            raise ConfigError(name, f"expected at least 1, got {setting}")
    batches: list[list[int]] = []
    free_rows = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if not free_rows:
            batches.append([])
            free_rows = max(1, tokens_per_batch // max(1, lengths[index]))
            free_rows = free_rows if rows_per_batch is None else min(free_rows, rows_per_batch)
        batches[-1].append(index)
        free_rows -= 1
    return batches


def in_batches(
    inputs: Sequence[Input],
    work: Callable[[list[Input]], Sequence[Output]],
    *,
    tokens_per_batch: int,
    rows_per_batch: int | None = None,
) -> list[Output]:
    """The results of `work` on each input, in the inputs' order, however they are batched."""
    results: dict[int, Output] = {}
    with phase("generating", len(inputs), "texts") as advance:
        for batch in batches([len(row) for row in inputs], tokens_per_batch, rows_per_batch):
            results.update(zip(batch, work([inputs[index] for index in batch]), strict=True))
            advance(len(batch))
    return [results[index] for index in range(len(inputs))]
