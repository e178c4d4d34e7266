import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_files import COMPRESSIONS, table_bytes, write_bytes, write_lines, write_text

from regard.data import check
from regard.data.check import Checked, check_files, check_sources
from regard.data.sources import SourceConfig

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)

DEFECTS = {
    "encoding": lambda line: line + b"\xff",
    "nul": lambda line: line + b"\0",
    "crlf": lambda line: line + b"\r",
    "separator": lambda line: line + "\u2028more".encode(),
    "odd": lambda line: line + "\ufffd".encode(),
    "long": lambda line: line + b"x" * 10_000,
    "empty": lambda line: b"",
}


def places(checked: Checked) -> dict[str, list[str]]:
    """Where each kind was found, by the file's name."""
    found: dict[str, list[str]] = {}
    for finding in checked.findings:
        found.setdefault(finding.kind, []).append(f"{Path(finding.file).name}:{finding.line}")
    return found


@pytest.mark.parametrize("compression", COMPRESSIONS)
@same_folder
@given(
    planted=st.dictionaries(
        st.integers(1, 30), st.tuples(st.sampled_from(sorted(DEFECTS)), st.sampled_from(["en", "de"]))
    ),
)
def test_every_planted_defect_is_found_at_its_line(tmp_path, compression, planted):
    sides = {side: [f"{side} line {number}".encode() for number in range(1, 31)] for side in ("en", "de")}
    for number, (defect, side) in planted.items():
        sides[side][number - 1] = DEFECTS[defect](sides[side][number - 1])
    files = [write_bytes(tmp_path / f"train.{side}{compression}", b"\n".join(sides[side]) + b"\n") for side in sides]
    expected: dict[str, set[str]] = {}
    for number, (defect, side) in planted.items():
        expected.setdefault(defect, set()).add(f"train.{side}{compression}:{number}")
    checked = check_files(files, keep=1000)
    assert {kind: set(found) for kind, found in places(checked).items()} == expected
    assert {summary.kind: summary.count for summary in checked.summaries} == {
        kind: len(at) for kind, at in expected.items()
    }
    assert checked.has_errors == bool({"encoding", "nul"} & set(expected))
    assert next(iter(checked.statistics.values())).examples == 30


@pytest.mark.parametrize("format", ["tsv", "csv", "jsonl"])
@same_folder
@given(broken=st.sets(st.integers(1, 20)), blank=st.sets(st.integers(2, 20)))
def test_broken_and_blank_rows_of_tables(tmp_path, format, broken, blank):
    names = ("text", "label")
    content = table_bytes(format, [(f"text {number}", "x") for number in range(20)], names, header=True)
    header, rows = (
        (content.splitlines()[:1], content.splitlines()[1:]) if format != "jsonl" else ([], content.splitlines())
    )
    for number in broken:
        rows[number - 1] = {"tsv": b"one", "csv": b'"one"', "jsonl": b'{"text": "one'}[format]
    for number in blank - broken:
        rows[number - 1] = b""
    file = write_bytes(tmp_path / f"train.{format}", b"\n".join([*header, *rows]) + b"\n")
    shift = len(header)
    checked = check_sources({"train": SourceConfig(file=file.name, text="text", label="label")}, tmp_path, keep=100)
    kind = "json" if format == "jsonl" else "columns"
    found = places(checked)
    assert found.get(kind, []) == [f"{file.name}:{number + shift}" for number in sorted(broken)]
    assert found.get("empty", []) == [f"{file.name}:{number + shift}" for number in sorted(blank - broken)]
    assert checked.statistics["train"].examples == 20 - len(broken | blank)


def test_unequal_files(tmp_path):
    files = [write_lines(tmp_path / "train.en", ["a", "b"]), write_lines(tmp_path / "train.de", ["A", "B", "C", "D"])]
    checked = check_files(files)
    assert places(checked) == {"alignment": ["train.de:3"]}
    assert checked.has_errors


@pytest.mark.parametrize("compression", [".gz", ".zst"])
def test_a_cut_file_is_reported_once_and_not_as_unequal(tmp_path, compression):
    lines = [f"line {number**4}" for number in range(1500)]
    files = [write_lines(tmp_path / f"train.{side}{compression}", lines) for side in ("en", "de")]
    files[1].write_bytes(files[1].read_bytes()[:-9])
    checked = check_files(files)
    assert [finding.kind for finding in checked.findings] == ["unreadable"]
    assert "cut off" in checked.findings[0].what
    assert checked.findings[0].file == str(files[1])


