"""The benchmark's bookkeeping: one formula, processes in turns, and a row for whatever goes wrong."""

import json
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from performance import plot, ratios

from regard.bench import rounds, workloads
from regard.bench.bench import chosen, measure_work, measured, spread, tables
from regard.bench.rounds import Runner, death, measure
from regard.bench.workloads import (
    PROGRAMS,
    SCRIPTS,
    WORKLOADS,
    Program,
    Workload,
    flops,
    interpreter_for,
    lengths,
    sizes,
    tokens,
)
from regard.errors import ConfigError

TEXT = Workload("text", "train-text", "a text", 8, 2, 2, 50, rows=3, shortest=6, longest=6)
PAIR = Workload("pair", "train-pair", "pairs", 8, 2, 2, 50, rows=3, shortest=6, longest=6)


@given(st.integers(1, 70), st.integers(1, 40), st.integers(0, 40))
def test_lengths_are_spread_between_their_ends(rows: int, shortest: int, more: int):
    work = Workload("x", "train-pair", "x", 8, 1, 1, 50, rows=rows, shortest=shortest, longest=shortest + more)
    found = lengths(work)
    assert len(found) == rows
    assert max(found) == shortest + more
    assert min(found) >= shortest
    assert tokens(work) == sum(found)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("work", [TEXT, PAIR], ids=lambda work: work.kind)
