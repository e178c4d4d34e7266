import pytest

from regard.data.findings import KINDS, Finding, Findings
from regard.errors import DataError


def test_errors_stop_a_strict_reading_and_warnings_do_not():
    findings = Findings()
    findings.add("empty", "train.en", 17, "the source is empty")
    with pytest.raises(DataError, match=r"train\.en:18: not JSON"):
        findings.add("json", "train.en", 18, "not JSON")
    assert findings.errors == 1


def test_summaries_count_every_finding_but_keep_only_the_first():
    findings = Findings(strict=False, keep=2)
    for line in (17, 20, 21):
        findings.add("empty", "train.en", line, "the source is empty")
    findings.add("nul", "train.en", 3, "a NUL")
    findings.add("unreadable", "train.de", None, "no such file")
    assert [str(summary) for summary in findings.summaries()] == [
        "1 unreadable file (at train.de)",
        "1 text with a NUL character (at train.en:3)",
        "3 empty lines (first at train.en:17)",
    ]
    assert [str(finding) for finding in findings.items] == [
        "train.de: no such file",
        "train.en:3: a NUL",
        "train.en:17: the source is empty",
        "train.en:20: the source is empty",
    ]
    assert findings.items[0] == Finding("train.de", None, "error", "no such file", "unreadable")


def test_a_second_reading_of_a_file_reports_nothing_twice():
    findings = Findings()
    for _ in range(2):
        for line in (1, 2, 5):
            findings.add_once("crlf", "a.txt", line, "ends in CRLF")
        findings.add_once("crlf", "b.txt", 1, "ends in CRLF")
        findings.add_once("bom", "b.txt", None, "a mark")
    assert findings.counts == {"crlf": 4, "bom": 1}


def test_errors_stand_before_warnings():
    severities = [kind.severity for kind in KINDS.values()]
    assert severities == sorted(severities)
