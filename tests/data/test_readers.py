import subprocess
import sys
import types

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_files import COMPRESSIONS, table_bytes, table_lines, write_bytes, write_lines, write_text

import regard.data
from regard.data.examples import Labelled, Pair, SourceLocation, fingerprint
from regard.data.findings import Findings
from regard.data.source_reader import read_examples, read_pairs, read_texts
from regard.data.sources import SourceConfig
from regard.errors import ConfigError, DataError

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
TABLES = ("tsv", "csv", "jsonl", "parquet")


def texts(excluded: str = "") -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff" + excluded), max_size=30)


def cell_texts(format: str) -> st.SearchStrategy[str]:
    """TSV alone cannot hold tabs and line ends."""
    return texts("\t\n\r") if format == "tsv" else texts()


@pytest.mark.parametrize("compression", COMPRESSIONS)
@same_folder
@given(pairs=st.lists(st.tuples(texts("\n\r"), texts("\n\r")), min_size=1))
def test_aligned_text_files(tmp_path, compression, pairs):
    source = write_lines(tmp_path / f"train.en{compression}", [source for source, _ in pairs])
    target = write_lines(tmp_path / f"train.de{compression}", [target for _, target in pairs])
    read = list(read_pairs(SourceConfig(source=source.name, target=target.name), tmp_path))
    assert [(pair.source, pair.target) for pair in read] == pairs
    assert [pair.location for pair in read] == [
        SourceLocation(str(source), number) for number in range(1, len(pairs) + 1)
    ]
    assert [pair.target_location for pair in read] == [
        SourceLocation(str(target), number) for number in range(1, len(pairs) + 1)
    ]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("format", TABLES)
@same_folder
@given(data=st.data(), by_name=st.booleans())
def test_tables_are_read_as_written_and_name_their_lines(tmp_path, format, compression, data, by_name):
    rows = data.draw(st.lists(st.tuples(cell_texts(format), cell_texts(format), st.integers(0, 3)), min_size=1))
    names, by_name = ("a", "b.c", "label"), by_name or format == "jsonl"
    file = write_bytes(tmp_path / f"any.{format}{compression}", table_bytes(format, rows, names, by_name))
    source, target, label = names if by_name else (0, 1, 2)
    pairs = list(read_pairs(SourceConfig(file=file.name, source=source, target=target), tmp_path))
    assert [(pair.source, pair.target) for pair in pairs] == [(one, two) for one, two, _ in rows]
    assert [pair.location.line for pair in pairs] == expected_lines(format, rows, names, by_name)
    labelled = read_examples(SourceConfig(file=str(file), text=target, label=label))
    assert [(example.text, example.label) for example in labelled] == [(two, str(label)) for _, two, label in rows]


def expected_lines(format, rows, names, header):
    if format == "parquet":
        return list(range(1, len(rows) + 1))
    written = table_lines(format, [names, *rows] if header and format != "jsonl" else rows, names)
    starts = [1 + sum(line.count("\n") for line in written[:index]) for index in range(len(written))]
    return starts[-len(rows) :]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@same_folder
@given(text=texts("\r").filter(bool))
def test_the_lines_of_a_running_text_give_it_back(tmp_path, compression, text):
    file = write_text(tmp_path / f"input.txt{compression}", text)
    read = list(read_texts(SourceConfig(file=file.name), tmp_path))
    assert "".join(line.text + line.end for line in read) == text
    assert [line.location.line for line in read] == list(range(1, len(read) + 1))


def test_windows_line_ends_inside_quoted_cells_are_kept(tmp_path):
    file = write_text(tmp_path / "any.csv", 'text,label\r\n"one\r\ntwo",x\r\nthree,y\r\n')
    findings = Findings()
    read = list(read_examples(SourceConfig(file=str(file), text="text", label="label"), findings=findings))
    assert [(example.text, example.location.line) for example in read] == [("one\r\ntwo", 2), ("three", 4)]
    assert not findings.items


def test_nested_json_lists_are_joined_or_picked_from(tmp_path):
    line = '{"source": ["One.", "Two."], "target": ["short", "shorter"], "meta": {"de": "kurz"}}'
    file = write_lines(tmp_path / "any.jsonl", [line])
    for target, expected in [("target.0", "short"), ("target", "short shorter"), ("meta.de", "kurz")]:
        (pair,) = read_pairs(SourceConfig(file=str(file), source="source", target=target))
        assert pair == Pair("One. Two.", expected, SourceLocation(str(file), 1))


