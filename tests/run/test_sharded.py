"""A file translated in parts: the same text however many processes there are and however often they die."""

import json
import os
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import translation
from typer.testing import CliRunner

from regard import api
from regard.cli import app
from regard.decode import GreedyConfig
from regard.errors import DataError, Failure, RunError
from regard.run import parts as parts_module
from regard.run.parts import Parts
from regard.run.recipe import resolve_recipe
from regard.run.sharded import score_in_parts, translate_file
from regard.train.monitor import Watcher

SENTENCES = [
    "The dog sleeps.",
    "",
    "Anna threw away the old chair.",
    "Peter needs twenty-one eggs.",
    "The cat sees it.",
]


class Quiet(Watcher):
    def step(self, line, progress): ...

    def measured(self, line): ...

    def say(self, sentence): ...


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    tree = translation(steps=4)
    tree["search"] = {"kind": "greedy", "max_length": 6}
    return api.train(resolve_recipe(tree), out=tmp_path_factory.mktemp("runs") / "run", watcher=Quiet())


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inputs") / "big.txt"
    path.write_text("".join(f"{SENTENCES[n % 5]}\n" for n in range(23)))
    return path


def joined(folder: Path, suffix: str = ".txt") -> str:
    return "".join(part.read_text() for part in sorted(folder.glob(f"part-*{suffix}")))


def command(run: api.Run, file: Path, out: Path, *more: str) -> list[str]:
    words = ["translate", str(run.folder), str(file), "--out", str(out), "--lines-per-part", "5", *more]
    return [sys.executable, "-m", "regard", *words]


def test_parts_joined_are_what_is_written_at_once(run: api.Run, file: Path, tmp_path: Path):
    whole = "".join(f"{text}\n" for text in api.translate(run, file.read_text().split("\n")[:-1]))
    assert translate_file(run, file, tmp_path / "parts", lines_per_part=5) == (5, 5)
    assert joined(tmp_path / "parts") == whole
    assert translate_file(run, file, tmp_path / "parts", lines_per_part=5) == (0, 5)
    assert not list((tmp_path / "parts").glob(".part*"))


def test_a_part_that_is_there_is_kept_and_one_that_is_not_is_made(run: api.Run, file: Path, tmp_path: Path):
    translate_file(run, file, tmp_path, lines_per_part=5)
    (tmp_path / "part-000002.txt").write_text("kept\n")
    (tmp_path / "part-000003.txt").unlink()
    (tmp_path / ".part-000003.txt.new").write_text("half of a")
    before = (tmp_path / "part-000001.txt").stat().st_mtime_ns
    assert translate_file(run, file, tmp_path, lines_per_part=5) == (1, 5)
    assert (tmp_path / "part-000002.txt").read_text() == "kept\n"
    assert (tmp_path / "part-000001.txt").stat().st_mtime_ns == before
    assert len((tmp_path / "part-000003.txt").read_text().split("\n")) == 6


def test_json_and_parquet_hold_the_same(run: api.Run, file: Path, tmp_path: Path):
    translate_file(run, file, tmp_path / "json", to="json", lines_per_part=20)
    translate_file(run, file, tmp_path / "parquet", to="parquet", lines_per_part=20)
    rows = [json.loads(line) for line in joined(tmp_path / "json", ".jsonl").split("\n")[:-1]]
    table = pq.read_table(sorted((tmp_path / "parquet").glob("*.parquet"))).to_pylist()
    assert [row["line"] for row in table] == list(range(1, 24))
    assert [(row["source"], row["text"], row["score"]) for row in table] == [
        (row["source"], row["outputs"][0]["text"], row["outputs"][0]["score"]) for row in rows
    ]


