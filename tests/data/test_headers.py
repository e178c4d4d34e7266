import pytest
from raw_files import write_bytes, write_lines

from regard.data.check import check_files, check_sources
from regard.data.source_reader import read_examples
from regard.data.sources import SourceConfig
from regard.errors import ConfigError, DataError

FILMS = [
    f"a {word} film number {number}\t{label}"
    for number in range(8)
    for word, label in [("good", "pos"), ("bad", "neg")]
]


def labels_of(file, **settings) -> set[str]:
    return {example.label for example in read_examples(SourceConfig(file=str(file), text=0, label=1, **settings))}


@pytest.mark.parametrize(
    "header",
    [
        "text\tlabel",
        "Text\tLabel",
        "review_text\tsentiment",
        "Satz\tBewertung",
        "sentence\tx",
        "xyz\tlabel_id",
        "foo\tbar",
    ],
)
def test_a_header_over_numbered_columns_is_refused_and_never_a_class(tmp_path, header):
    file = write_lines(tmp_path / "films.tsv", [header, *FILMS])
    with pytest.raises(
        DataError, match=r"films\.tsv:1: the first row looks like a header \(.*header = true.*header = false"
    ):
        labels_of(file)
    assert labels_of(file, header=True) == {"pos", "neg"}
    assert labels_of(file, header=False) == {"pos", "neg", header.split("\t")[1]}
    names = header.split("\t")
    named = SourceConfig(file=str(file), text=names[0], label=names[1])
    assert {example.label for example in read_examples(named)} == {"pos", "neg"}


def test_a_word_over_a_column_of_numbers_is_a_header(tmp_path):
    file = write_lines(tmp_path / "films.tsv", ["xyz\tuvw", "fine\t1", "poor\t0"])
    with pytest.raises(DataError, match="looks like a header"):
        labels_of(file)


@pytest.mark.parametrize("rows", [
    FILMS,
    ["a rare film\trare", *FILMS],
    ["good\tpos", "bad\tneg"],
    ["good\tpos", "bad\tneg", "dull\tneg", "so so\tneutral"],
    ["text\tnoun", "go\tverb", "house\tnoun"],
    ["1\t0", "2\t1"],
    ["The text is long.\tlabel a", *FILMS],
])  # fmt: skip
def test_a_first_row_that_is_an_example_stays_one(tmp_path, rows):
    file = write_lines(tmp_path / "films.tsv", rows)
    source = SourceConfig(file=str(file), text=0, label=1)
    assert [example.location.line for example in read_examples(source)] == list(range(1, len(rows) + 1))


@pytest.mark.parametrize(("rows", "header"), [
    (["english\tgerman", "The dog sleeps.\tDer Hund schläft."], True),
    (["en\tde", "dog\tHund"], True),
    (["source,target", "dog,Hund"], True),
    (["Go\tGeh", "The dog sleeps.\tDer Hund schläft."], False),
    (["answer\tAntwort", "dog\tHund"], False),
])  # fmt: skip
def test_pairs_by_number(tmp_path, rows, header):
    file = write_lines(tmp_path / ("pairs.csv" if "," in rows[0] else "pairs.tsv"), rows)
    source = SourceConfig(file=str(file), source=0, target=1)
    if header:
        with pytest.raises(DataError, match="looks like a header"):
            list(read_examples(source))
    else:
        assert len(list(read_examples(source))) == len(rows)


