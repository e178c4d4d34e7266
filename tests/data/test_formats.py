"""A new file format is one class: recipes, `data check` and `init` know it as soon as it is defined."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from regard.data.check import check_files
from regard.data.columns import Record
from regard.data.examples import Labelled, SourceLocation
from regard.data.findings import Findings
from regard.data.guess.columns import GuessOptions
from regard.data.guess.task import guess_data
from regard.data.readers.registry import FORMATS, RecordFormat, format_of
from regard.data.source_reader import read_examples
from regard.data.sources import SourceConfig

LINES = [f"text=this is film {number}|label={'good' if number % 2 else 'bad'}" for number in range(30)]


@pytest.fixture
def pairs_file(tmp_path: Path) -> Iterator[Path]:
    class PairsFormat(RecordFormat):
        name, suffixes = "pairs", (".pairs",)

        def records(self, file: Path, columns: Sequence[str | int] | None, findings: Findings) -> Iterator[Record]:
            for number, line in enumerate(file.read_text().splitlines(), start=1):
                yield dict(pair.split("=") for pair in line.split("|")), SourceLocation(str(file), number)

    file = tmp_path / "train.pairs"
    file.write_text("\n".join(LINES))
    yield file
    del FORMATS["pairs"]


def test_a_recipe_reads_it(pairs_file: Path):
    examples = list(read_examples(SourceConfig(file=str(pairs_file), text="text", label="label")))
    assert examples[1] == Labelled("this is film 1", "good", SourceLocation(str(pairs_file), 2))


def test_a_check_reads_it(pairs_file: Path):
    checked = check_files([pairs_file])
    assert not checked.has_errors
    assert [*checked.statistics[str(pairs_file)].sides] == ["column text", "column label"]


def test_init_guesses_its_columns(pairs_file: Path, tmp_path: Path):
    guess = guess_data([pairs_file], tmp_path, GuessOptions())
    assert guess.task == "classification"
    assert guess.sources["train"].tree() == {**guess.sources["train"].tree(), "text": "text", "label": "label"}


def test_names_tell_formats(pairs_file: Path):
    assert [format_of(name) for name in ("a.pairs.gz", "a.tsv", "a.CSV", "a.ndjson", "a.pq", "a.en")] == [
        *("pairs", "tsv", "csv", "jsonl", "parquet", "text")
    ]
    with pytest.raises(ValueError, match=r"'\.xlsx' files are not read"):
        format_of("a.xlsx")
