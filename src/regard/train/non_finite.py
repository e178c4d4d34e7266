"""Losses and gradients that are no numbers: where they are, and which examples they came from."""

from collections.abc import Callable, Mapping

import numpy as np
from torch import nn

from regard.data.batches import Batch
from regard.data.collate import Padded, Ragged
from regard.errors import Failure
from regard.text.tokenizer import Tokenizer
from regard.train.precision import Pulse, not_finite

IN_A_ROW = 10
"""Batches passed over one after the other before it is the weights, not the data, that must be wrong."""
SHOWN = 3
CHARACTERS = 40


def account(step: int, pulse: Pulse, model: nn.Module, place: str, batch: Batch, words: Mapping[str, Tokenizer]) -> str:
    """The beginning of a sentence: what is not a number, in which parameters, and which examples were read."""
    where = not_finite(model)
    shown = f"{', '.join(where[:SHOWN])}{' and others' if len(where) > SHOWN else ''}" or "no single parameter"
    norm = f"the gradient not finite in {shown}" if where else f"the gradient's norm {pulse.norm}"
    return f"step {step}: the loss is {pulse.loss} and {norm}; {place} (examples {_named(batch, words)})"


class BadBatches:
    """What becomes of such batches: the first one stops the run, or all are passed over and told."""

    def __init__(self, skip: bool, say: Callable[[str], None]) -> None:
        self.skip, self.say = skip, say
        self.in_a_row = 0

    def pass_over(self, what: str) -> None:
        """Goes on without a change of the weights; Failure where nothing is to be skipped, or nothing else comes."""
        if not self.skip:
            raise Failure(
                f"{what}; the weights were not changed. Lower train.schedule.lr, look at these examples, or pass such "
                "batches over with --skip-bad"
            )
        self.in_a_row += 1
        if self.in_a_row > IN_A_ROW:
            raise Failure(f"{what}; so were the {IN_A_ROW} batches before it: the weights are at fault, not the data")
        self.say(f"{what}; passed over")


def _named(batch: Batch, words: Mapping[str, Tokenizer]) -> str:
    """File and line of the first few examples with the beginnings of their texts, and how many more there are."""
    numbers = batch.examples.tolist()
    if batch.origins is not None:
        numbers = [f"{batch.origins[0]}:{line}" for line in batch.origins[1].tolist()]
    name = next((name for name in batch.fields if name in words), None)
    texts = [words[name].decode(row) for row in _rows(batch, name)] if name else [""] * len(numbers)
    named = [
        f"{number} '{_short(text)}'" if text else str(number) for number, text in zip(numbers, texts, strict=False)
    ]
    return ", ".join(named[:SHOWN]) + (f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else "")


def _rows(batch: Batch, name: str) -> list[list[int]]:
    field = batch.fields[name]
    if isinstance(field, Padded):
        filled = np.arange(field.tokens.shape[1]) < field.lengths[:, None]
        return Ragged(field.tokens[filled], field.lengths).rows()
    return Ragged(field.tokens[0], field.lengths).rows()


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= CHARACTERS else f"{text[: CHARACTERS - 1]}…"
