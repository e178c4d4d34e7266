"""What a model is given on the command line: one policy for files and standard input, and true lines in messages."""

import gzip
import io
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from regard import api
from regard.cli import app
from regard.data.lines import input_lines
from regard.errors import DataError, InputError, located
from regard.run.recipe import resolve_recipe

TRAIN = {"steps": 2, "tokens_per_batch": 256, "precision": "float32", "compile": "off", "device": "cpu"}
TINY = {"width": 16, "depth": 1, "heads": 2}


class Silent(api.Watcher):
    """Says nothing."""


@pytest.fixture(scope="module")
def translator(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("translator")
    tree = {
        "task": "translation",
        "data": {"train": {"street": "train", "limit": 60}, "max_length": 80},
        "tokenizer": {"kind": "char"},
        "model": {"kind": "encoder-decoder", **TINY},
        "search": {"kind": "greedy", "max_length": 4},
        "train": TRAIN,
    }
    api.train(resolve_recipe(tree), out=folder / "run", watcher=Silent())
    return folder / "run"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("classifier")
    rows = [f"a {word} film {i}\t{label}" for i in range(20) for word, label in [("good", "pos"), ("bad", "neg")]]
    (folder / "films.tsv").write_text("\n".join(rows) + "\n")
    tree = {
        "task": "classification",
        "data": {
            "train": {"file": str(folder / "films.tsv"), "text": 0, "label": 1, "header": False},
            "max_length": 16,
        },
        "tokenizer": "word",
        "model": {"kind": "encoder", **TINY},
        "train": TRAIN,
    }
    api.train(resolve_recipe(tree), out=folder / "run", watcher=Silent())
    return folder / "run"


def refusal(*arguments: object, stdin: bytes | None = None) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    assert isinstance(done.exception, DataError), done.output
    return str(done.exception)


LONG = "word " * 60
"""More tokens than either run takes."""


@pytest.mark.parametrize("line", [1, 256, 257, 300, 513])
@pytest.mark.parametrize("packed", [False, True])
def test_an_over_long_line_of_a_file_is_named_by_its_own_number(classifier, tmp_path, line, packed):
    text = "\n".join(["a good film"] * (line - 1) + [LONG, "a bad film"]).encode()
    file = tmp_path / ("many.txt.gz" if packed else "many.txt")
    file.write_bytes(gzip.compress(text) if packed else text)
    said = refusal("classify", classifier, file, "--overlong", "error")
    assert said.startswith(f"{file}:{line}: 61 tokens, the model takes at most 16")


def test_an_over_long_line_of_standard_input_is_named_by_its_own_number(classifier, translator):
    text = ("\n".join(["a good film"] * 299) + "\n").encode()
    said = refusal("classify", classifier, "--overlong", "error", stdin=text + LONG.encode())
    assert said.startswith("standard input:300: 61 tokens, the model takes at most 16")
    engine = ("--engine", "torch", "--overlong", "error")
    said = refusal("translate", translator, *engine, stdin=b"\n" * 299 + LONG.encode())
    assert said.startswith("standard input:300: a sentence of")


def test_an_over_long_example_in_an_evaluation_is_named_by_its_file_and_line(classifier, translator, tmp_path):
    rows = ["a good film\tpos"] * 299 + [f"{LONG}\tneg"]
    (tmp_path / "test.tsv").write_text("\n".join(rows))
    data = f'{{file="{tmp_path}/test.tsv",text=0,label=1,header=false}}'
    said = refusal("evaluate", classifier, "--data", data, "--overlong", "error")
    assert said.startswith(f"{tmp_path}/test.tsv:300: text of 61 tokens")


def test_located_errors_name_the_file_of_each_input():
    with pytest.raises(DataError, match=r"^b\.txt:9: too long$"), located([("a.txt", 5), ("b.txt", 9)]):
        raise InputError(2, "too long")


CONTENTS = {
    "mark": (b"\xef\xbb\xbfone\ntwo\n", ["one", "two"]),
    "only a mark": (b"\xef\xbb\xbf", [""]),
    "windows": (b"one\r\ntwo\r\n", ["one", "two"]),
    "no end": (b"one\ntwo", ["one", "two"]),
    "separators": (
        "one\u2028two\x85three\x0cfour\x0b\x1c\nfive".encode(),
        ["one\u2028two\x85three\x0cfour\x0b\x1c", "five"],
    ),
    "mark inside": ("one\n\ufefftwo".encode(), ["one", "\ufefftwo"]),
    "blank": (b"\n\n", ["", ""]),
    "nothing": (b"", []),
    "carriage return": (b"one\rtwo\n", ["one\rtwo"]),
}
REFUSED = {
    "latin1": (b"one\ncaf\xe9\n", "2: not UTF-8 .*latin1"),
    "utf16 little": ("one\ntwo\n".encode("utf-16"), "1: not UTF-8 .*utf-16"),
    "utf16 big": (b"\xfe\xff" + "one\n".encode("utf-16-be"), "1: not UTF-8 .*utf-16"),
    "utf16 without a mark": ("one\ntwo\n".encode("utf-16-le"), "1: holds a NUL character"),
    "nul": (b"one\ntw\0o\n", "2: holds a NUL character"),
}


def given_to_standard_input(content: bytes, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))


