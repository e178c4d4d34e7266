"""The embedded corpus as one long text of words, for small language models."""

from functools import cache

import torch
from torch import Tensor

from regard.data.street import pairs

END = 0
"""The token between two sentences."""


@cache
def vocabulary() -> dict[str, int]:
    """Every word of the training sentences, and of those held out; the token of sentence ends comes first."""
    sentences = [*_words("train", 20_000), *_words("valid", 1000)]
    words = sorted({word for sentence in sentences for word in sentence})
    return {word: number for number, word in enumerate(words, END + 1)}


def _words(split: str, size: int) -> list[list[str]]:
    return [source.lower().rstrip(".?").split() for source, _ in pairs(split, size)]


@cache
def stream(split: str, sentences: int) -> Tensor:
    """So many sentences one after another, as numbers of words."""
    numbers = vocabulary()
    return torch.tensor([token for words in _words(split, sentences) for token in [*map(numbers.get, words), END]])


def rows(text: Tensor, count: int, length: int, generator: torch.Generator) -> Tensor:
    """Rows of the text that begin anywhere."""
    starts = torch.randint(len(text) - length, (count, 1), generator=generator)
    return text[starts + torch.arange(length)]
