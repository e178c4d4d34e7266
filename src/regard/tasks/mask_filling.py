"""What a masked language model says about hidden tokens: masks filled in, and how much each token surprises it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.decode import in_batches
from regard.errors import InputError
from regard.nn.layout import Sequences
from regard.text.special_tokens import EOS, MASK, SPECIAL_TOKENS
from regard.text.tokenizer import Tokenizer

SHOWN = SPECIAL_TOKENS[MASK]
FIRST = len(SPECIAL_TOKENS)
TOKENS_AT_ONCE = 4096


@dataclass(frozen=True)
class Filled:
    """A text with its masks filled in."""

    text: str
    guesses: list[list[tuple[str, float]]]
    """For each mask the likeliest tokens and their probabilities."""


def fill(
    model: nn.Module,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    device: torch.device,
    top: int = 5,
    ends: bool = False,
) -> list[Filled]:
    """Each text with the likeliest token in the place of every `<mask>`, each guessed for itself.

    `ends` puts the end token after each text, for models that have learnt where texts end.
    """
    rows = [masked_ids(tokenizer, text, number) + [EOS] * ends for number, text in enumerate(texts, start=1)]
    guessed = guesses(model, rows, device)
    return [_filled(tokenizer, row, found, top) for row, found in zip(rows, guessed, strict=True)]


def surprises(model: nn.Module, asked: Sequence[tuple[Sequence[int], int]], device: torch.device) -> list[float]:
    """−log P(token | all others of its row) for each (row, place): every token hidden alone."""
    rows = [[*row[:place], MASK, *row[place + 1 :]] for row, place in asked]
    guessed = guesses(model, rows, device)
    return [-float(found[0, row[place]]) for (row, place), found in zip(asked, guessed, strict=True)]


@torch.no_grad()
def guesses(model: nn.Module, rows: Sequence[list[int]], device: torch.device) -> list[Float[Tensor, "masks vocab"]]:
    """The log-probability of every token at each mask of each row."""
    parts: Any = model

    def work(batch: list[list[int]]) -> list[Tensor]:
        grid = Sequences.padded(batch, device=device)
        at_mask = grid.tokens == MASK
        logits = parts.head(parts.hidden(grid)[at_mask]).float()
        return list(logits.log_softmax(-1).cpu().split(at_mask.sum(1).tolist()))

    return in_batches(rows, work, tokens_per_batch=TOKENS_AT_ONCE)


def masked_ids(tokenizer: Tokenizer, text: str, number: int = 1) -> list[int]:
    """The tokens of a text in which `<mask>` is one; where tokens begin with a space, the mask stands for it too."""
    parts = text.replace(tokenizer.mask, SHOWN).split(SHOWN)
    if len(parts) == 1:
        raise InputError(number, f"expected a {SHOWN} to fill in, got none")
    if _spaced(tokenizer):
        parts = [*(part.removesuffix(" ") for part in parts[:-1]), parts[-1]]
    rows = [tokenizer.encode(part, prefix=False) if part else [] for part in parts]
    return [*tokenizer.prefix_ids, *rows[0], *(token for row in rows[1:] for token in (MASK, *row))]


def _spaced(tokenizer: Tokenizer) -> bool:
    """Whether the space before a word is part of the word's token."""
    return any(len(token) > 1 and token[0] == "▁" for token in tokenizer.tokens(range(tokenizer.vocab_size)))


def _filled(tokenizer: Tokenizer, row: list[int], found: Float[Tensor, "masks vocab"], top: int) -> Filled:
    values, places = found[:, FIRST:].topk(min(top, found.shape[1] - FIRST))
    ids = (places + FIRST).tolist()
    best = iter(likely[0] for likely in ids)
    text = tokenizer.decode([next(best) if token == MASK else token for token in row])
    chances = [
        list(zip(tokenizer.tokens(likely), logprobs.exp().tolist(), strict=True))
        for likely, logprobs in zip(ids, values, strict=True)
    ]
    return Filled(text, chances)