def test_nested_parquet_columns(tmp_path):
    rows = {"translation": [{"en": "dog", "de": "Hund"}], "stars": pa.array(["five"]).dictionary_encode()}
    pq.write_table(pa.table(rows), tmp_path / "any.parquet")
    source = SourceConfig(file="any.parquet", source="translation.en", target="translation.de")
    assert [(pair.source, pair.target) for pair in read_pairs(source, tmp_path)] == [("dog", "Hund")]
    labelled = read_examples(SourceConfig(file="any.parquet", text="translation.en", label=1), tmp_path)
    assert list(labelled) == [Labelled("dog", "five", SourceLocation(str(tmp_path / "any.parquet"), 1))]


def test_json_arrays_are_read_by_number(tmp_path):
    file = write_lines(tmp_path / "any.jsonl", ['["good", 1]', '["bad", false]'])
    read = read_examples(SourceConfig(file=str(file), text=0, label=1))
    assert [(example.text, example.label) for example in read] == [("good", "1"), ("bad", "false")]


BROKEN = [
    ("a.tsv", "x\t1\ny\n", {"text": 0, "label": 1}, ":2: expected 2 columns as in the first row, got 1"),
    ("a.tsv", "text\tlabel\nx\t1\n", {"text": "txt"}, ":1: no column 'txt'; did you mean 'text'?"),
    ("a.tsv", "x\t1\n", {"text": 2}, ":1: no column 2: the table has 2 columns, counted from 0"),
    ("a.tsv", "x\t1\ny\t\n", {"text": 0, "label": 1}, ":2: column '1': expected a label, got an empty text"),
    ("a.csv", 'x,1\ny,"2\n3\n', {"text": 0, "label": 1}, ":2: a quote is opened here and never closed"),
    ("a.csv", 'x,1\n"y"z,2\n', {"text": 0, "label": 1}, ":2: not CSV: ',' expected after '\"'"),
    ("a.jsonl", '{"t": "x"}\n\n{"t": \n', {"text": "t"}, ":3: not JSON: Expecting value: line 1 column 7 (char 6)"),
    ("a.jsonl", '{"t": "x"}\n{"u": "x"}\n', {"text": "t"}, ":2: no column 't'; known: u"),
    ("a.jsonl", '{"t": "x"}\n{"t": 7}\n', {"text": "t"}, ":2: column 't': expected text, got 7"),
    ("a.jsonl", '{"t": "\\u0000"}\n', {"text": "t"}, ":1: the text holds a NUL character: is it text, and UTF-8?"),
    ("a.jsonl", '{"t": "\\ud800"}\n', {"text": "t"}, ":1: the text holds half a surrogate pair, which is not UTF-8"),
    ("a.txt", "", {}, ": no examples"),
    ("a.parquet", "PAR1 no parquet", {"text": 0}, ": not a Parquet file, or one that is cut off or damaged"),
]


@pytest.mark.parametrize(("name", "content", "columns", "problem"), BROKEN)
def test_the_first_error_stops_with_file_and_line(tmp_path, name, content, columns, problem):
    file = write_text(tmp_path / name, content)
    with pytest.raises(DataError) as raised:
        list(read_examples(SourceConfig(file=name, **columns), tmp_path))
    assert str(raised.value).startswith(f"{file}{problem}")


def test_json_nested_too_deeply(tmp_path):
    file = write_lines(tmp_path / "any.jsonl", ["[" * 100_000])
    with pytest.raises(DataError, match=r"any\.jsonl:1: not JSON"):
        list(read_texts(SourceConfig(file=str(file), text="t")))


@pytest.mark.parametrize("longer", ["source", "target"])
def test_unequal_files_name_the_first_line_without_partner(tmp_path, longer):
    counts = {"source": 3, "target": 3, longer: 5}
    for side, count in counts.items():
        write_lines(tmp_path / side, ["x"] * count)
    other = "target" if longer == "source" else "source"
    with pytest.raises(DataError) as raised:
        list(read_pairs(SourceConfig(source="source", target="target"), tmp_path))
    files = tmp_path / longer, tmp_path / other
    assert str(raised.value) == f"{files[0]}:4: no partner for this line: {files[1]} has 3 lines, {files[0]} has 5"


