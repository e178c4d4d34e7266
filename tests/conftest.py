"""Hypothesis for all tests: few examples and no deadline, and the same examples every time where CI runs them."""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hypothesis import settings

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))  # for the tests of its scripts

settings.register_profile("here", deadline=None, max_examples=30)
settings.register_profile("ci", settings.get_profile("here"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# Some virtual machines announce AMX and then refuse its instructions, which half precision on the CPU would use.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# Tests run side by side: one thread each, in this process and in those it starts, or they wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The documents' commands take longest, so they come first: no process should wait for another at the end."""
    items.sort(key=lambda item: item.path.name != "test_documents.py")


@pytest.fixture
def interpret(request: pytest.FixtureRequest) -> Callable[[], object]:
    """Runs a test's file as a program in which Triton interprets kernels; it must know of that when it is loaded."""
    aside = Path(sys.prefix) / "triton"
    if find_spec("triton") is None and not aside.is_dir():
        pytest.skip("needs Triton")
    program = [sys.executable, "-W", "ignore", str(request.path)]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    if find_spec("triton") is None:
        environment["PYTHONPATH"] = os.pathsep.join([str(aside), os.environ.get("PYTHONPATH", "")])
    return lambda: subprocess.run(program, env=environment, check=True, timeout=300)
