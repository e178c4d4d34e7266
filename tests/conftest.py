"""Hypothesis for all tests: few examples and no deadline, and the same examples every time where CI runs them."""

import os

from hypothesis import settings

settings.register_profile("here", deadline=None, max_examples=30)
settings.register_profile("ci", settings.get_profile("here"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# Some virtual machines announce AMX and then refuse its instructions, which half precision on the CPU would use.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
