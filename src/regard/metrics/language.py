"""How well a language model predicts text, from its total negative log-likelihood in nats."""

import math

from regard.errors import DataError


def perplexity(total_nll: float, tokens: int) -> float:
    """exp(nats per token): the number of equally likely tokens that would be as hard to guess."""
    _check("tokens", tokens)
    try:
        return math.exp(total_nll / tokens)
    except OverflowError:
        return math.inf


def bits_per_byte(total_nll: float, size: int, extra_bits: float = 0.0) -> float:
    """Bits per byte of text: comparable between tokenisers, as perplexity is not.

    `extra_bits` is what restores the text from its tokens, as `metrics.spelling` counts it; without it the score is
    comparable only between tokenisers that lose nothing.
    """
    _check("bytes", size)
    return (total_nll / math.log(2) + extra_bits) / size


def _check(name: str, count: int) -> None:
    if count < 1:
        raise DataError(name, f"expected at least one to average over, got {count}")
