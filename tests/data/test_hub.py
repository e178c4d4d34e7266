import json
import sys
import types

import pytest
from raw_files import write_lines

from regard.data.findings import Findings
from regard.data.source_reader import read_examples, read_pairs
from regard.data.sources import SourceConfig
from regard.errors import DataError, RegardError

PAIRS = [{"translation": {"en": "dog", "de": "Hund"}}, {"translation": {"en": "cat", "de": "Katze"}}]
PAIR_COLUMNS = {"source": "translation.en", "target": "translation.de"}


class Classes:
    names = ("neg", "pos")


class Rows(list):
    features = None


@pytest.fixture
def library(monkeypatch):
    """A stand-in for the `datasets` library that remembers how it was called."""
    fake = types.ModuleType("datasets")
    fake.exceptions = types.SimpleNamespace(DatasetsError=type("DatasetsError", (Exception,), {}))  # type: ignore[attr-defined]
    fake.calls, fake.rows = [], Rows(PAIRS)  # type: ignore[attr-defined]

    def load_dataset(*names, **settings):
        fake.calls.append((names, settings))
        if settings["split"] == "vald":
            raise ValueError("Unknown split 'vald'.\nKnown: train")
        return fake.rows

    fake.load_dataset = load_dataset  # type: ignore[attr-defined]
    fake.load_from_disk = lambda folder: {"train": fake.rows}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", fake)
    return fake


def test_rows_are_streamed_from_the_hub(library, tmp_path):
    source = SourceConfig(hub="owner/name", config="en-de", split="train", **PAIR_COLUMNS)
    read = list(read_pairs(source, tmp_path))
    assert [(pair.source, pair.target, str(pair.location)) for pair in read] == [
        ("dog", "Hund", "owner/name[train]:1"),
        ("cat", "Katze", "owner/name[train]:2"),
    ]
    assert library.calls == [(("owner/name", "en-de"), {"split": "train", "streaming": True})]


def test_classes_come_by_name(library):
    library.rows = Rows([{"text": "good", "label": 1}, {"text": "none", "label": -1}])
    library.rows.features = {"text": object(), "label": Classes()}
    read = read_examples(SourceConfig(hub="owner/name", split="train", text="text", label="label"))
    assert [example.label for example in read] == ["pos", "-1"]


def test_problems_of_the_library_are_one_sentence(library):
    source = SourceConfig(hub="owner/name", split="vald", **PAIR_COLUMNS)
    with pytest.raises(DataError) as raised:
        list(read_pairs(source))
    assert str(raised.value) == "owner/name[vald]: the dataset cannot be read: Unknown split 'vald'. Known: train"
    findings = Findings(strict=False)
    assert list(read_pairs(source, findings=findings)) == []
    assert [finding.kind for finding in findings.items] == ["unreadable"]


def test_folders_that_the_library_saved(library, tmp_path):
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "dataset_dict.json").write_text("{}")
    assert len(list(read_pairs(SourceConfig(hub="saved", split="train", **PAIR_COLUMNS), tmp_path))) == 2
    with pytest.raises(DataError, match=r"no split 'trian'; did you mean 'train'\?"):
        list(read_pairs(SourceConfig(hub="saved", split="trian", **PAIR_COLUMNS), tmp_path))


def test_without_the_library_the_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(RegardError, match=r"pip install 'regard\[hub\]'"):
        list(read_pairs(SourceConfig(hub="owner/name", split="train", **PAIR_COLUMNS)))


@pytest.mark.filterwarnings("ignore")  # what the library warns itself about
def test_a_local_folder_through_the_real_library(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    datasets = pytest.importorskip("datasets")
    folder = tmp_path / "pairs"
    folder.mkdir()
    write_lines(folder / "train.jsonl", [json.dumps(pair) for pair in PAIRS])
    read = list(read_pairs(SourceConfig(hub="pairs", split="train", **PAIR_COLUMNS), tmp_path))
    assert [(pair.source, pair.target) for pair in read] == [("dog", "Hund"), ("cat", "Katze")]
    with pytest.raises(DataError, match=r"pairs\[test\]: the dataset cannot be read"):
        list(read_pairs(SourceConfig(hub="pairs", split="test", **PAIR_COLUMNS), tmp_path))
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    file = write_lines(tmp_path / "labelled.jsonl", ['{"text": "good", "label": 1}'])
    saved = datasets.load_dataset("json", data_files={"train": str(file)}, features=features)
    saved.save_to_disk(str(tmp_path / "saved"))
    labelled = read_examples(SourceConfig(hub="saved", split="train", text="text", label="label"), tmp_path)
    assert [(example.text, example.label) for example in labelled] == [("good", "pos")]
