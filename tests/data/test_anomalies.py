import sys

import pytest

from regard.data.examples import Labelled, SourceLocation, Text
from regard.data.findings import SEPARATORS, Findings, character_name, inspect_example, suspects

HERE = SourceLocation("any.txt", 7)


def kinds(example: Text | Labelled) -> list[str]:
    findings = Findings(strict=False)
    inspect_example(example, findings)
    assert all(finding.where == "any.txt:7" for finding in findings.items)
    return [finding.kind for finding in findings.items]


@pytest.mark.parametrize(
    "text",
    ["Zoë\u00a0und\tZürich\nzwei", "می\u200cخواهم", "\U0001f469\u200d\U0001f4bb", "שלום\u200f", "日本語。", "e\u0301"],
)
def test_text_of_any_language_is_not_odd(text):
    assert kinds(Text(text, HERE)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a\0b", ["nul"]),
        ("a\u2028b\x85", ["separator"]),
        ("a\ufffdb\x96", ["odd"]),
        ("a\u200b", ["odd"]),
        ("\ud800", ["encoding"]),
        ("\0\u2029\ufeff", ["nul", "separator", "odd"]),
        ("", ["empty"]),
        (" \t ", ["empty"]),
        ("x" * 10_001, ["long"]),
    ],
)
def test_what_is_odd(text, found):
    assert kinds(Labelled(text, "x", HERE)) == found


def test_an_empty_line_of_a_running_text_is_not_odd():
    assert kinds(Text("", HERE, "\n")) == []
    assert kinds(Text("", HERE)) == ["empty"]


def test_separators_are_where_python_breaks_lines_without_a_line_end():
    every = (chr(code) for code in range(sys.maxunicode + 1))
    breaking = {character for character in every if len(f"a{character}b".splitlines()) == 2}
    assert set(SEPARATORS) == breaking - {"\n", "\r"}
    assert set(suspects(SEPARATORS)) == set(SEPARATORS)


def test_names_of_characters():
    assert character_name("\ufffd") == "U+FFFD REPLACEMENT CHARACTER"
    assert character_name("\x96") == "U+0096"