PROBLEMS = {
    "named without a header": (["great film\tpos", "poor film\tneg"], {"text": "text", "label": "label"},
        r"1: no column 'text'; known: great film, pos; if this first row is no header, give the numbers"),
    "number in quotes": (["a\tb"], {"text": "0", "label": "1"}, r"1: no column '0'; .*leave the quotes out"),
    "out of range": (["a\tb"], {"text": 0, "label": 2}, r"1: no column 2: the table has 2 columns, counted from 0"),
    "twice": (["text\ttext", "a\tb"], {"text": "text"}, r"1: 2 columns are called 'text'; give the number of one"),
    "ragged": (["a\tb", "c", "d\te"], {"text": 0, "label": 1}, r"2: expected 2 columns as in the first row, got 1"),
    "one column": (["a b", "c d"], {"text": 0, "label": 1}, r"1: no column 1: the table has 1 column, counted from 0$"),
    "commas": (["a,b", "c,d"], {"text": 0, "label": 1}, r"1: no column 1: .* separated by commas: in a recipe"),
    "only a header": (["text\tlabel"], {"text": "text", "label": "label"}, r"1: a header and no examples below it"),
    "names in one cell": (["text;label", "so;pos"], {"text": 0}, r"1: the first row looks like .* by semicolons"),
    "no label": (["good\tpos", "bad\t "], {"text": 0, "label": 1}, r"2: column '1': expected a label, got ' '"),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "columns", "said"), PROBLEMS.values(), ids=PROBLEMS)
def test_tables_that_do_not_fit_their_recipe(tmp_path, rows, columns, said):
    file = write_lines(tmp_path / "table.tsv", rows)
    with pytest.raises(DataError, match=f"table.tsv:{said}"):
        list(read_examples(SourceConfig(file=str(file), **columns)))


def test_a_table_with_semicolons_is_named_as_such(tmp_path):
    file = write_bytes(tmp_path / "table.csv", b"text;label\ngood, really;pos\n")
    with pytest.raises(DataError, match=r"table\.csv:1: no column 'text'; .* separated by semicolons"):
        list(read_examples(SourceConfig(file=str(file), text="text", label="label")))
    assert [finding.line for finding in check_files([file]).findings if finding.kind == "columns"] == [2]


def test_a_quoted_cell_over_several_lines_keeps_the_lines_of_what_follows(tmp_path):
    file = write_bytes(tmp_path / "table.csv", b'text,label\n"one\ntwo\nthree",a\nfour,b\nfive\n')
    source = SourceConfig(file=str(file), text="text", label="label")
    checked = check_sources({"train": source})
    assert [(finding.line, finding.kind) for finding in checked.findings] == [(6, "columns")]
    file.write_bytes(b'text,label\n"one\ntwo\nthree",a\nfour,b\n')
    assert [example.location.line for example in read_examples(source)] == [2, 5]


def test_white_space_makes_no_further_label(tmp_path):
    file = write_lines(tmp_path / "films.tsv", ["good film\tpos", "bad film\tneg ", "fine film\t pos"])
    assert labels_of(file) == {"pos", "neg"}


def test_a_check_of_a_file_counts_its_header_as_no_example(tmp_path):
    file = write_lines(tmp_path / "films.tsv", ["text\tlabel", *FILMS])
    checked = check_files([file])
    (statistics,) = checked.statistics.values()
    assert (statistics.examples, statistics.unit) == (16, "row")
    assert list(statistics.sides) == ["column text", "column label"]
    assert not checked.findings


def test_labels_that_differ_in_letters_case_are_pointed_out(tmp_path):
    file = write_lines(tmp_path / "films.tsv", ["one film\tPos", "two films\tpos", "three films\tneg"])
    checked = check_sources({"train": SourceConfig(file=str(file), text=0, label=1, header=False)})
    assert [finding.kind for finding in checked.findings] == ["similar"]
    assert not checked.has_errors


def test_a_table_with_semicolons_is_read_where_the_recipe_says_so(tmp_path):
    file = write_lines(tmp_path / "table.csv", ["review;stars", '"good; really, good";5', "bad;1"])
    source = SourceConfig(file=str(file), text="review", label="stars", delimiter=";")
    assert [(one.text, one.label) for one in read_examples(source)] == [("good; really, good", "5"), ("bad", "1")]
    with pytest.raises(DataError, match="separated by semicolons: in a recipe, say format = 'csv' and delimiter = ';'"):
        list(read_examples(source.but(delimiter=None)))
    with pytest.raises(ConfigError, match="delimiter: only"):
        SourceConfig(file="table.tsv", text=0, label=1, delimiter=";")
