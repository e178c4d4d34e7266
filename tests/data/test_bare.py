from pathlib import Path

import pytest
from raw_files import table_bytes, write_bytes, write_lines

from regard.data.check import read_untyped
from regard.data.findings import Findings
from regard.data.guess.files import group_files, split_of


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train.en.gz", "train"),
        ("test_2016_flickr.de", "test"),
        ("my-val.tsv", "valid"),
        ("dev.jsonl", "valid"),
        ("trainer.txt", ""),
        ("latest.txt", ""),
    ],
)
def test_splits_by_name(name, split):
    assert split_of(Path("folder/train") / name) == split


@pytest.mark.parametrize(
    ("files", "groups"),
    [
        ("english.txt german.txt", ["english.txt german.txt"]),
        ("train.en.gz train.de.gz val.en val.de", ["train.en.gz train.de.gz", "val.en val.de"]),
        ("train_en.txt train_de.txt", ["train_en.txt train_de.txt"]),
        ("train.txt valid.txt", ["train.txt", "valid.txt"]),
        ("a.txt b.txt c.txt", ["a.txt", "b.txt", "c.txt"]),
        ("train.tsv dev.tsv", ["train.tsv", "dev.tsv"]),
        (
            "test_2016.en test_2017.en test_2016.de test_2017.de",
            ["test_2016.en test_2016.de", "test_2017.en test_2017.de"],
        ),
        ("a.txt a.txt", ["a.txt"]),
        ("a.zip b.txt", ["a.zip", "b.txt"]),
    ],
)
def test_files_that_belong_together(files, groups):
    found = group_files(map(Path, files.split()))
    assert [" ".join(map(str, group)) for group in found] == groups


@pytest.mark.parametrize("format", ["tsv", "csv", "jsonl", "parquet"])
def test_all_columns_of_a_table_are_seen(tmp_path, format):
    file = write_bytes(tmp_path / f"a.{format}", table_bytes(format, [("one", "1"), ("two", "")], ["text", "label"]))
    findings = Findings()
    rows = list(read_untyped([file], findings))
    assert [text for row in rows for _, text, _ in row.sides] == ["one", "1", "two", ""]
    assert [finding.where for finding in findings.items] == [f"{file}:2"]


def test_values_that_are_no_text_are_left_out(tmp_path):
    file = write_lines(tmp_path / "a.jsonl", ['{"id": 3, "text": "a", "list": ["b", "c"]}', '["d", 1]', '"e"'])
    rows = list(read_untyped([file], Findings()))
    assert [{name: text for name, text, _ in row.sides} for row in rows] == [
        {"column text": "a", "column list": "b c"},
        {"column 0": "d"},
        {},
    ]
