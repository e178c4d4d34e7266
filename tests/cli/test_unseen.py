"""Words that the training data never had are named on standard error and in JSON, by every verb and engine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from regard import api
from regard.cli import app
from regard.files.run_folder import TRAINING_WORDS_FILE
from regard.run.recipe import resolve_recipe
from regard.text.training_words import TrainingWords

TRAIN = {"steps": 2, "tokens_per_batch": 256, "precision": "float32", "compile": "off", "device": "cpu"}
TINY = {"width": 16, "depth": 1, "heads": 2}
LINES = ["The dog sleeps.", "The dog eats.", "A cat sleeps here.", "Does the cat eat?"] * 5


class Silent(api.Watcher):
    """Says nothing."""


def trained(folder: Path, tree: dict) -> Path:
    base = {"tokenizer": {"kind": "bpe", "size": 300}, "train": TRAIN}
    if tree["task"] == "translation":
        base["search"] = {"kind": "greedy", "max_length": 4}
    api.train(resolve_recipe({**base, **tree}), out=folder / "run", watcher=Silent())
    return folder / "run"


@pytest.fixture(scope="module")
def translator(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("translator")
    (folder / "pairs.tsv").write_text("".join(f"{line}\t{line.upper()}\n" for line in LINES))
    train = {"file": str(folder / "pairs.tsv"), "source": 0, "target": 1}
    data = {"train": train, "valid": train}
    return trained(folder, {"task": "translation", "data": data, "model": {"kind": "encoder-decoder", **TINY}})


def asked(*arguments: object, lines: list[str]) -> Result:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], input="\n".join(lines) + "\n")
    assert done.exit_code == 0, done.output
    return done


def told(done: Result) -> list[str]:
    return [line for line in done.stderr.splitlines() if "training data" in line]


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_unseen_words_are_named_by_their_line(translator: Path, engine: str):
    lines = ["the DOG sleeps", "", "The zebra and the lion eat 7."]
    done = asked("translate", translator, "--engine", engine, lines=lines)
    assert told(done) == ["regard: standard input:3: 'zebra', 'and', 'lion' were not in the training data"]
    assert len(done.stdout.splitlines()) == 3


def test_json_has_them(translator: Path):
    done = asked("translate", translator, "--json", lines=["The zebra sleeps.", "The cat sleeps."])
    assert [json.loads(line)["unseen"] for line in done.stdout.splitlines()] == [["zebra"], []]
    assert told(done) == ["regard: standard input:1: 'zebra' was not in the training data"]


def test_many_are_counted(translator: Path):
    done = asked("translate", translator, lines=["one two three four five six seven eight nine ten eleven twelve"] * 15)
    assert told(done)[0].endswith("'nine', 'ten' and 2 more words were not in the training data")
    assert len(told(done)) == 11
    assert told(done)[-1] == "regard: 5 more lines with 60 words that were not in the training data; --json names all"


def test_parts_name_them_too(translator: Path, tmp_path: Path):
    file = tmp_path / "in.txt"
    file.write_text("The dog sleeps.\nThe zebra sleeps.\n")
    done = asked("translate", translator, file, "--out", tmp_path / "out", "--format", "json", lines=[])
    assert told(done) == [f"regard: {file}:2: 'zebra' was not in the training data"]
    rows = [json.loads(line) for part in (tmp_path / "out").rglob("*.jsonl") for line in part.read_text().splitlines()]
    assert [row["unseen"] for row in rows] == [[], ["zebra"]]


def test_generate_and_classify(tmp_path: Path):
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in LINES))
    data = {"train": {"file": str(tmp_path / "text.txt")}, "batching": {"kind": "stream", "context": 16}}
    writer = trained(tmp_path / "lm", {"task": "language_model", "data": data, "model": {"kind": "decoder", **TINY}})
    assert told(asked("generate", writer, "--length", 3, lines=["The zebra"])) == [
        "regard: standard input:1: 'zebra' was not in the training data"
    ]
    (tmp_path / "films.tsv").write_text("".join(f"a {word} film\t{word}\n" for word in ("good", "bad") * 20))
    films = {"file": str(tmp_path / "films.tsv"), "text": 0, "label": 1}
    data = {"train": films, "valid": films}
    judge = trained(tmp_path / "films", {"task": "classification", "data": data, "model": {"kind": "encoder", **TINY}})
    done = asked("classify", judge, "--json", lines=["a great film"])
    assert json.loads(done.stdout)["unseen"] == ["great"]


def test_a_run_without_the_file_says_nothing(translator: Path, tmp_path: Path):
    kept = (translator / TRAINING_WORDS_FILE).rename(tmp_path / TRAINING_WORDS_FILE)
    try:
        done = asked("translate", translator, "--json", lines=["The zebra sleeps."])
    finally:
        kept.rename(translator / TRAINING_WORDS_FILE)
    assert told(done) == []
    assert "unseen" not in json.loads(done.stdout)


def test_a_run_that_starts_from_another_knows_its_words(translator: Path, tmp_path: Path):
    (tmp_path / "more.tsv").write_text("The zebra runs.\tDAS ZEBRA\n" * 20)
    more = {"file": str(tmp_path / "more.tsv"), "source": 0, "target": 1}
    recipe = resolve_recipe(
        {
            "task": "translation",
            "data": {"train": more, "valid": more},
            "model": {"from": str(translator)},
            "train": TRAIN,
        }
    )
    api.train(recipe, out=tmp_path / "run", watcher=Silent())
    words = TrainingWords.load(tmp_path / "run")
    assert words is not None
    assert words.unseen("The zebra and the dog") == ["and"]


def test_the_engine_without_torch_names_them_without_torch(translator: Path):
    asked("translate", translator, "--engine", "ctranslate2", lines=["The dog"])  # converted once
    program = (
        "import sys\nfrom regard.cli import app\n"
        f"app(['translate', {str(translator)!r}, '--engine', 'ctranslate2'], standalone_mode=False)\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], input="The zebra\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "'zebra' was not in the training data" in done.stderr


def test_the_demo_lists_its_words():
    done = CliRunner().invoke(app, ["demo", "--words"])
    assert done.exit_code == 0
    assert "dog, donkey" in done.stdout
    assert "fall asleep" in done.stdout
    assert all(len(line) <= 100 for line in done.stdout.splitlines())
