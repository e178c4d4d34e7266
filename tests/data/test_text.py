from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_files import COMPRESSIONS, write_bytes, write_text

from regard.data import lines as text
from regard.data.findings import Findings
from regard.data.lines import lines
from regard.errors import DataError

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
line_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff"))


def read(file: Path, findings: Findings | None = None) -> list[str]:
    return [line for _, line, _ in lines(file, findings or Findings())]


def kinds_at(findings: Findings) -> list[tuple[str, int | None]]:
    return [(finding.kind, finding.line) for finding in findings.items]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@same_folder
@given(written=st.lists(line_texts))
def test_lines_are_read_as_written(tmp_path, compression, written):
    file = write_text(tmp_path / f"any{compression}", "".join(f"{line}\n" for line in written))
    assert list(lines(file, Findings())) == [(number, line, "\n") for number, line in enumerate(written, start=1)]


def test_only_a_line_feed_ends_a_line(tmp_path):
    line = "a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i"
    assert read(write_text(tmp_path / "any.txt", f"{line}\n{line}")) == [line, line]


def test_a_last_line_needs_no_end(tmp_path):
    assert list(lines(write_text(tmp_path / "any.txt", "a\nb"), Findings())) == [(1, "a", "\n"), (2, "b", "")]


def test_windows_line_ends_and_byte_order_marks_are_warnings(tmp_path):
    findings = Findings()
    file = write_text(tmp_path / "any.txt", "\ufeffone\r\ntwo\nthree\r\n\ufeffno mark\nold\rmac\n")
    assert read(file, findings) == ["one", "two", "three", "\ufeffno mark", "old\rmac"]
    assert kinds_at(findings) == [("bom", 1), ("crlf", 1), ("crlf", 3), ("separator", 5)]
    assert [str(summary) for summary in findings.summaries()][1] == f"2 Windows line ends (first at {file}:1)"


def test_bytes_that_are_not_utf8_name_line_and_position(tmp_path):
    file = write_bytes(tmp_path / "any.txt", b"fine\nm\xfcde\nfine\n")
    with pytest.raises(DataError, match=r"any.txt:2: not UTF-8 \(byte 0xfc at position 2\).*iconv -f latin1"):
        read(file)


def test_a_lenient_reading_goes_past_bad_bytes_and_keeps_every_line(tmp_path):
    findings = Findings(strict=False)
    assert len(read(write_bytes(tmp_path / "any.txt", b"a\n\xff\nb\n\xfe\n"), findings)) == 4
    assert kinds_at(findings) == [("encoding", 2), ("encoding", 4)]


def test_utf16_is_recognised(tmp_path):
    file = write_bytes(tmp_path / "any.txt", "hello\n".encode("utf-16"))
    with pytest.raises(DataError, match="iconv -f utf-16 -t utf-8"):
        read(file)


@pytest.mark.parametrize("compression", [".gz", ".zst"])
@same_folder
@given(cut=st.integers(min_value=1))
def test_packed_data_cut_anywhere_is_noticed(tmp_path, compression, cut):
    file = write_text(tmp_path / f"any{compression}", "".join(f"line {number * number}\n" for number in range(2000)))
    content = file.read_bytes()
    file.write_bytes(content[: 1 + cut % (len(content) - 1)])
    with pytest.raises(DataError, match=r"cut off|damaged"):
        read(file)


@pytest.mark.parametrize("compression", [".gz", ".zst"])
def test_what_stands_before_the_cut_is_read_and_the_line_named(tmp_path, compression):
    file = write_text(tmp_path / f"any{compression}", "".join(f"line {number**5}\n" for number in range(20_000)))
    file.write_bytes(file.read_bytes()[:-20])
    findings = Findings(strict=False)
    read_lines = read(file, findings)
    assert len(read_lines) > 1000
    assert kinds_at(findings) == [("unreadable", len(read_lines) + 1)]


@pytest.mark.parametrize("compression", [".gz", ".zst"])
def test_a_file_that_is_not_packed_as_named(tmp_path, compression):
    (tmp_path / f"any{compression}").write_text("plain text\n" * 10)
    with pytest.raises(DataError, match=f"not a {compression} file, or a damaged one"):
        read(tmp_path / f"any{compression}")


@pytest.mark.parametrize("compression", [".gz", ".zst"])
def test_several_packed_files_one_after_the_other_are_one(tmp_path, compression):
    one = write_text(tmp_path / f"one{compression}", "a\nb\n").read_bytes()
    (tmp_path / f"two{compression}").write_bytes(one + one)
    assert read(tmp_path / f"two{compression}") == ["a", "b", "a", "b"]


def test_files_that_cannot_be_opened(tmp_path):
    write_text(tmp_path / "train.en", "a\n")
    with pytest.raises(DataError, match=r"trian.en: no such file; did you mean 'train.en'\?"):
        read(tmp_path / "trian.en")
    with pytest.raises(DataError, match="no such file; there is no folder"):
        read(tmp_path / "nowhere" / "train.en")
    with pytest.raises(DataError, match="expected a file, got a folder"):
        read(tmp_path)


def test_a_line_that_never_ends_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "LONGEST_LINE", 1000)
    file = write_text(tmp_path / "any.txt", "short\n" + "x" * 5000)
    with pytest.raises(DataError, match=r"any\.txt:2: a line of more than 1,000 bytes"):
        read(file)
