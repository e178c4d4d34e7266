"""A claim of the lectures: a sentence, a measurement, a rule that decides from its numbers, and a figure of them.

The sentence comes from the lectures, the verdict never does: `check` sees nothing but the numbers that `measure` gave.
A claim often has several parts, so a rule returns findings, one per part. A new claim is a subclass of `Claim`, which
registers itself, in a file `fNN_name.py` of this folder; claims of one instrument share a file.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, ClassVar, Literal

from matplotlib.figure import Figure

from regard.claims.setup import Setup
from regard.errors import ConfigError, nearest

Verdict = Literal["holds", "does not hold", "inconclusive"]
Numbers = dict[str, Any]
"""What a measurement returns: a JSON tree."""


@dataclass(frozen=True)
class Finding:
    """One part of a claim, what was measured of it, and the verdict."""

    statement: str
    measured: str
    verdict: Verdict


class Claim(ABC):
    name: ClassVar[str]
    """The row's number, such as f2."""
    title: ClassVar[str]
    """A few words for a table."""
    says: ClassVar[str]
    """The claim in one sentence, as the lectures make it."""
    how: ClassVar[str]
    """How it is measured, in a sentence or two."""
    uses_translator: ClassVar[bool] = False
    """Whether it examines a trained translator (`Setup.translator`)."""

    def __init_subclass__(cls) -> None:
        if cls.name in CLAIMS:
            raise TypeError(f"two claims are named {cls.name}: {type(CLAIMS[cls.name]).__name__} and {cls.__name__}")
        CLAIMS[cls.name] = cls()

    @abstractmethod
    def measure(self, setup: Setup) -> Numbers: ...

    @abstractmethod
    def check(self, numbers: Numbers) -> list[Finding]:
        """The findings, by a rule on the numbers alone."""

    @abstractmethod
    def headline(self, numbers: Numbers) -> str:
        """The result in one sentence, true of these numbers whatever the verdict: the figure's title."""

    @abstractmethod
    def draw(self, figure: Figure, numbers: Numbers) -> None: ...


CLAIMS: dict[str, Claim] = {}
"""All claims by name, in the order of the lectures' rows."""


def select_claims(names: Sequence[str] = ()) -> list[Claim]:
    """The claims of these names, or all; `F02` and `f2` are the same."""
    selected = [_normalised(name) for name in names]
    for name, typed in zip(selected, names, strict=True):
        if name not in CLAIMS:
            raise ConfigError("claims", f"unknown claim '{typed}'; {nearest(name, CLAIMS)}")
    return [claim for name, claim in CLAIMS.items() if not selected or name in selected]


def _normalised(name: str) -> str:
    letter, digits = name[:1].lower(), name[1:]
    return f"{letter}{int(digits)}" if digits.isdecimal() else name.lower()


def overall(findings: Sequence[Finding]) -> Verdict:
    """A claim holds when all its parts hold; one part that does not is enough to refute it."""
    verdicts = {finding.verdict for finding in findings}
    if "does not hold" in verdicts:
        return "does not hold"
    return "holds" if verdicts == {"holds"} else "inconclusive"


def at_least(value: float, enough: float, too_little: float) -> Verdict:
    """Holds from `enough` on, does not hold up to `too_little`, inconclusive between the two."""
    if isnan(value):
        return "inconclusive"
    return "holds" if value >= enough else "does not hold" if value <= too_little else "inconclusive"


def at_most(value: float, enough: float, too_much: float) -> Verdict:
    """Holds up to `enough`, does not hold from `too_much` on, inconclusive between the two."""
    return at_least(-value, -enough, -too_much)


def both(*verdicts: Verdict) -> Verdict:
    """The verdict of one finding that rests on several numbers."""
    return overall([Finding("", "", verdict) for verdict in verdicts])