def test_duplicates_and_leaks(tmp_path):
    write_lines(tmp_path / "train.en", ["one", "two", "one", "one"])
    write_lines(tmp_path / "train.de", ["eins", "zwei", "eins", "ein"])
    write_lines(tmp_path / "val.en", ["three", "two"])
    write_lines(tmp_path / "val.de", ["drei", "beide"])
    checked = check_files(tmp_path / f"{split}.{side}" for side in ("en", "de") for split in ("val", "train"))
    assert places(checked) == {"duplicate": ["train.en:3"], "leak": ["val.en:2"]}
    assert [finding.what for finding in checked.findings] == [
        "the same as line 1",
        f"also stands in the training data, at {tmp_path}/train.en:2",
    ]
    assert not checked.has_errors


def test_labels_unknown_in_training(tmp_path):
    write_lines(tmp_path / "train.tsv", ["good\tpos", "bad\tneg", "fine\tpos", "poor\tneg"])
    write_lines(tmp_path / "dev.tsv", ["nice\tpos", "meh\tneutral"])
    sources = {
        split: SourceConfig(file=f"{file}.tsv", text=0, label=1)
        for split, file in [("valid", "dev"), ("train", "train")]
    }
    checked = check_sources(sources, tmp_path)
    assert places(checked) == {"label": ["dev.tsv:2"]}
    assert checked.findings[0].what == "the label 'neutral' does not occur in the training data"
    assert list(checked.statistics) == ["valid", "train"]


def test_a_forgotten_header_is_suspected(tmp_path):
    file = write_lines(
        tmp_path / "train.tsv", ["review\tstars", *(f"text {number}\t{number % 2}" for number in range(10))]
    )
    assert places(check_sources({"train": SourceConfig(file=str(file), text=0, label=1)})) == {
        "header": ["train.tsv:1"]
    }
    assert not check_sources({"train": SourceConfig(file=str(file), text=0, label=1, header=True)}).findings


def test_a_column_of_texts_is_no_column_of_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "MOST_LABELS", 100)
    file = write_lines(tmp_path / "train.tsv", [f"x{number}\ty{number}" for number in range(300)])
    checked = check_sources({"train": SourceConfig(file=str(file), text=0, label=1)})
    assert checked.findings[0].what == "100 different labels or more; is it the right column?"


def test_missing_columns_and_missing_files(tmp_path):
    write_lines(tmp_path / "train.csv", ["text,label", "good,pos"])
    sources = {
        "train": SourceConfig(file="train.csv", text="text", label="lable"),
        "valid": SourceConfig(file="vald.csv", text="text", label="label"),
        "test": SourceConfig(file="no.parquet", text=0),
    }
    checked = check_sources(sources, tmp_path)
    assert [str(finding).removeprefix(f"{tmp_path}/") for finding in checked.findings] == [
        "vald.csv: no such file",
        "no.parquet: no such file",
        "train.csv:1: no column 'lable'; did you mean 'label'?",
    ]


def test_one_file_in_two_parts_leaks_nothing_and_reports_once(tmp_path):
    file = write_text(tmp_path / "all.tsv", "".join(f"text {number % 40}\t{number % 2}\r\n" for number in range(100)))
    parts = {"train": "0%-70%", "valid": "70%-100%"}
    sources = {
        split: SourceConfig(file=str(file), text=0, label=1, part=part, shuffle=True) for split, part in parts.items()
    }
    counts = {summary.kind: summary.count for summary in check_sources(sources).summaries}
    assert counts == {"crlf": 100, "duplicate": 60}


def test_statistics(tmp_path):
    write_lines(tmp_path / "train.en", ["a dog barks", "", "hello\x07"])
    write_lines(tmp_path / "train.de", ["ein Hund bellt", "leer", "hallo"])
    checked = check_files([tmp_path / "train.en", tmp_path / "train.de"])
    (counted,) = checked.tree()["statistics"].values()
    assert counted["examples"] == 3
    assert counted["sides"]["source"] == {
        "words": 4, "characters": 17, "empty": 1, "longest": 11, "longest_at": f"{tmp_path}/train.en:1",
    }  # fmt: skip
    assert counted["odd_characters"] == {"U+0007": 1}
    assert counted["different_characters"] == len(set("a dog barkshello\x07ein Hund belltleerhallo"))
    assert json.loads(json.dumps(checked.tree()))["counts"] == {"empty": 1, "odd": 1}


