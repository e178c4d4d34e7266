"""What is odd about the texts of an example: empty, over-long, or with characters that text should not hold."""

import re
import unicodedata
from collections.abc import Iterator
from typing import TypeVar

from regard.data.examples import Example, Row, SourceLocation, Text
from regard.data.findings import Findings

LONGEST_TEXT = 10_000  # characters; longer is rarely one example, and often a missing line break
SEPARATORS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
"""Where str.splitlines and many tools break a line, though no line feed stands there."""

AnyExample = TypeVar("AnyExample", bound=Example | Row)

_SUSPECT = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls
    "\u200b\u2028-\u202e\u2060-\u2069\ufeff"  # invisible: zero-width, separators, direction marks
    "\ufff0-\uffff\ue000-\uf8ff\ud800-\udfff]"  # replacement character, private use, half a surrogate pair
)


def suspects(text: str) -> Iterator[str]:
    """The characters of a text that do not belong into text."""
    return (match.group() for match in _SUSPECT.finditer(text))


def character_name(character: str) -> str:
    """`U+FFFD REPLACEMENT CHARACTER`."""
    name = unicodedata.name(character, "")
    return f"U+{ord(character):04X}{' ' if name else ''}{name}"


def inspect_example(example: Example | Row, findings: Findings, longest: int = LONGEST_TEXT) -> None:
    """Reports what is odd about an example; an empty line of a running text is not odd."""
    runs_on = isinstance(example, Text) and example.end
    for name, text, location in example.sides:
        if not runs_on and (not text or text.isspace()):
            findings.add("empty", location.file, location.line, f"the {name} is empty")
        if len(text) > longest:
            findings.add("long", location.file, location.line, f"the {name} has {len(text):,} characters")
        if _SUSPECT.search(text):
            _report(set(suspects(text)), name, location, findings)


def inspected(
    examples: Iterator[AnyExample], findings: Findings, file: object, part: str | None = None
) -> Iterator[AnyExample]:
    """The same examples, each inspected as it passes; that there are none is an error of its own."""
    errors, is_empty = findings.errors, True
    for example in examples:
        is_empty = False
        inspect_example(example, findings)
        yield example
    if is_empty and findings.errors == errors and str(file) not in findings.faulty:
        findings.add("nothing", file, None, f"no examples in {part}" if part else "no examples")


def _report(suspicious: set[str], name: str, location: SourceLocation, findings: Findings) -> None:
    if "\0" in suspicious:
        findings.add("nul", location.file, location.line, f"the {name} holds a NUL character: is it text, and UTF-8?")
    if any("\ud800" <= character <= "\udfff" for character in suspicious):
        findings.add(
            "encoding", location.file, location.line, f"the {name} holds half a surrogate pair, which is not UTF-8"
        )
    if separators := suspicious & set(SEPARATORS):
        problem = f"the {name} holds {_names(separators)}, where many tools break the line"
        findings.add("separator", location.file, location.line, problem)
    if odd := {
        character for character in suspicious - set(SEPARATORS) - {"\0"} if not "\ud800" <= character <= "\udfff"
    }:
        findings.add("odd", location.file, location.line, f"the {name} holds {_names(odd)}")


def _names(characters: set[str]) -> str:
    return ", ".join(character_name(character) for character in sorted(characters))
