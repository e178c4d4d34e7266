"""Progress in characters: bars, durations, lines that fit a terminal."""

import textwrap
from collections.abc import Sequence
from typing import TextIO

from regard.progress import Phase

NARROWEST_BAR, WIDEST_BAR = 4, 30
BLOCKS = ("━", "╺", "─")
ASCII_BLOCKS = ("#", "-", "-")


def is_unicode(stream: TextIO) -> bool:
    """Whether a stream can write bars and trends."""
    try:
        "━▁█↑".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def duration(seconds: float) -> str:
    """A time for people: 0.8 s, 12 s, 2:13, 1:02:13."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours = f"{whole // 3600}:{whole // 60 % 60:02}" if whole >= 3600 else f"{whole // 60}"
    return f"{hours}:{whole % 60:02}"


def bar(share: float, width: int, unicode: bool = True) -> str:
    """A bar of so many characters."""
    full, _, empty = BLOCKS if unicode else ASCII_BLOCKS
    filled = round(min(1.0, max(0.0, share)) * width)
    return full * filled + empty * (width - filled)


def fitted(parts: Sequence[str], width: int, optional: Sequence[int] = ()) -> str:
    """Parts of a line, two spaces apart; where it is too long, the `optional` ones (by index) are dropped, in order."""
    shown = dict(enumerate(parts))
    for index in optional:
        if len("  ".join(shown.values())) <= width:
            break
        shown.pop(index, None)
    return "  ".join(part for part in shown.values() if part)[:width]


def with_bar(parts: Sequence[str], share: float, width: int, unicode: bool = True, optional: Sequence[int] = ()) -> str:
    """A line of parts with a bar after the first, as long as there is room for one."""
    line = fitted(parts, width, optional)
    bar_width = min(WIDEST_BAR, width - len(line) - 2)
    if bar_width < NARROWEST_BAR or not line.startswith(parts[0]):
        return line
    return f"{parts[0]}  {bar(share, bar_width, unicode)}{line[len(parts[0]) :]}"


def phase_line(phase: Phase, label: str, width: int, unicode: bool = True) -> str:
    """How far a phase is, in one line."""
    took, count = phase.seconds, f"{phase.completed:,} {phase.unit}"
    speed = f"{phase.completed / took:,.0f}/s" if took > 1 and phase.completed >= took else ""
    if not phase.total:
        return fitted([label, count if phase.completed else "", speed, duration(took)], width, (2, 3))
    share = phase.completed / phase.total
    left = f"{duration(took * (1 / share - 1))} left" if share > 0 and took > 1 else ""
    return with_bar(
        [label, f"{share:.0%}", f"{phase.completed:,} of {phase.total:,} {phase.unit}", left], share, width, unicode
    )


def finished_line(phase: Phase) -> str:
    """What a phase did, once it is over."""
    amount = f"{phase.completed:,} {phase.unit} in " if phase.completed else ""
    return f"{phase.label}: {amount}{duration(phase.seconds)}"


def wrapped(sentence: str, width: int) -> str:
    """A sentence of several lines where it is longer than a terminal is wide; paths and commands stay whole."""
    lines = [
        textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        if len(line) > width
        else line
        for line in sentence.split("\n")
    ]
    return "\n".join(lines)