def test_empty_and_foreign_files(tmp_path):
    write_text(tmp_path / "a.txt", "")
    write_text(tmp_path / "b.zip", "PK")
    checked = check_files([tmp_path / "a.txt", tmp_path / "b.zip"])
    assert places(checked) == {"unreadable": ["b.zip:None"], "nothing": ["a.txt:None"]}
    assert check_files([]).findings == []


def test_nested_rows_are_duplicates_only_where_all_is_the_same(tmp_path):
    rows = [{"id": number, "translation": {"en": f"dog {number}", "de": f"Hund {number}"}} for number in range(50)]
    rows += [rows[3], {**rows[4], "id": 99}]
    file = write_lines(tmp_path / "train.jsonl", [json.dumps(row) for row in rows])
    checked = check_files([file])
    assert places(checked) == {"duplicate": ["train.jsonl:51"]}
    (statistics,) = checked.statistics.values()
    assert list(statistics.sides) == ["column translation.en", "column translation.de"]
    assert statistics.examples == 52
    numbers = write_lines(tmp_path / "numbers.jsonl", [json.dumps({"x": [number, None]}) for number in range(30)])
    assert check_files([numbers]).findings == []


def test_all_nine_duplicates_of_a_text_are_found(tmp_path):
    long = ["this is a line of rather more than eight words", "and another one of also more than eight words"]
    lines = [
        "short",
        *long,
        "two words",
        "",
        "short",
        "short",
        *long,
        "two words",
        "short",
        "",
        long[0],
        "two words",
        "x",
        "x",
    ]
    file = write_lines(tmp_path / "train.txt", lines)
    expected = [number for number, line in enumerate(lines, start=1) if line and line in lines[: number - 1]]
    assert len(expected) == 9
    assert places(check_files([file])) == {"duplicate": [f"train.txt:{number}" for number in expected]}


def test_several_training_files_are_checked_together(tmp_path):
    contents = {"train1": ["a", "b", "c"], "train2": ["b", "d", "b"], "val": ["d", "e", "f"], "test": ["a", "e", "g"]}
    files = [write_lines(tmp_path / f"{name}.jsonl", [json.dumps({"text": one}) for one in texts])
             for name, texts in contents.items()]  # fmt: skip
    checked = check_files(files)
    assert places(checked) == {
        "duplicate": ["train2.jsonl:3", "train2.jsonl:1"],
        "leak": ["val.jsonl:1", "test.jsonl:1"],
        "overlap": ["test.jsonl:2"],
    }
    assert f"also stands in {files[2]}, at {files[2]}:2" in {finding.what for finding in checked.findings}


def test_images_that_are_none_are_found(tmp_path):
    for label in ("cats", "dogs"):
        (tmp_path / "all" / label).mkdir(parents=True)
        (tmp_path / "all" / label / "1.png").write_bytes(b"no image at all")
    checked = check_sources({"train": SourceConfig(images=str(tmp_path / "all"))})
    assert [finding.kind for finding in checked.findings] == ["image", "image"]
    assert checked.findings[0].what.startswith("no image, or of a kind that is not read")
    assert checked.findings[0].file.endswith("cats/1.png")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"text": "a", "text": "b"}', "the key 'text' stands twice in one object"),
        ("[", "not JSON: .*; expected one whole value a line"),
        ("5", "no column 'text': 'text' cannot be looked up in 5"),
        ("null", "no column 'text': 'text' cannot be looked up in nothing"),
        ('{"text": null}', "column 'text': expected text, got nothing"),
        ('{"text": NaN}', "column 'text': expected text, got nan"),
        ('{"text": ["a", 1]}', "column 'text': expected text, got a list"),
        ('{"txt": "a"}', "no column 'text'; did you mean 'txt'"),
        ("{}", "no column 'text'; the row is empty"),
    ],
)
def test_odd_lines_of_jsonl_are_named(tmp_path, line, said):
    file = write_lines(tmp_path / "odd.jsonl", ['{"text": "good"}', "", line])
    checked = check_sources({"train": SourceConfig(file=str(file), text="text")})
    (finding,) = [finding for finding in checked.findings if finding.severity == "error"]
    assert finding.line == 3
    assert re.match(said, finding.what)
