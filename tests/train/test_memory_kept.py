"""Freed memory is kept for the next step: the pages of large tensors are touched anew only where it is given back."""

import os
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
    return [torch.ones(1 << 21) for _ in range(10)]
for _ in range(10):  # until what is freed fits what is asked for
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


GIVING_BACK = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""What the C library begins with; it moves these limits by itself, as chance will have it, unless they are set."""


def new_pages(keeps: bool) -> int:
    words, environment = [sys.executable, "-c", COUNT.format(keeps=keeps)], {**os.environ, **GIVING_BACK}
    return int(subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout)


def test_pages_are_touched_once() -> None:
    kept, given_back = new_pages(keeps=True), new_pages(keeps=False)
    if kept < 0:
        pytest.skip("this C library has no mallopt")
    assert kept < given_back / 10


def test_a_gpu_has_an_allocator_of_its_own() -> None:
    assert not keep_freed_memory(torch.device("cuda"))
