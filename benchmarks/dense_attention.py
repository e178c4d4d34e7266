"""Attention in bfloat16 on a CPU: torch's fused kernel, and the plain matmuls of `nn/fast/sdpa.py`.

    python benchmarks/dense_attention.py

Milliseconds of a forward pass and of one with its gradients, medians in turns, for batches as `regard bench` trains
with and for longer rows; and how far the outputs lie apart at most.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from results import machine

from regard.nn.fast.sdpa import MatmulAttention

SHAPES = (
    (64, 4, 25, 64, False),
    (64, 4, 25, 64, True),
    (32, 8, 64, 64, False),
    (12, 6, 256, 64, True),
    (16, 4, 512, 64, True),
    (4, 4, 1024, 64, True),
)
"""Rows, heads, tokens, head width, and whether a token sees those before it only; otherwise some are padding."""
TURNS = 9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/measurements/dense-attention.json"))
    out = parser.parse_args().out
    rows = []
    for shape in SHAPES:
        rows.append(measured(*shape))
        print(rows[-1], flush=True)
    out.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n", encoding="utf-8")


def measured(rows: int, heads: int, time_: int, width: int, causal: bool) -> dict[str, Any]:
    """Both ways on the same numbers, in turns."""
    torch.manual_seed(0)
    given = [
        torch.randn(rows, time_, heads, width, dtype=torch.bfloat16).transpose(1, 2).requires_grad_() for _ in range(3)
    ]
    grad_output = torch.randn(rows, time_, heads, width, dtype=torch.bfloat16).transpose(1, 2)
    lengths = torch.randint(time_ * 3 // 5, time_ + 1, (rows,))
    mask = None if causal else (torch.arange(time_) < lengths[:, None])[:, None, None, :]
    scale = width**-0.5
    ways: dict[str, Callable[[], torch.Tensor]] = {
        "fused": lambda: F.scaled_dot_product_attention(*given, mask, is_causal=causal, scale=scale),
        "products": lambda: MatmulAttention.apply(*given, mask, causal, scale),  # type: ignore[return-value]
    }
    steps = {(name, "forward"): way for name, way in ways.items()}
    steps |= {
        (name, "training"): lambda way=way: torch.autograd.grad(way(), given, grad_output) for name, way in ways.items()
    }
    took: dict[tuple[str, str], list[float]] = {name: [] for name in steps}
    for _ in range(TURNS):
        for name, step in steps.items():
            began = time.perf_counter()
            step()
            took[name].append(time.perf_counter() - began)
    found: dict[str, Any] = {"shape": [rows, heads, time_, width], "causal": causal}
    for way, kind in steps:
        found.setdefault(way, {})[kind] = round(1e3 * median(took[way, kind]), 2)
    return {**found, "apart": (ways["fused"]() - ways["products"]()).abs().max().item()}


if __name__ == "__main__":
    main()
