"""`import regard` takes milliseconds and loads no torch; what a user writes with it passes a strict type checker."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).parents[2]


def python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_importing_is_quick_and_loads_nothing_heavy():
    program = "import sys; before = {*sys.modules}; import regard; print(*({*sys.modules} - before))"
    loaded = {name.partition(".")[0] for name in python(program).split()}
    assert not loaded & {"torch", "numpy", "pydantic", "pyarrow", "tokenizers", "inspect", "typing"}
    timed = "import time; began = time.process_time(); import regard; print(time.process_time() - began)"
    assert min(float(python(timed)) for _ in range(3)) < 0.05  # of CPU, as other programs may run meanwhile


def test_names_that_are_packages_too_can_be_called_in_any_order():
    calls = "print(callable(regard.train), callable(regard.compare))"
    said = python(f"import regard.train.signals, regard; {calls}; import regard.compare; {calls}; regard.load; {calls}")
    assert {*said.split()} == {"True"}
    assert "on_step" in inspect.signature(regard.train).parameters
    assert regard.train.__doc__.startswith("Trains a model on data")
    assert sorted(regard.__all__) == sorted(regard.HOMES)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        regard.trian  # noqa: B018


PROGRAM = """
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import regard


def watch(line: Mapping[str, float]) -> None:
    print(line["step"], line["loss"])


pairs = [("the dog", "der Hund"), ("the cat", "die Katze")]
run: regard.Run = regard.train(pairs, task="translation", out=Path("runs/mine"), on_step=watch, train__steps=3)
german: str = run.translate("the dog", beam=4)
several: list[str] = run.translate(["the dog", "the cat"])
label: str | None = regard.load("runs/reviews").classify("dull")
attention = run.attention("the dog", target="der Hund")
first = attention.cross.weights[0, 0]
print(float(np.max(first)), attention.cross.queries[0].upper(), attention.cross.keys)
with run.patch("encoder", layer=0, head=1, position=2):
    print(run.logits("the dog").probabilities.shape, run.hidden("the dog").encoder.mean())
saved: Path = run.look("the dog").save("page.html")
scores: dict[str, float] = run.evaluate("valid").metrics
table = regard.compare({"a": {}, "b": {"model.width": 32}}, pairs, task="translation", out="runs/ab", seeds=1)
print([row.name for row in table.rows], run.folder.name, run.step + 1)
try:
    run.export("onnx", "exported")
except regard.RegardError as error:
    print(error)
"""
WRONG = """
import regard

run = regard.load("runs/mine")
number: int = run.translate("the dog")
run.patch("middle", layer=0)
run.generate("the dog", temprature=1.0)
"""


def test_a_users_program_passes_a_strict_type_checker(tmp_path: Path):
    (tmp_path / "right.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text(WRONG)
    config = {"include": ["."], "typeCheckingMode": "strict", "extraPaths": [str(ROOT / "src")]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    checker = Path(sys.executable).with_name("basedpyright")
    command = [checker, "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    findings = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    found = [(Path(one["file"]).name, one["range"]["start"]["line"]) for one in findings["generalDiagnostics"]]
    assert {line for file, line in found if file == "wrong.py"} == {4, 5, 6}, findings
    assert not [one for one in findings["generalDiagnostics"] if one["file"].endswith("right.py")]
