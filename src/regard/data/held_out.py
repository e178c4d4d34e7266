"""Training data divided in two where a recipe names no validation data: a share of it is held out, `data.held_out`.

Examples are chosen by a hash of what a model reads, so that equal inputs stay together; lines of a running text by
their position. What is held out has no class that the rest lacks, and neither part is empty.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterator
from fractions import Fraction
from typing import cast

from regard.data.examples import Example, Text, fingerprint
from regard.data.sources import Part
from regard.errors import ConfigError

HELD_OUT = 0.05
"""The share that is held out unless the recipe says otherwise."""
Whole = Callable[[], Iterator[Example]]


def divided(whole: Whole, held_out: bool, running_text: bool, share: float = HELD_OUT) -> Iterator[Example]:
    """The examples that are held out, or the rest. The data is read twice: once to see what is in it."""
    part = Part(1 - Fraction(str(share)), Fraction(1))
    if running_text:
        return _divided_text(whole, held_out, part)
    keys = _held_out_keys(whole, part.of(1 << 64))
    return (example for example in whole() if (fingerprint(example.key) in keys) == held_out)


class _Keys(Container[int]):
    """The fingerprints that are held out: a stretch of all, with exceptions."""

    def __init__(self, usual: range, never: set[int], also: set[int]) -> None:
        self.usual, self.never, self.also = usual, never, also

    def __contains__(self, key: object) -> bool:
        return key in self.also or (key in self.usual and key not in self.never)


def _held_out_keys(whole: Whole, usual: range) -> _Keys:
    trained: set[str] = set()
    only_held_out: dict[str, int] = {}
    some = False
    for example in whole():
        key = fingerprint(example.key)
        if key not in usual:
            trained.update(example.classes)
            for name in example.classes:
                only_held_out.pop(name, None)
            continue
        some = True
        if not example.classes:
            break  # nothing more to learn: there is something to hold out, and no class to miss
        for name in example.classes:
            if name not in trained:
                only_held_out.setdefault(name, key)
    never = set(only_held_out.values())
    if some and any(fingerprint(example.key) in _Keys(usual, never, set()) for example in whole()):
        return _Keys(usual, never, set())
    return _Keys(usual, never, _dispensable(whole))


def _dispensable(whole: Whole) -> set[int]:
    """The key to hold out where chance chose none, as in small data: the highest whose classes others have too."""
    classes: dict[int, set[str]] = {}
    for example in whole():
        classes.setdefault(fingerprint(example.key), set()).update(example.classes)
    counts = Counter(name for names in classes.values() for name in names)
    able = [key for key, names in classes.items() if all(counts[name] > 1 for name in names)]
    if not classes:
        return set()
    if not able or len(classes) < 2:
        lacks = "no class with two different texts" if counts else "only one example"
        raise ConfigError("data.valid", f"needed: data.train has {lacks}, so nothing of it can be held out")
    return {max(able)}


def _divided_text(whole: Whole, held_out: bool, part: Part) -> Iterator[Example]:
    """The lines that begin in the last part of the text, at least the last that is not blank; or the rest."""
    total = last = 0
    for example in whole():
        if cast(Text, example).text.strip():
            last = total
        total += _characters(example)
    if total and not last:
        raise ConfigError("data.valid", "needed: data.train is a text of one line, of which nothing can be held out")
    cut, position = min(part.of(total).start, last), 0
    for example in whole():
        if (position >= cut) == held_out:
            yield example
        position += _characters(example)


def _characters(example: Example) -> int:
    return len(cast(Text, example).text) + len(cast(Text, example).end)
