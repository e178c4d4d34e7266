"""Examples read many at a time are those that are read one at a time, with the same findings."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import lines as line_reading
from regard.data.examples import PairBlock
from regard.data.findings import Findings
from regard.data.lines import lines
from regard.data.source_reader import read_blocks, read_examples
from regard.data.sources import DividedSource, SourceConfig
from regard.errors import DataError

PIECES = ["a", "Hund", " ", "\n", "\n", "\r\n", "\r", "\u2028", "\u200b", "\x0b", "ä", "\0"]
files = st.lists(st.sampled_from(PIECES), max_size=30).map("".join).map(str.encode)
broken = files | st.tuples(files, st.sampled_from([b"\xff", b"\xef\xbb\xbf"]), files).map(b"".join)


def lines_one_by_one(data: bytes) -> list[str]:
    """The lines of a file, without the end of each."""
    texts = data.removeprefix(b"\xef\xbb\xbf").decode(errors="backslashreplace").split("\n")
    texts = texts[:-1] if data.endswith(b"\n") or not data else texts
    ended = len(texts) if data.endswith(b"\n") else len(texts) - 1
    return [text.removesuffix("\r") if number < ended else text for number, text in enumerate(texts)]


@given(broken, st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_lines_do_not_depend_on_how_much_is_read_at_once(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, size: int
):
    file = tmp_path_factory.getbasetemp() / "lines.txt"
    file.write_bytes(data)
    whole = Findings(strict=False)
    expected = list(lines(file, whole))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_reading, "BLOCK", size)
        findings = Findings(strict=False)
        assert list(lines(file, findings)) == expected
    assert findings.items == whole.items
    if "unreadable" not in whole.counts:  # as a file of an old Mac
        assert [text for _, text, _ in expected] == lines_one_by_one(data)
        assert [number for number, _, _ in expected] == list(range(1, len(expected) + 1))


@given(st.lists(st.tuples(st.sampled_from(PIECES[:3]), st.sampled_from(["x", "", "ß\u200b"])), max_size=40))
@settings(max_examples=60, deadline=None)
def test_pairs_are_the_same_in_blocks(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]):
    folder = tmp_path_factory.getbasetemp()
    for name, texts in zip(("a.en", "a.de"), zip(*pairs, strict=True) if pairs else ((), ()), strict=True):
        (folder / name).write_text("".join(f"{text}\n" for text in texts))
    source = SourceConfig(source="a.en", target="a.de")
    findings, others = Findings(strict=False), Findings(strict=False)
    assert [pair for block in read_blocks(source, folder, findings) for pair in block] == list(
        read_examples(source, folder, others)
    )
    assert findings.items == others.items


def test_held_out_pairs_are_the_same_in_blocks(tmp_path: Path):
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("".join(f"{name} {number % 70}\n" for number in range(200)))
    for held_out in (False, True):
        source = DividedSource(source="a.en", target="a.de", held_out=held_out, share=0.1)
        blocks = list(read_blocks(source, tmp_path))
        assert all(isinstance(block, PairBlock) for block in blocks)
        assert [pair for block in blocks for pair in block] == list(read_examples(source, tmp_path))


def test_what_stands_before_an_error_comes_first(tmp_path: Path):
    (tmp_path / "a.jsonl").write_text('{"t": "one"}\n{"t": "two"}\nnonsense\n')
    read = read_blocks(SourceConfig(file="a.jsonl", text="t"), tmp_path)
    assert [example.text for example in next(read)] == ["one", "two"]
    with pytest.raises(DataError, match=r"a\.jsonl:3"):
        next(read)


def test_unequal_files_are_named_with_both_numbers_of_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(line_reading, "BLOCK", 7)
    (tmp_path / "a.en").write_text("one\ntwo\nthree\nfour\n")
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    with pytest.raises(DataError, match=r"a\.en:3: no partner for this line: \S+a\.de has 2 lines, \S+a\.en has 4"):
        list(read_blocks(SourceConfig(source="a.en", target="a.de"), tmp_path))
