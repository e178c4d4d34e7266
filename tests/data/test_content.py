"""Fingerprints of what is read: every change of contents is seen, a change of name or time alone is none."""

import json
import os
from pathlib import Path

import numpy as np

from regard.data.content_hash import code_sha256, examples_sha256, file_sha256, source_sha256
from regard.data.examples import Labelled, LabelledPicture, Picture, SourceLocation
from regard.data.sources import SourceConfig


def test_an_edit_of_the_same_size_and_time_is_seen(tmp_path: Path):
    file = tmp_path / "text.txt"
    file.write_text("one")
    before, times = file_sha256(file), (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    file.write_text("two")
    os.utime(file, ns=times)
    assert file_sha256(file) != before


def test_moved_or_touched_files_are_the_same_source(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.tsv").write_text("good\t1\n")
    os.utime(tmp_path / "b" / "x.tsv", (1, 1))
    source = SourceConfig(file="x.tsv", text=0, label=1)
    assert source_sha256(source, tmp_path / "a") == source_sha256(source, tmp_path / "b")
    (tmp_path / "b" / "x.tsv").write_text("good\t2\n")
    assert source_sha256(source, tmp_path / "a") != source_sha256(source, tmp_path / "b")


def test_swapped_files_are_another_source(tmp_path: Path):
    (tmp_path / "x").write_text("one\n")
    (tmp_path / "y").write_text("eins\n")
    one, other = SourceConfig(source="x", target="y"), SourceConfig(source="y", target="x")
    assert source_sha256(one, tmp_path) != source_sha256(other, tmp_path)


def test_images_named_in_a_table_belong_to_its_contents(tmp_path: Path):
    from image_files import noise, png

    (tmp_path / "cat.png").write_bytes(png(noise(1)))
    (tmp_path / "table.jsonl").write_text(json.dumps({"image": "cat.png", "label": "cat"}) + "\n")
    source = SourceConfig(file="table.jsonl", image="image", label="label")
    before = source_sha256(source, tmp_path)
    (tmp_path / "cat.png").write_bytes(png(noise(2)))
    assert source_sha256(source, tmp_path) != before


def test_examples_are_told_apart_by_all_they_hold_but_their_place():
    here, there = SourceLocation("a", 1), SourceLocation("b", 2)
    assert examples_sha256([Labelled("x", "1", here)]) == examples_sha256([Labelled("x", "1", there)])
    assert examples_sha256([Labelled("x", "1", here)]) != examples_sha256([Labelled("x", "2", here)])
    assert examples_sha256([Labelled("xy", "", here)]) != examples_sha256([Labelled("x", "y", here)])
    tall, wide = np.zeros((2, 8), np.uint8), np.zeros((4, 4), np.uint8)
    pictures = [[LabelledPicture(Picture.held(Path("f"), grid, "1"), "a", here)] for grid in (tall, wide)]
    assert examples_sha256(pictures[0]) != examples_sha256(pictures[1])


def test_code_is_told_apart_by_names_and_contents(tmp_path: Path):
    folders = []
    for number, (name, text) in enumerate([("a.py", "x = 1"), ("a.py", "x = 2"), ("b.py", "x = 1")]):
        folders.append(tmp_path / str(number))
        folders[-1].mkdir()
        (folders[-1] / name).write_text(text)
    assert len({code_sha256(folder) for folder in folders}) == 3
