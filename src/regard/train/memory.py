"""Memory that does not suffice: a batch is computed in smaller parts, and what no part can help is one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from regard.errors import Failure

ON_A_PROCESSOR = "can't allocate memory"
"""What torch says there; on a GPU it has an error of its own."""
ADVICE = (
    "lower train.tokens_per_batch, data.max_length, model.width or model.depth, or set train.precision=bfloat16; what "
    "was saved before is untouched: go on with --resume"
)


def is_want_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was no memory left, on a GPU or on the processor."""
    planned = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return planned or (isinstance(error, RuntimeError) and ON_A_PROCESSOR in str(error))


@contextmanager
def memory_reported() -> Iterator[None]:
    """Turns a want of memory into a Failure that names the settings to lower."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_want_of_memory(error):
            raise
        reason = str(error).partition("\n")[0].partition(". GPU")[0] or "no memory is left"
        raise Failure(f"the model does not fit into memory as it is trained ({reason}); {ADVICE}") from None
