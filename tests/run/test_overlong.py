"""Inputs that are too long stop nothing: a test scores what fits and names the rest, lines stay line for line."""

import json
from pathlib import Path
from typing import Any

import pytest
from small_runs import TINY_MODEL, classification, translation, write_recipe
from typer.testing import CliRunner

from regard import api
from regard.cli import app
from regard.data.sources import SourceConfig
from regard.errors import ConfigError, DataError, OverlongError
from regard.run import Run
from regard.train.monitor import Quiet

LONG = " ".join(["the dog sleeps"] * 60)


def train(folder: Path, tree: dict[str, Any]) -> Run:
    return api.train(write_recipe(folder, tree), out=folder / "run", watcher=Quiet())


def regard(*words: str, lines: list[str] | None = None) -> Any:
    text = None if lines is None else "".join(f"{line}\n" for line in lines)
    return CliRunner().invoke(app, list(words), input=text)


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("translation")
    tree = translation(steps=2)
    tree["data"] |= {"max_length": 40}
    (folder / "test.en").write_text(f"The dog sleeps.\n{LONG}\nThe cat sleeps. {LONG}\nAnna sees it.\n")
    (folder / "test.de").write_text("Der Hund schläft.\nlang\nlang\nAnna sieht es.\n")
    tree["data"]["test"] = {"source": "test.en", "target": "test.de"}
    tree["search"] = {"kind": "greedy", "max_length": 8}
    return train(folder, tree)


def labelled(folder: Path, overlong: str) -> Run:
    tree = classification(folder, steps=2)
    (folder / "test.tsv").write_text(f"a good film\tpositive\n{LONG}\tnegative\na bad film\tnegative\n")
    tree["data"] |= {"max_length": 12, "overlong": overlong}
    tree["data"]["test"] = {"file": "test.tsv", "text": 0, "label": 1}
    return train(folder, tree)