def test_a_changed_input_or_setting_is_refused(run: api.Run, file: Path, tmp_path: Path):
    folder, other = tmp_path / "parts", tmp_path / "other.txt"
    translate_file(run, file, folder, lines_per_part=5)
    other.write_text(file.read_text().replace("dog", "cow"))
    with pytest.raises(RunError, match="was begun with another input"):
        translate_file(run, other, folder, lines_per_part=5)
    with pytest.raises(RunError, match="was begun with another search"):
        translate_file(run, file, folder, GreedyConfig(max_length=3), lines_per_part=5)
    with pytest.raises(RunError, match="was begun with another lines per part: 5 there, 6 now"):
        translate_file(run, file, folder, lines_per_part=6)
    with pytest.raises(RunError, match="was begun with another models"):
        translate_file(api.load(run.folder, which="last"), file, folder, others=[run], lines_per_part=5)
    with pytest.raises(RunError, match=r"holds 'other\.txt' and no manifest\.json"):
        translate_file(run, file, tmp_path, lines_per_part=5)
    (folder / "manifest.json").write_text("[]")
    with pytest.raises(RunError, match="does not say what is made here"):
        translate_file(run, file, folder, lines_per_part=5)


def test_a_line_that_cannot_be_read_or_translated_is_named(run: api.Run, tmp_path: Path):
    (tmp_path / "bytes.txt").write_bytes(b"The dog sleeps.\n" * 7 + b"\xff\n")
    with pytest.raises(DataError, match=r"bytes.txt:8: not UTF-8"):
        translate_file(run, tmp_path / "bytes.txt", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "long.txt").write_text("The dog sleeps.\n" * 7 + "word " * 500 + "\n")
    with pytest.raises(DataError, match=r"long.txt:8: a sentence of"):
        translate_file(run, tmp_path / "long.txt", tmp_path / "long", lines_per_part=5, overlong="error")


def test_scores_in_parts_are_the_scores(run: api.Run, tmp_path: Path):
    source = run.recipe.data.split("test")
    found = score_in_parts(run, source, tmp_path, lines_per_part=7)
    assert found.metrics == api.evaluate(run, "test").metrics
    assert len(list(tmp_path.glob("part-*.jsonl"))) == 5


def test_the_command_line_writes_parts(run: api.Run, file: Path, tmp_path: Path):
    words = ["translate", str(run.folder), str(file), "--out", str(tmp_path / "parts"), "--engine", "torch"]
    done = CliRunner().invoke(app, [*words, "--format", "parquet", "--beam", "1"])
    assert done.exit_code == 0, done.output
    assert pq.read_table(tmp_path / "parts" / "part-000000.parquet").num_rows == 23
    for more, problem in {"--json": "another output", "--format=csv": "--format: expected one of text, json"}.items():
        refused = CliRunner().invoke(app, [*words, more, "--beam", "1"])
        assert problem in str(refused.exception)
    scored = CliRunner().invoke(app, ["evaluate", str(run.folder), "--json", "--out", str(tmp_path / "scored")])
    assert json.loads(scored.stdout)["metrics"] == api.evaluate(run, "test").metrics


