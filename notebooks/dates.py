"""Dates as people write them, and as ISO 8601 has them: the data of these notebooks."""

import os
import random
from calendar import day_name, month_name
from datetime import date, timedelta

MINIATURE = "REGARD_MINIATURE" in os.environ
"""For tests: the notebooks run from end to end, and nothing is learned."""
SEARCH: dict[str, object] = {"search": {"kind": "greedy", "max_length": 6}} if MINIATURE else {}
BUDGET: dict[str, object] = {"train__steps": 2, **SEARCH} if MINIATURE else {"train__minutes": 2}


def written(day: date, chance: random.Random) -> str:
    """One of several ways to write a date."""
    name = month_name[day.month]
    return chance.choice([
        f"{day.day} {name} {day.year}",
        f"{name} {day.day}, {day.year}",
        f"{day_name[day.weekday()]}, {day.day} {name} {day.year}",
        f"the {day.day}. of {name[:3]} {day.year}",
        f"{day.month}/{day.day}/{day.year}",
    ])  # fmt: skip


def pairs(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """(written, ISO) for random days between 1950 and 2050."""
    chance = random.Random(seed)
    days = [date(1950, 1, 1) + timedelta(days=chance.randrange(36_500)) for _ in range(count)]
    return [(written(day, chance), day.isoformat()) for day in days[: 100 if MINIATURE else count]]
