"""A score with the signature that makes it comparable, and the checks that every metric shares."""

from collections.abc import Sequence, Sized
from dataclasses import dataclass

from regard.errors import DataError


@dataclass(frozen=True)
class Score:
    """A corpus score and how it was computed; two scores compare only where their signatures agree."""

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"


def check_counts(hypotheses: Sized, references: Sequence[Sized]) -> None:
    """Refuses an empty corpus, and references that are not as many as the hypotheses."""
    if not len(hypotheses):
        raise DataError("hypotheses", "expected at least one, got none")
    if not references:
        raise DataError("references", "expected at least one list of references, got none")
    for number, stream in enumerate(references, 1):
        if len(stream) != len(hypotheses):
            name = "references" if len(references) == 1 else f"references {number}"
            raise DataError(name, f"expected {len(hypotheses)}, one for each hypothesis, got {len(stream)}")