@pytest.fixture(scope="module")
def skipping(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return labelled(tmp_path_factory.mktemp("skip"), "skip")


@pytest.fixture(scope="module")
def cutting(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return labelled(tmp_path_factory.mktemp("cut"), "cut")


def test_a_sentence_that_is_too_long_does_not_stop_the_test_of_the_others(translator: Run):
    report = api.evaluate(translator)
    file = translator.folder.parent / "test.en"
    assert report.examples == 2
    assert report.overlong["treatment"] == "skip"
    assert report.overlong["count"] == 2
    assert [one.partition(": ")[0] for one in report.overlong["examples"]] == [f"{file}:2", f"{file}:3"]
    assert "tokens, the model takes at most 40" in report.overlong["examples"][0]
    assert api.evaluate(translator, overlong="cut").examples == 4
    with pytest.raises(DataError, match=rf"{file}:2: a sentence of \d+ tokens, .*; 2 examples are too long; evaluate"):
        api.evaluate(translator, overlong="error")


def test_the_command_line_counts_and_names_them(translator: Run):
    done = regard("evaluate", str(translator.folder), "--device", "cpu")
    assert done.exit_code == 0, done.output
    assert "2 examples too long for the model, left out:" in done.output
    assert "test.en:3: a sentence of" in done.output
    tree = json.loads(regard("evaluate", str(translator.folder), "--json", "--overlong", "cut").stdout)
    assert (tree["examples"], tree["overlong"]["treatment"], tree["overlong"]["count"]) == (4, "cut", 2)
    assert regard("evaluate", str(translator.folder), "--overlong", "error").exit_code != 0
    assert isinstance(regard("evaluate", str(translator.folder), "--overlong", "some").exception, ConfigError)


def test_parts_score_the_same(translator: Run, tmp_path: Path):
    whole = json.loads(regard("evaluate", str(translator.folder), "--json").stdout)
    parts = json.loads(regard("evaluate", str(translator.folder), "--json", "--out", str(tmp_path / "parts")).stdout)
    assert parts["metrics"] == whole["metrics"]
    assert parts["overlong"] == whole["overlong"]


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_lines_stay_line_for_line(translator: Run, engine: str, tmp_path: Path):
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2")
    lines = ["The dog sleeps.", LONG, "", "Anna sees it."]
    words = ["translate", str(translator.folder), "--engine", engine]
    done = regard(*words, lines=lines)
    assert done.exit_code == 0, done.output
    alone = regard(*words, lines=["The dog sleeps.", "", "", "Anna sees it."])
    assert done.stdout == alone.stdout
    assert "standard input:2: a sentence of" in done.stderr
    assert done.stderr.count("left blank") == 1
    cut = regard(*words, "--overlong", "cut", lines=lines).stdout.splitlines()
    assert cut[1]
    assert [*cut[:1], *cut[2:]] == [*alone.stdout.splitlines()[:1], *alone.stdout.splitlines()[2:]]
    rows = [json.loads(line) for line in regard(*words, "--json", lines=lines).stdout.splitlines()]
    assert [len(row["outputs"]) for row in rows] == [1, 0, 1, 1]
    assert [row.get("overlong", "")[:13] for row in rows] == ["", "a sentence of", "", ""]
    assert regard(*words, "--overlong", "error", lines=lines).exit_code != 0
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    done = regard(*words, str(tmp_path / "in.txt"), "--out", str(tmp_path / "parts"))
    assert done.exit_code == 0, done.output
    assert f"{tmp_path / 'in.txt'}:2: a sentence of" in done.stderr
    assert (tmp_path / "parts" / "part-000000.txt").read_text() == alone.stdout


def test_a_classifier_is_tested_on_what_fits(skipping: Run):
    report = api.evaluate(skipping)
    assert (report.examples, report.overlong["count"], report.overlong["treatment"]) == (2, 1, "skip")
    assert report.overlong["examples"][0].startswith(f"{skipping.folder.parent / 'test.tsv'}:2: text of ")
    assert api.evaluate(skipping, overlong="cut").examples == 3
    with pytest.raises(DataError, match=r"test\.tsv:2: text of \d+ tokens, the model takes at most 12"):
        api.evaluate(skipping, overlong="error")
    with pytest.raises(OverlongError, match=r"input 2: \d+ tokens, the model takes at most 12"):
        skipping.classify(["a good film", LONG])
    done = regard("classify", str(skipping.folder), lines=["a good film", LONG, "a bad film"])
    assert [bool(line) for line in done.stdout.split("\n")[:-1]] == [True, False, True]
    assert "standard input:2: " in done.stderr


def test_a_classifier_that_was_trained_on_cut_texts_cuts(cutting: Run):
    report = api.evaluate(cutting)
    assert (report.examples, report.overlong["count"], report.overlong["treatment"]) == (3, 1, "cut")
    first = " ".join(LONG.split()[:11])
    assert cutting.classify([LONG])[0] == pytest.approx(cutting.classify([first])[0])
    done = regard("classify", str(cutting.folder), lines=["a good film", LONG])
    assert all(done.stdout.split("\n")[:-1])
    assert "cut at the end" in done.stderr


def test_a_server_cuts_as_training_did_or_refuses(skipping: Run, cutting: Run):
    from regard.web.engine import RunEngine
    from regard.web.prometheus import ServerMetrics
    from regard.web.registry import ServedRun
    from regard.web.requests import RequestError
    from regard.web.settings import ServeConfig

    own, other = (
        ServedRun("one", run, ServeConfig(), ServerMetrics(), None, RunEngine(run)) for run in (cutting, skipping)
    )
    assert own.length(LONG) == 12
    assert own.worker.engine.classify([LONG]) == cutting.classify([LONG])
    with pytest.raises(RequestError, match="takes at most 12"):
        other.length(LONG)


def test_documents_beyond_the_positions_are_left_out_of_all_scores(tmp_path: Path):
    rows = [{"text": f"the dog number {number}"} for number in range(30)]
    (tmp_path / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    test = [*rows[:3], {"text": LONG}]
    (tmp_path / "test.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in test))
    (tmp_path / "fits.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows[:3]))
    tree = {
        "task": "language_model",
        "data": {"train": {"file": "train.jsonl", "text": "text"}, "valid": {"file": "fits.jsonl", "text": "text"},
                 "test": {"file": "test.jsonl", "text": "text"}, "batching": "bucketed"},
        "tokenizer": "char",
        "model": {"kind": "decoder", **TINY_MODEL, "position": {"kind": "learned", "length": 32}},
        "train": {"steps": 2, "tokens_per_batch": 128, "precision": "float32"},
    }  # fmt: skip
    run = train(tmp_path, tree)
    fits = SourceConfig(file=str(tmp_path / "fits.jsonl"), text="text")
    report, alone = api.evaluate(run), api.evaluate(run, fits)
    assert report.overlong["count"] == 1
    assert report.metrics == pytest.approx(alone.metrics)
    assert report.fingerprint == alone.fingerprint
    assert "bits_per_byte" not in api.evaluate(run, overlong="cut").metrics