@pytest.mark.parametrize(("content", "texts"), CONTENTS.values(), ids=CONTENTS)
def test_files_and_standard_input_are_read_alike(tmp_path, monkeypatch, content, texts):
    (tmp_path / "in.txt").write_bytes(content)
    given_to_standard_input(content, monkeypatch)
    assert [line.text for line in input_lines(tmp_path / "in.txt")] == texts
    assert [line.text for line in input_lines(None)] == texts


@pytest.mark.parametrize(("content", "said"), REFUSED.values(), ids=REFUSED)
def test_files_and_standard_input_are_refused_alike(tmp_path, monkeypatch, content, said):
    (tmp_path / "in.txt").write_bytes(content)
    given_to_standard_input(content, monkeypatch)
    with pytest.raises(DataError, match=f"in.txt:{said}"):
        list(input_lines(tmp_path / "in.txt"))
    with pytest.raises(DataError, match=f"standard input:{said}"):
        list(input_lines(None))


def test_a_byte_order_mark_changes_no_label(classifier):
    plain, marked = (
        CliRunner().invoke(app, ["classify", str(classifier), "--json"], input=mark + b"a good film\n").stdout
        for mark in (b"", b"\xef\xbb\xbf")
    )
    assert plain == marked
    assert "\ufeff" not in marked


def test_a_pipe_can_be_translated_and_not_trained_on(classifier, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=pipe.write_text, args=("a good film\n",)).start()
    done = CliRunner().invoke(app, ["classify", str(classifier), str(pipe)])
    assert done.stdout in ("pos\n", "neg\n")
    done = CliRunner().invoke(app, ["data", "check", str(pipe)])
    assert "expected a file, got a pipe, which cannot be read twice" in done.stdout
    assert done.exit_code == 2


@pytest.mark.parametrize(("make", "said"), [
    (lambda path: path.mkdir(), "expected a file, got a folder"),
    (lambda path: path.symlink_to("nowhere"), "no such file"),
    (lambda path: path.write_bytes(b"no gzip"), "not a .gz file"),
    (lambda path: path.write_bytes(gzip.compress(b"one\n" * 9999)[:-9]), "cut off"),
])  # fmt: skip
def test_what_cannot_be_read_is_said_in_one_sentence(classifier, tmp_path, make, said):
    file = tmp_path / "in.gz"
    make(file)
    assert said in refusal("classify", classifier, file)


def test_an_empty_packed_file_gives_nothing(classifier, tmp_path):
    (tmp_path / "in.gz").write_bytes(gzip.compress(b""))
    done = CliRunner().invoke(app, ["classify", str(classifier), str(tmp_path / "in.gz")])
    assert (done.exit_code, done.stdout) == (0, "")


def test_standard_input_that_is_closed_is_one_sentence(classifier, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="standard input: is closed; name a file"):
        list(input_lines(None))
