"""Sentences as people type them: without the capital or the full stop, with a space too many, with an exclamation mark.

The German side is written properly all the same.
"""

import re

from regard.data.street.draw import Draw
from regard.data.street.phrases import Phrase

SHARE = 0.15
"""How many of all sentences are typed carelessly."""
_FIRST_PERSON = re.compile(r"\bI\b")


def as_typed(draw: Draw, pair: Phrase) -> Phrase:
    """The pair, its English sometimes written with less care."""
    if not draw.chance(SHARE):
        return pair
    source, target = pair
    if draw.chance(0.65):
        source = _uncapitalised(draw, source)
    if draw.chance(0.65):
        source, target = source[:-1], f"{target[:-1]}." if target.endswith("!") else target
    elif source.endswith(".") and draw.chance(0.3):
        source, target = f"{source[:-1]}!", f"{target[:-1]}!"
    if draw.chance(0.15):
        source = _spaced(draw, source)
    if draw.chance(0.3):
        source = source.replace("'", "’")
    return Phrase(source, target)


def _uncapitalised(draw: Draw, text: str) -> str:
    if draw.chance(0.4):
        return text.lower()
    text = text[0].lower() + text[1:]
    return _FIRST_PERSON.sub("i", text) if draw.chance(0.5) else text


def _spaced(draw: Draw, text: str) -> str:
    """A space too many: somewhere inside, or at the end."""
    words = text.split(" ")
    place = draw.between(1, len(words))
    return " ".join([*words[:place], "", *words[place:]])
