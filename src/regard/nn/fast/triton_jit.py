"""Triton's compiler of kernels. What it makes of a function is launched as kernel[grid](…), which has no type."""

from typing import Any

import triton  # pyright: ignore[reportMissingImports]

jit: Any = triton.jit