def test_many_under_torchrun_without_a_folder_are_refused(run: api.Run, file: Path):
    words = [sys.executable, "-m", "regard", "translate", str(run.folder), str(file)]
    environment = {**os.environ, "WORLD_SIZE": "2", "RANK": "0"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert "--out: torchrun has started 2 processes" in done.stderr


@given(st.integers(1, 40), st.integers(1, 5), st.sets(st.integers(0, 39)))
def test_what_is_missing_is_made_once(lines: int, per_part: int, there: set[int]):
    """Any set of parts may be there already."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        work = Parts.open(Path(name), {}, lines, per_part, ".txt")
        for number in there & set(range(len(work))):
            work.file(number).write_text("there")
        made = []
        work.work(lambda: map(str, range(lines)), lambda first, texts: bytes(made.append((first, texts)) or 0))
        assert [first for first, _ in made] == [number * per_part for number in range(len(work)) if number not in there]
        assert all(texts == [str(first + n) for n in range(len(texts))] for first, texts in made)
        assert work.missing() == []


def test_a_part_in_other_hands_is_waited_for(tmp_path: Path, monkeypatch):
    work = Parts.open(tmp_path, {}, 4, 2, ".txt")
    monkeypatch.setattr(parts_module, "PAUSE", 0)
    pauses = []

    def finished_by_others(_seconds: float) -> None:
        pauses.append(1)
        work.file(0).write_text("theirs")

    monkeypatch.setattr(parts_module.time, "sleep", finished_by_others)
    with parts_module._locked(tmp_path / ".part-000000.txt.lock"):
        assert work.work(lambda: "abcd", lambda first, texts: "".join(texts).encode()) == 1
    assert pauses
    assert [work.file(0).read_text(), work.file(1).read_text()] == ["theirs", "cd"]


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Failure, match="could not be written"):
        Parts.open(tmp_path / "file" / "parts", {}, 4, 2, ".txt")


@pytest.mark.slow
def test_two_processes_killed_twice_write_what_one_undisturbed_writes(run: api.Run, file: Path, tmp_path: Path):
    big = tmp_path / "big.txt"
    big.write_text(file.read_text() * 20)
    subprocess.run(command(run, big, tmp_path / "whole"), check=True, capture_output=True)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    words = [*launch, *command(run, big, tmp_path / "killed")[1:]]
    chance, dates = random.Random(3), {}
    for kills in range(3):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        if kills < 2:
            wait_for_more(tmp_path / "killed", process)
            time.sleep(chance.random() * 0.3)
            kill_all(process)
        process.wait()
        for part in (tmp_path / "killed").glob("part-*"):
            assert dates.setdefault(part.name, part.stat().st_mtime_ns) == part.stat().st_mtime_ns
    assert process.returncode == 0
    assert joined(tmp_path / "killed") == joined(tmp_path / "whole")


def kill_all(process: subprocess.Popen) -> None:
    """torchrun gives each process a session of its own, so they are killed one by one."""
    ranks = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in (process.pid, *map(int, ranks)):
        os.kill(pid, 9)


def wait_for_more(folder: Path, process: subprocess.Popen) -> None:
    before = len(list(folder.glob("part-*")))
    while process.poll() is None and len(list(folder.glob("part-*"))) <= before:
        time.sleep(0.02)


def test_ctranslate2_writes_the_same_files_without_torch(run: api.Run, file: Path, tmp_path: Path):
    pytest.importorskip("ctranslate2")
    program = "import sys; from regard.cli import app; sys.exit(app(standalone_mode=False) or 'torch' in sys.modules)"
    for name in ("text", "json"):
        words = command(run, file, tmp_path / name, "--engine", "ctranslate2", "--device", "cpu", "--format", name)[3:]
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert "5 parts in" in done.stderr
    translate_file(run, file, tmp_path / "torch", lines_per_part=5)
    assert joined(tmp_path / "text") == joined(tmp_path / "torch")
    rows = [json.loads(line) for line in joined(tmp_path / "json", ".jsonl").split("\n")[:-1]]
    assert [row["source"] for row in rows] == file.read_text().split("\n")[:-1]
    assert all(len(row["outputs"][0]["token_logprobs"]) > 0 for row in rows if row["source"])
    with pytest.raises(RunError, match="was begun with another device"):
        translate_file(run, file, tmp_path / "text", lines_per_part=5)


def test_a_dictionary_that_changes_is_another_work_wherever_one_stands(
    run: api.Run, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "words.tsv").write_text("dog\tHund\n")
    task = run.recipe.task.but(unknown="replace", dictionary="words.tsv")
    recipe = run.recipe.but(task=task, data=run.recipe.data.but(folder=str(tmp_path)))
    words = replace(run, recipe=recipe)
    monkeypatch.chdir(tmp_path.parent)
    translate_file(words, file, tmp_path / "parts", lines_per_part=10)
    translate_file(words, file, tmp_path / "parts", lines_per_part=10)
    (tmp_path / "words.tsv").write_text("dog\tKöter\n")
    with pytest.raises(RunError, match="was begun with another dictionary"):
        translate_file(words, file, tmp_path / "parts", lines_per_part=10)
