"""Mistakes at the command line: one sentence, exit code 2, nothing touched; and the pipes of a shell."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from regard import api
from regard.cli import app, main
from regard.cli.arguments import parse_data, parse_search
from regard.decode import BeamConfig
from regard.errors import RegardError, nearest, shortened
from regard.train.parallel.processes import parse_device


def refused(*arguments: str) -> str:
    """What a user is told about a mistake."""
    done = CliRunner().invoke(app, arguments)
    if isinstance(done.exception, RegardError):
        assert done.exception.exit_code == 2
        return str(done.exception)
    assert done.exit_code == 2, done.output
    return done.output


def test_the_demo_replaces_runs_and_nothing_else(tmp_path: Path):
    (tmp_path / "precious").write_text("kept")
    assert "not a run folder" in refused("demo", "--out", str(tmp_path))
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_bad_setting_of_the_demo_costs_no_run(tmp_path: Path):
    (tmp_path / "recipe.toml").write_text("")
    assert "model.widht" in refused("demo", "model.widht=3", "--out", str(tmp_path))
    assert (tmp_path / "recipe.toml").exists()


@pytest.mark.parametrize("name", ["tpu", "cuda:999", "cuda:x", ""])
def test_devices_that_are_not_there(name: str):
    with pytest.raises(RegardError, match="--device: "):
        parse_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_run_does_not_train_on_a_device_that_is_not_there(tmp_path: Path):
    file = tmp_path / "recipe.toml"
    file.write_text('task = "translation"\n[data]\ntrain = { street = "train" }\n')
    assert refused("train", str(file), "train.device=cuda", "--out", str(tmp_path / "run")).startswith("train.device: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["translate", "RUN", "--beam", "-3"],
        ["translate", "RUN", "--beam", "0"],
        ["translate", "RUN", "--nbest", "0"],
        ["generate", "RUN", "--temperature", "-1"],
        ["generate", "RUN", "--top-k", "-2"],
        ["generate", "RUN", "--length", "0"],
    ],
)
def test_numbers_out_of_range_are_refused_whatever_the_engine(arguments: list[str]):
    assert arguments[2] in refused(*arguments)


def test_what_is_no_number_is_said_in_plain_words():
    assert refused("config", "train.steps=abc") == "train.steps: expected a whole number, got 'abc'"


@pytest.mark.parametrize("text", ["3", "[1]", "true"])
def test_a_search_that_is_no_search(text: str):
    with pytest.raises(RegardError, match="--search: expected a kind or a table, got "):
        parse_search(BeamConfig(), text)


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "a\u2028b", "a\rb"])
def test_a_mistake_is_one_line_whatever_it_names(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["regard", "translate", name])
    with pytest.raises(SystemExit) as left:
        main()
    sentence = capsys.readouterr().err
    assert left.value.code == 2
    assert sentence.startswith("regard: a\\")
    assert sentence.removesuffix("\n").isprintable()


@pytest.mark.parametrize("verb", [["train"], ["evaluate"], ["translate"], ["data", "check"]])
def test_a_name_that_is_too_long_is_a_mistake(
    verb: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["regard", *verb, "x" * 300])
    with pytest.raises(SystemExit) as left:
        main()
    told = capsys.readouterr()
    assert left.value.code == 2
    assert "name too long" in (told.err + told.out).lower()


def test_every_verb_says_in_the_list_what_it_does():
    listed = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output.partition("Commands:")[2]
    assert "..." not in listed


def test_a_stream_is_not_json():
    assert "--stream: " in refused("generate", "RUN", "--stream", "--json")


def test_a_folder_is_no_data_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert refused("data", "check", ".") == ".: expected a file, got a folder"


def test_a_recipe_is_checked_with_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("elsewhere").mkdir()
    for side in ("en", "de"):
        (tmp_path / "elsewhere" / f"a.{side}").write_text("one\ntwo\n")
    Path("recipe.toml").write_text('task = "translation"\n[data]\ntrain = { source = "a.en", target = "a.de" }\n')
    done = CliRunner().invoke(app, ["data", "check", "recipe.toml", "data.folder=elsewhere"])
    assert done.exit_code == 0, done.output
    assert "train: 1 pair\n" in done.output  # as many as training would read
    assert "valid: 1 pair\n" in done.output


def test_a_file_is_no_run(tmp_path: Path):
    file = tmp_path / "text.txt"
    file.write_text("a text\n")
    assert refused("evaluate", str(file)) == f"{file}: expected a run folder, got a file"


@pytest.mark.parametrize("run", [".", "..", "../.."])
def test_an_export_of_a_folder_without_a_name_is_no_traceback(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert "not a run folder" in refused("export", run, "--to", "onnx")
    assert refused("export", run, "--to", "../..").startswith("--to: expected one of huggingface")


def test_bench_knows_its_programs():
    assert "did you mean 'regard'?" in refused("bench", "--only", "regrad")
    assert "no such environment" in refused("bench", "--peers", "nowhere")
    assert "no such environment" in refused("bench", "--peers", "/")  # a folder, but none with a Python in it


def test_data_of_the_command_line_lies_where_the_command_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    pair, table = parse_data("a.en,a.de"), parse_data('{file="x.tsv",text=0,label=1}')
    assert not isinstance(pair, str)
    assert not isinstance(table, str)
    assert (pair.source, pair.target) == (str(tmp_path / "a.en"), str(tmp_path / "a.de"))
    assert (table.file, table.text) == (str(tmp_path / "x.tsv"), 0)


def test_a_reader_that_leaves_is_no_failure():
    command = [sys.executable, "-c", "import sys; sys.argv = ['regard', 'config']; from regard.cli import main; main()"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        told = process.stderr.read()
    assert (process.returncode, told) == (0, b"")


def test_names_are_listed_as_they_are_counted():
    assert nearest("x", ["f10", "f2", "f1"]) == "known: f1, f2, f10"


def test_a_search_is_refused_where_nothing_is_written(tmp_path: Path):
    (tmp_path / "a.tsv").write_text("good\tyes\nbad\tno\n" * 4)
    settings = ["data.train={file='a.tsv',text=0,label=1}", "data.valid={file='a.tsv',text=0,label=1}"]
    file = tmp_path / "recipe.toml"
    file.write_text('task = "classification"\n')
    small = ["tokenizer=word", "model.kind=encoder", "model.width=8", "model.depth=1", "model.heads=2"]
    run = api.train(file, f"data.folder={tmp_path}", *settings, *small, "train.steps=1",
                    out=tmp_path / "run")  # fmt: skip
    told = refused("evaluate", str(run.folder), "--search", "greedy")
    assert told == "--search: a run of task classification is tested without generation; leave it out"


def test_the_root_of_the_file_system_is_no_run():
    assert "recipe.toml" in refused("export", "/", "--to", "onnx")


def test_a_sweep_is_no_recipe():
    for verb in (["train"], ["config", "--check"]):
        assert "is a sweep of several recipes; train it with: regard compare" in refused(*verb, "lectures")


def test_a_recipe_that_training_would_refuse_is_refused_by_its_check(tmp_path: Path):
    (tmp_path / "text.txt").write_text("a dog\na cat\n")
    file = tmp_path / "recipe.toml"
    file.write_text(
        'defaults = "fixed"\ntask = "language_model"\n[data]\ntrain = { file = "text.txt" }\n'
        '[tokenizer]\nkind = "byte"\nsample = 0.5\n'
    )
    assert refused("config", "--check", str(file)).startswith("tokenizer.sample: has no effect on bytes")


def test_a_sentence_about_long_or_many_names_stays_short():
    sentence = nearest("x", ["very " * 300, *(f"name-{number}" for number in range(5_000))])
    assert len(sentence) < 800
    assert sentence.endswith("and 4,961 more")


def test_a_long_sentence_keeps_its_start_and_its_end():
    text = "file.txt:3: " + "bad " * 1000 + "; mend it"
    assert len(shortened(text)) < 800
    assert shortened(text).startswith("file.txt:3: bad")
    assert shortened(text).endswith("; mend it")
    assert shortened("short") == "short"