def test_parquet_columns_that_are_missing_or_not_text(tmp_path):
    invalid = pa.array([b"good", b"b\xffd"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": invalid, "score": [0.5, 1.5]}), tmp_path / "any.parquet")
    for columns, problem in [
        ({"text": "tetx"}, "any.parquet: no column 'tetx'; did you mean 'text'?"),
        ({"text": 7}, "any.parquet: no column 7: the table has 2 columns, counted from 0"),
        ({"text": "text"}, "any.parquet:2: column 'text' is not UTF-8 text"),
        ({"text": "score"}, "any.parquet:1: column 'score': expected text, got 0.5"),
    ]:
        with pytest.raises(DataError) as raised:
            list(read_texts(SourceConfig(file="any.parquet", **columns), tmp_path))
        assert str(raised.value) == f"{tmp_path}/{problem}"


@same_folder
@given(cut=st.integers(min_value=1), compression=st.sampled_from(COMPRESSIONS))
def test_parquet_cut_anywhere_is_noticed(tmp_path, cut, compression):
    rows = [(f"text {number}",) for number in range(50)]
    file = write_bytes(tmp_path / f"any.parquet{compression}", table_bytes("parquet", rows, ["text"]))
    content = file.read_bytes()
    file.write_bytes(content[: cut % len(content)])
    with pytest.raises(DataError, match=r"cut off|damaged"):
        list(read_texts(SourceConfig(file=str(file), text="text")))


def test_warnings_are_counted_and_nothing_is_dropped(tmp_path):
    write_text(tmp_path / "a.en", "one\n\n   \nfour\u2028five\nsix\n")
    write_text(tmp_path / "a.de", "eins\nzwei\r\ndrei\nvier\n\n")
    findings = Findings()
    read = list(read_pairs(SourceConfig(source="a.en", target="a.de"), tmp_path, findings))
    assert [pair.source for pair in read] == ["one", "", "   ", "four\u2028five", "six"]
    english, german = tmp_path / "a.en", tmp_path / "a.de"
    assert [str(summary) for summary in findings.summaries()] == [
        f"1 Windows line end (at {german}:2)",
        f"3 empty lines (first at {english}:2)",
        f"1 text with a hidden line separator (at {english}:4)",
    ]
    assert [finding.where for finding in findings.items if finding.kind == "empty"][2] == f"{german}:5"


@pytest.mark.parametrize("shuffle", [False, True])
@same_folder
@given(rows=st.lists(texts("\t\n\r").filter(bool), min_size=1, max_size=60), cut=st.integers(1, 99))
def test_two_parts_make_the_whole(tmp_path, shuffle, rows, cut):
    file = write_lines(tmp_path / "any.tsv", rows)
    whole = list(read_texts(SourceConfig(file=str(file), text=0, header=False)))
    parts = [
        list(
            read_examples(
                SourceConfig(file=str(file), text=0, header=False, part=part, shuffle=shuffle), findings=Findings(False)
            )
        )
        for part in (f"0%-{cut}%", f"{cut}%-100%")
    ]
    assert sorted(parts[0] + parts[1], key=lambda example: example.location.line) == whole
    if shuffle:
        assert not {example.text for example in parts[0]} & {example.text for example in parts[1]}
    else:
        assert parts[0] + parts[1] == whole
        assert len(parts[0]) == len(rows) * cut // 100


def test_a_running_text_is_parted_by_characters(tmp_path):
    file = write_text(tmp_path / "input.txt", "a" * 88 + "\n" + "b\n" * 5 + "\n")
    first, last = (list(read_texts(SourceConfig(file=str(file), part=part))) for part in ("0%-90%", "90%-100%"))
    assert [line.text for line in first] == ["a" * 88, "b"]  # the line in which the cut falls is whole
    assert [line.text for line in last] == ["b", "b", "b", "b", ""]


def test_a_shuffled_part_is_about_as_large_as_asked_and_always_the_same(tmp_path):
    file = write_lines(tmp_path / "sorted.tsv", [f"text {number}\t{number // 1000}" for number in range(2000)])
    source = SourceConfig(file=str(file), text=0, label=1, part="80%-100%", shuffle=True)
    read = list(read_examples(source))
    assert 330 < len(read) < 470
    assert 150 < sum(example.label == "1" for example in read) < 250
    assert read == list(read_examples(source))
    assert fingerprint("text 1") == 0xBCDA0A8474F20B86  # parts must not move from one version to the next


def test_parts_read_twice_report_once(tmp_path):
    file = write_text(tmp_path / "any.txt", "\ufeffone\r\ntwo\r\n\x07three\n")
    findings = Findings()
    for part in ("0%-50%", "50%-100%"):
        list(read_texts(SourceConfig(file=str(file), part=part), findings=findings))
    assert findings.counts == {"bom": 1, "crlf": 2, "odd": 1}


def test_an_empty_part_is_an_error(tmp_path):
    file = write_lines(tmp_path / "any.tsv", ["x"])
    with pytest.raises(DataError, match=r"any.tsv: no examples in 0%-50%"):
        list(read_texts(SourceConfig(file=str(file), text=0, part="0%-50%")))


def test_a_limit_reads_no_further(tmp_path):
    file = write_bytes(tmp_path / "any.txt", b"one\ntwo\n\xff\n")
    assert [line.text for line in read_texts(SourceConfig(file=str(file), limit=2))] == ["one", "two"]


def test_the_embedded_corpus_is_asked_for_its_pairs(monkeypatch):
    asked = []

    def pairs(split, size=None, seed=1):
        asked.append((split, size, seed))
        return iter([("a dog", "ein Hund"), ("a cat", "eine Katze")])

    fake = types.ModuleType("regard.data.street")
    fake.pairs = pairs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "regard.data.street", fake)
    monkeypatch.setattr(regard.data, "street", fake, raising=False)
    read = list(read_pairs(SourceConfig(street="valid", limit=2, seed=5)))
    assert read[1] == Pair("a cat", "eine Katze", SourceLocation("street/valid", 2))
    list(read_pairs(SourceConfig(street="train", part="0%-50%")))
    assert asked == [("valid", 2, 5), ("train", None, 1), ("train", None, 1)]


def test_the_embedded_corpus_is_read_like_any_other():
    read = list(read_pairs(SourceConfig(street="valid", limit=3)))
    assert [str(pair.location) for pair in read] == ["street/valid:1", "street/valid:2", "street/valid:3"]


def test_readers_refuse_other_contents():
    for read, source in [
        (read_pairs, {"text": 0}),
        (lambda source: source.require("labelled"), {"text": 0}),
        (read_texts, {"text": 0, "label": 1}),
    ]:
        with pytest.raises(ConfigError, match="expected"):
            read(SourceConfig(file="a.tsv", **source))


def test_nothing_is_read_before_the_first_example_is_asked_for():
    read_texts(SourceConfig(file="missing.txt", part="0%-50%"))


MEASURE = """
import sys, tracemalloc
from pathlib import Path
import pyarrow as pa
from regard.data.source_reader import read_texts
from regard.data.sources import SourceConfig
for file in map(Path, sys.argv[1:]):
    column = {} if ".txt" in file.name else {"text": "text"}
    tracemalloc.start()
    count, peak, arrow = 0, 0, 0
    for count, _ in enumerate(read_texts(SourceConfig(file=str(file), **column)), start=1):
        if count % 500 == 0:
            arrow = max(arrow, pa.total_allocated_bytes())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(file.name, count, peak, arrow)
"""


def test_memory_does_not_grow_with_the_file(tmp_path):
    rows = [(f"{number} {'a line of some length':2000}",) for number in range(4_000)]
    files = [write_lines(tmp_path / f"a.txt{compression}", [row[0] for row in rows]) for compression in COMPRESSIONS]
    for format in ("tsv", "csv", "jsonl"):
        files.append(write_bytes(tmp_path / f"a.{format}", table_bytes(format, rows, ["text"], header=True)))
    table = pa.table({"text": [row[0] for row in rows]})
    small_pages = {"use_dictionary": False, "data_page_size": 1 << 16, "write_batch_size": 16}
    pq.write_table(table, tmp_path / "a.parquet", compression="none", **small_pages)  # type: ignore[arg-type]
    files.append(tmp_path / "a.parquet")
    measured = subprocess.run(
        [sys.executable, "-c", MEASURE, *map(str, files)], capture_output=True, text=True, check=True, timeout=120
    )
    for line in measured.stdout.splitlines():
        name, count, peak, arrow = line.split()
        assert int(count) == 4_000, name
        assert int(peak) < 1_500_000, line  # the files hold 8 MB
        assert int(arrow) < 2_000_000, line
    assert len(measured.stdout.splitlines()) == len(files)


def test_reading_needs_no_torch():
    code = "import sys, regard.data.check; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
