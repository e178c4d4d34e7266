"""What a claim of the lectures is here: a sentence, a measurement, a rule on its numbers, and a picture of them.

The sentence comes from the lectures, the verdict never does: `judge` sees nothing but the numbers that `measure` gave.
A claim often says several things at once, so a rule answers with findings, one for each thing said.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, ClassVar, Literal

from matplotlib.figure import Figure

from regard.claims.setup import Setup

Verdict = Literal["holds", "does not hold", "inconclusive"]
Numbers = dict[str, Any]
"""What a measurement gives: a tree that JSON can keep."""


@dataclass(frozen=True)
class Finding:
    """One thing that the claim says, what was measured of it, and what follows."""

    said: str
    measured: str
    verdict: Verdict


class Claim(ABC):
    """A claim of the lectures that can be run."""

    name: ClassVar[str]
    """The row's number, such as f2."""
    title: ClassVar[str]
    """A few words for a table."""
    says: ClassVar[str]
    """The claim in one sentence, as the lectures make it."""
    looks_inside: ClassVar[bool] = False
    """Whether it looks inside a trained translator, which may be given."""
    how: ClassVar[str]
    """How it is measured, in a sentence or two."""

    @abstractmethod
    def measure(self, setup: Setup) -> Numbers:
        """The numbers."""

    @abstractmethod
    def judge(self, numbers: Numbers) -> list[Finding]:
        """What follows from the numbers, by a rule that is written here."""

    @abstractmethod
    def headline(self, numbers: Numbers) -> str:
        """What was found in one sentence, true of these numbers whatever the verdict: the figure's title."""

    @abstractmethod
    def draw(self, figure: Figure, numbers: Numbers) -> None:
        """The numbers as a picture with one message."""


def overall(findings: Sequence[Finding]) -> Verdict:
    """A claim holds when all that it says holds; one thing that does not is enough to refute it."""
    verdicts = {finding.verdict for finding in findings}
    if "does not hold" in verdicts:
        return "does not hold"
    return "holds" if verdicts == {"holds"} else "inconclusive"


def at_least(value: float, enough: float, too_little: float) -> Verdict:
    """Holds from `enough` on, does not hold up to `too_little`; between the two nobody knows."""
    if isnan(value):
        return "inconclusive"
    return "holds" if value >= enough else "does not hold" if value <= too_little else "inconclusive"


def at_most(value: float, enough: float, too_much: float) -> Verdict:
    """Holds up to `enough`, does not hold from `too_much` on; between the two nobody knows."""
    return at_least(-value, -enough, -too_much)


def both(*verdicts: Verdict) -> Verdict:
    """One finding that rests on several numbers holds when each of them says so."""
    return overall([Finding("", "", verdict) for verdict in verdicts])
