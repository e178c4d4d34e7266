"""One long text cut into rows of equal length: how language models are trained and measured on running text.

A row of `context` predictions takes `context + 1` tokens: each token but the last is an input, each but the first an
answer. Neighbouring rows share that one token, so that every token but the very first is predicted once.
"""

from functools import lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Int64

from regard.data.plan import BUDGET
from regard.errors import ConfigError, DataError

Order = Literal["random", "shuffled", "sequential"]


class StreamPlan:
    """Where the rows of each batch begin in a stream of tokens: a pure function of (seed, epoch, step).

    random       anywhere, each batch drawn anew (nanoGPT's way); an epoch has as many rows as the stream would fill
    shuffled     the stream is cut once, end to end, and each epoch takes all rows in another order
    sequential   the same rows from the first to the last, for measuring
    """

    def __init__(
        self, tokens: int, *, context: int, tokens_per_batch: int, seed: int = 0, order: Order = "random"
    ) -> None:
        self.tokens, self.context, self.seed, self.order = tokens, context, seed, order
        self.rows_per_batch = tokens_per_batch // context
        if not self.rows_per_batch:
            raise ConfigError(BUDGET, f"expected at least one row of {context:,} tokens, got {tokens_per_batch:,}")
        shortest = context + 1 if order == "random" else 2
        if tokens < shortest:
            raise DataError("data", f"the text has {tokens:,} tokens, but one row needs {shortest:,}")
        self._rows = -(-(tokens - 1) // context)
        # two are kept, as whoever looks ahead is in both
        self._shuffled = lru_cache(maxsize=2)(self._shuffle)

    def _shuffle(self, epoch: int) -> Int64[np.ndarray, " rows"]:
        return np.random.default_rng([self.seed, epoch]).permutation(self._rows)

    def num_batches(self, epoch: int) -> int:
        """How many batches an epoch has: the same in each."""
        return -(-self._rows // self.rows_per_batch)

    def starts(self, epoch: int, step: int) -> Int64[np.ndarray, " rows"]:
        """Where the rows of a batch begin."""
        if not 0 <= step < self.num_batches(epoch):
            raise IndexError(f"step {step} of an epoch with {self.num_batches(epoch)} batches")
        if self.order == "random":
            random = np.random.default_rng([self.seed, epoch, step])
            return random.integers(0, self.tokens - self.context, self.rows_per_batch)
        first = step * self.rows_per_batch
        return self._row_order(epoch)[first : first + self.rows_per_batch] * self.context

    def lengths(self, starts: Int64[np.ndarray, " rows"]) -> Int64[np.ndarray, " rows"]:
        """Tokens in each row; only the last row of the stream may be shorter."""
        return np.minimum(self.context + 1, self.tokens - starts)

    def _row_order(self, epoch: int) -> Int64[np.ndarray, " rows"]:
        if self.order == "sequential":
            return np.arange(self._rows)
        return self._shuffled(epoch)
