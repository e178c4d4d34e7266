from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import Config, explain
from regard.data.sources import Part, SourceConfig, parse_part
from regard.errors import ConfigError


class Recipe(Config):
    train: SourceConfig


GOOD = [
    ({"source": "train.en.gz", "target": "train.de.gz"}, "files", "pairs"),
    ({"file": "pairs.tsv", "source": "en", "target": "de"}, "file", "pairs"),
    ({"file": "pairs.jsonl.zst", "source": "translation.en", "target": "translation.de"}, "file", "pairs"),
    ({"file": "deu.txt", "format": "tsv", "source": 0, "target": 1}, "file", "pairs"),
    ({"file": "data.json", "format": "jsonl", "text": "body"}, "file", "text"),
    ({"file": "input.txt", "part": "0%-90%"}, "file", "text"),
    ({"file": "train.tsv", "text": 0, "label": 1, "header": True}, "file", "labelled"),
    ({"hub": "owner/name", "config": "en", "split": "train", "text": "text", "label": "label"}, "hub", "labelled"),
    ({"street": "train", "seed": 3, "limit": 100}, "street", "pairs"),
]


@pytest.mark.parametrize(("settings", "origin", "content"), GOOD)
def test_every_way_to_say_where_data_lies(settings, origin, content):
    source = Recipe.from_tree({"train": settings}).train
    assert (source.origin, source.content) == (origin, content)
    assert SourceConfig.from_tree(source.tree()) == source
    source.require(content)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "train.file: say where the data lies: file = …, source = … and target = …, hub = … or street = …"),
        ({"file": "a.txt", "hub": "b/c"}, "train.hub: cannot stand beside 'file'; give one of the two"),
        ({"source": "a.en"}, "train.target: needed beside 'source'"),
        ({"file": "a.tsv", "target": 1}, "train.source: needed beside 'target'"),
        ({"file": "a.tsv", "label": 1}, "train.text: needed beside 'label'"),
        (
            {"file": "a.tsv", "source": 0, "target": 1, "text": 2},
            "train.text: cannot stand beside 'source'; give source and target, or text and label",
        ),
        (
            {"source": 0, "target": 1},
            "train.source: expected a file's name, got 0; for a column, give 'file' too",
        ),
        (
            {"file": "a.txt", "text": 0},
            "train.text: plain text has no columns to name; for a table, say format = 'tsv'",
        ),
        ({"street": "test", "text": 0}, "train.text: the embedded corpus has no columns to name"),
        (
            {"file": "a.csv"},
            "train.text: say which columns to read: source = … and target = …, or text = … and label = …",
        ),
        ({"file": "a.jsonl", "text": "x", "header": True}, "train.header: only .tsv and .csv files have a header row"),
        (
            {"file": "a.tsv", "text": "x", "header": False},
            "train.header: without a header no column is called 'x'; give its number from 0",
        ),
        ({"file": "a.tsv", "text": True}, "train.text: expected a name, or a column's number from 0, got True"),
        ({"file": "a.tsv", "text": -1}, "train.text: expected a name, or a column's number from 0, got -1"),
        ({"hub": "a/b", "text": "x"}, "train.split: say which split of the dataset, such as split = 'train'"),
        ({"file": "a.txt", "split": "train"}, "train.split: only data given by 'hub' has this setting"),
        ({"file": "a.txt", "seed": 1}, "train.seed: only data given by 'street' has this setting"),
        (
            {"file": "a.txt", "shuffle": True},
            "train.shuffle: only chooses which examples belong to a 'part'; give one such as part = '0%-90%'",
        ),
        (
            {"file": "a.txt", "part": "90%"},
            "train.part: expected a part from lower to higher such as '0%-90%' or '90%-100%', got '90%'",
        ),
        ({"file": "a.txt", "limit": 0}, "train.limit: expected greater than or equal to 1, got 0"),
        ({"file": "a.txt", "fiel": "b"}, "train.fiel: unknown setting; did you mean 'file'?"),
    ],
)
def test_mistakes_are_one_sentence_with_the_path(settings, problem):
    with pytest.raises(ConfigError) as raised:
        Recipe.from_tree({"train": settings})
    assert str(raised.value) == problem


def test_formats_that_are_not_read_say_so():
    with pytest.raises(ConfigError, match=r"train.file: '.zip' files are not read; convert it to text, .tsv"):
        Recipe.from_tree({"train": {"file": "a.tsv.zip", "text": 0}})
    with pytest.raises(ConfigError, match=r"train.target: '.json' files are not read"):
        Recipe.from_tree({"train": {"source": "a.en", "target": "a.json.gz"}})


def test_other_contents_are_refused_where_one_is_needed():
    source = SourceConfig(file="a.tsv", text=0, label=1)
    with pytest.raises(ConfigError) as raised:
        source.require("pairs", "data.train")
    assert str(raised.value) == "data.train: expected pairs: source = … and target = …; got labelled texts"


def test_a_header_is_there_where_a_column_has_a_name():
    assert SourceConfig(file="a.tsv", text="x").has_header
    assert not SourceConfig(file="a.tsv", text=0).has_header
    assert SourceConfig(file="a.tsv", text=0, header=True).has_header


def test_relative_files_lie_below_the_recipe(tmp_path):
    source = SourceConfig(source="train.en", target=str(tmp_path / "train.de"))
    assert source.files(Path("recipes")) == [Path("recipes/train.en"), tmp_path / "train.de"]
    assert SourceConfig(street="train").files() == []


def test_every_setting_has_its_help():
    settings = explain(SourceConfig)
    assert {setting.path for setting in settings} == set(SourceConfig.model_fields)
    assert all(setting.help for setting in settings)


@pytest.mark.parametrize("text", ["", "0-90", "50%-50%", "90%-10%", "0%-101%", "-5%-10%", "a%-b%", "0%-90%x"])
def test_parts_that_are_none(text):
    with pytest.raises(ValueError, match="a part from lower to higher"):
        parse_part(text)


def test_parts_are_exact():
    assert parse_part("0% - 33.3%") == Part(Fraction(0), Fraction(333, 1000))
    assert parse_part("0%-90%").of(1_115_394) == range(1_003_854)  # where nanoGPT cuts Tiny Shakespeare


@given(cuts=st.sets(st.integers(1, 999)), total=st.integers(0, 10**12))
def test_neighbouring_parts_cover_everything_once(cuts, total):
    bounds = [f"{cut / 10}%" for cut in [0, *sorted(cuts), 1000]]
    parts = [parse_part(f"{start}-{stop}").of(total) for start, stop in pairwise(bounds)]
    assert parts[0].start == 0
    assert parts[-1].stop == total
    assert all(one.stop == two.start for one, two in pairwise(parts))
