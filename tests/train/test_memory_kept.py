"""Freed memory is kept for the next step: the pages of large tensors are touched anew only where it is given back."""

import subprocess
import sys

import pytest
import torch

from regard.train.memory import keep_freed_memory

COUNT = """
import resource, torch
from regard.train.memory import keep_freed_memory
if {keeps}:
    if not keep_freed_memory(torch.device("cpu")):
        print(-1)
        raise SystemExit
def step():
    return [torch.ones(1 << 20) for _ in range(10)]
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def new_pages(keeps: bool) -> int:
    words = [sys.executable, "-c", COUNT.format(keeps=keeps)]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def test_pages_are_touched_once() -> None:
    kept = new_pages(keeps=True)
    if kept < 0:
        pytest.skip("this C library has no mallopt")
    assert kept < new_pages(keeps=False) / 10


def test_a_gpu_has_an_allocator_of_its_own() -> None:
    assert not keep_freed_memory(torch.device("cuda"))