def test_flops_are_those_that_torch_counts(work: Workload, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import of_torch  # type: ignore[import-not-found]
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    tree, tokens_in = work.tree(), torch.zeros(3, 6, dtype=torch.long)
    nothing = torch.zeros(3, 6, dtype=torch.bool)
    model = of_torch.Plain(tree) if work is TEXT else of_torch.Pairs(tree)
    given_to = (tokens_in,) if work is TEXT else (tokens_in, nothing, tokens_in, nothing)
    with FlopCounterMode(display=False) as counter:
        model.train()(*given_to)
    counts = counter.get_flop_counts()["Global"]
    products = sum(count for name, count in counts.items() if str(name) in ("aten.mm", "aten.addmm"))
    # attention by hand: q·k and p·v are 2·n·n·width each, a causal square is counted by half
    squares = 0.5 if work is TEXT else 1 + 0.5 + 1
    attention = work.rows * work.depth * squares * 4 * 6 * 6 * work.width
    assert flops(work) == 3 * (products + attention)


def test_every_work_has_a_program_and_a_miniature():
    for work in (*WORKLOADS, *sizes("cpu"), *sizes("cuda")):
        assert any(program.does(work) and program.ours for program in PROGRAMS)
        assert any(program.does(work) and not program.ours for program in PROGRAMS)
        assert flops(work.tiny()) < flops(work)
        assert work.width % work.heads == 0
    assert len({work.name for work in WORKLOADS}) == len(WORKLOADS)
    assert all(program.file is not None for program in PROGRAMS)


def test_works_are_chosen_by_name():
    assert [work.name for work in chosen(["translate-1", "length-64"], "cpu")] == ["translate-1", "length-64"]
    assert {work.device for work in chosen([], "cpu")} == {"cpu"}
    assert len(chosen(["sizes"], "cuda")) == len(sizes("cuda"))
    with pytest.raises(ConfigError, match="unknown work 'translate-2' for cpu; did you mean 'translate-"):
        chosen(["translate-2"], "cpu")
    with pytest.raises(ConfigError, match="--device: expected cpu or cuda, got 'tpu'"):
        measured(device="tpu")


FAKE = """
import os, signal, time
import protocol

def make(request):
    def step():
        time.sleep({seconds})
        {ending}
    return step

protocol.serve(make, lambda: "fake 1.0")
"""


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Programs that only wait, fail, or die."""
    shutil.copy(SCRIPTS / "protocol.py", tmp_path)
    monkeypatch.setattr(workloads, "SCRIPTS", tmp_path)

    def write(name: str, seconds: float, ending: str = "pass") -> Runner:
        (tmp_path / f"{name}.py").write_text(FAKE.format(seconds=seconds, ending=ending))
        return Runner(Program(name, name, "sys", ("train-text",)), "float32", 1, sys.executable)

    return write


def test_programs_are_measured_in_turns_and_failures_are_rows(fakes: Any):
    runners = [
        fakes("regard", 0.01),
        fakes("slow", 0.05),
        fakes("broken", 0.0, "raise ValueError('no such layer')"),
        fakes("refused", 0.0, f"os.kill(os.getpid(), {int(signal.SIGILL)})"),
    ]
    rows = measure(TEXT, runners, 3, {"float32": 1e9, "bandwidth": 1e9})
    ours, slow, broken, refused = rows
    assert ours["seconds"]["median"] >= 0.01
    assert slow["seconds"]["median"] >= 0.05
    assert ours["tokens_per_second"] == pytest.approx(18 / ours["seconds"]["median"])
    assert ours["of_ceiling"] == pytest.approx(flops(TEXT) / ours["seconds"]["median"] / 1e9)
    assert (ours["rounds"], ours["version"]) == (3, "fake 1.0")
    assert broken["error"] == "ValueError: no such layer"
    assert refused["error"].startswith("refused by this machine")
    found = {
        "machine": {"name": "a box", "cores": 2},
        "ceilings": {"float32": 1e9, "bfloat16": "refused", "bandwidth": 5e9},
        "quick": True,
        "load": 0.5,
        "works": [TEXT.tree()],
        "rows": rows,
    }
    text = tables(found)
    assert text.index("**regard**") < text.index("| slow |") < text.index("no such layer")
    assert "bfloat16 matmul refused" in text
    assert ratios(found) == {"text": pytest.approx(ours["tokens_per_second"] / slow["tokens_per_second"])}


@pytest.mark.parametrize(("device", "together"), [("cpu", 1), ("cuda", 3)])
def test_programs_warm_up_side_by_side_on_a_gpu_and_in_turn_on_a_processor(
    device: str, together: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    inside, most, gate = 0, 0, threading.Barrier(together)

    def begin(*_: object) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        gate.wait(timeout=20)  # of three at once, none goes on before all have begun
        inside -= 1

    monkeypatch.setattr(Runner, "begin", begin)
    monkeypatch.setattr(Runner, "turn", lambda *_, **__: None)
    programs = [Runner(PROGRAMS[0], "float32", 1, sys.executable) for _ in range(3)]
    rounds.warm_up(replace(TEXT, device=device), programs, tmp_path)
    assert most == together


def test_whoever_found_the_memory_full_beside_the_others_is_tried_again_alone(fakes: Any, tmp_path: Path):
    crowded = f"path = {str(tmp_path / 'seen')!r}; os.path.exists(path) or (open(path, 'w'), full())"
    one = fakes("crowded", 0.0, crowded)
    script = tmp_path / "crowded.py"
    error = "class OutOfMemoryError(RuntimeError): pass\ndef full(): raise OutOfMemoryError('no room')\n"
    script.write_text(error + script.read_text())
    other = fakes("broken", 0.0, "raise ValueError('no such layer')")
    rows = measure(TEXT, [one, other], 1, {"float32": 1e9})
    assert rows[0]["rounds"] == 1
    assert rows[1]["error"] == "ValueError: no such layer"


def test_what_is_measured_is_kept_after_each_work(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regard.bench.bench.ceilings", lambda *_: {"float32": 1.0})
    monkeypatch.setattr("regard.bench.bench.measure_work", lambda work, *_: [{"work": work.name}])
    kept: list[Any] = []
    tree = measured(["translate-1", "base-32"], keep=lambda tree: kept.append(json.loads(json.dumps(tree))))
    assert [[row["work"] for row in one["rows"]] for one in kept] == [["translate-1"], ["translate-1", "base-32"]]
    assert [len(one["works"]) for one in kept] == [1, 2]
    assert kept[-1] == json.loads(json.dumps(tree))


def test_a_refused_format_is_not_even_tried():
    work = Workload(
        "text", "train-text", "a text", 8, 1, 1, 50, rows=1, shortest=3, longest=3, precisions=("bfloat16",)
    )
    rows = measure_work(work, 1, 1, None, ["plain torch"], {"float32": 1.0, "bfloat16": "refused by this machine"})
    assert rows == [
        {"work": "text", "peer": "plain torch", "precision": "bfloat16", "error": "refused by this machine"}
    ]


def test_what_is_not_installed_is_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    absent = Program("absent", "of_absent", "no_such_module_anywhere", ("train-text",))
    assert interpreter_for(absent, tmp_path) is None
    monkeypatch.setattr("regard.bench.bench.PROGRAMS", (absent,))
    rows = measure_work(TEXT, 1, 1, None, [], {"float32": 1.0})
    assert rows == [{"work": "text", "peer": "absent", "error": "no_such_module_anywhere is not installed"}]
    assert workloads.SCRIPTS == SCRIPTS


def test_without_a_checkout_regard_and_torch_are_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(workloads, "PEER_SCRIPTS", tmp_path)
    present = [program.name for program in PROGRAMS if program.file is not None]
    assert present == ["regard", "regard packed", "regard + CTranslate2", "torch.nn", "plain torch"]
    monkeypatch.setattr("regard.bench.bench.ceilings", lambda *_: {"float32": 1.0})
    monkeypatch.setattr("regard.bench.bench.measure_work", lambda work, *_: [{"work": work.name}])
    sentences: list[str] = []
    measured(["translate-1"], say=sentences.append)
    assert sentences[0].startswith("measures regard and torch only: scripts of Hugging Face, x-transformers, JoeyNMT")
    assert measure_work(TEXT, 1, 1, None, ["Hugging Face"], {"float32": 1.0}) == []


def test_deaths_are_explained():
    assert death(-9) == "its process was killed by signal 9"
    assert death(3) == "its process ended with code 3"


def test_spread_and_picture(tmp_path: Path):
    row = {"work": "text", "peer": "regard", "precision": "float32", "threads": 1, "tokens_per_second": 9.0,
           "seconds": {"median": 2.0, "least": 1.0, "most": 3.0}}  # fmt: skip
    assert spread(row) == 0.5
    plot({"works": [TEXT.tree(), PAIR.tree()], "rows": [row]}, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def bench(folder: Path, *words: str) -> tuple[dict[str, Any], str]:
    out = folder / "bench.json"
    command = [sys.executable, "-m", "regard", "bench", *words, "--quick", "--rounds", "1", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()), done.stdout


def test_the_verb_trains_in_miniature(tmp_path: Path):
    found, text = bench(tmp_path, "train-text", "--only", "regard")
    measured_rows = [row for row in found["rows"] if "error" not in row]
    assert [row["peer"] for row in measured_rows] in (["regard"], ["regard", "regard"])  # bfloat16 may be refused
    assert found["ceilings"]["float32"] > 0
    assert "| **regard** | float32 |" in text


@pytest.mark.slow
def test_the_verb_translates_beside_a_peer_in_miniature(tmp_path: Path):
    pytest.importorskip("ctranslate2")
    names = ("regard", "regard + CTranslate2", "CTranslate2", "Hugging Face")
    found, text = bench(tmp_path, "translate-1", *(word for name in names for word in ("--only", name)))
    assert {row["peer"] for row in found["rows"]} == set(names)
    assert not [row for row in found["rows"] if "error" in row], found["rows"]
    assert "| **regard + CTranslate2** | int8 |" in text


@pytest.mark.gpu
def test_the_works_of_a_gpu_run_in_miniature():
    found = measured(device="cuda", rounds=1, quick=True)
    assert not [row for row in found["rows"] if "error" in row and "not installed" not in row["error"]], found["rows"]
