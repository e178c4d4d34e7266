"""Attention over packed sequences on a GPU: short ones share blocks (`nn/fast/packed.py`), torch's kernel for any.

    python benchmarks/packed_attention.py

One layer of 16 heads of 64 numbers over some 26,000 tokens in bfloat16, in sequences as long as the sentences of
Multi30k or all of one length. Microseconds forward and backward, and how far the two outputs lie apart at most.
From these follows `SHORT` of `nn/fast/plan.py`. Needs a CUDA device.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention.varlen import varlen_attn
from triton.testing import do_bench

from regard.bench.workloads import MULTI30K
from regard.nn.fast.packed import KeyRanges, attend_key_ranges
from regard.nn.layout import Layout

TOKENS, HEADS, WIDTH = 26_000, 16, 64
LENGTHS = (0, 32, 64, 128, 256, 512)
"""Tokens of a sequence; 0 stands for Multi30k's."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/measurements/packed-attention.json"))
    out = parser.parse_args().out
    found: dict[str, Any] = {"machine": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": []}
    for length in LENGTHS:
        for causal in (False, True):
            found["rows"].append({"length": length or "Multi30k", "causal": causal, **measured(length, causal)})
            print(found["rows"][-1], flush=True)
            out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measured(length: int, causal: bool) -> dict[str, Any]:
    """Both ways on the same numbers."""
    lengths = [length] * (TOKENS // length) if length else [MULTI30K[place * 7 % 32] for place in range(2048)]
    layout = Layout.packing(torch.tensor(lengths)).to("cuda")
    torch.manual_seed(0)
    shape = (sum(lengths), HEADS, WIDTH)
    tensors = [torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    grad_output, ranges = torch.randn_like(tensors[0]), KeyRanges.of(layout.pattern(), causal)  # type: ignore[arg-type]
    bounds = torch.nn.functional.pad(torch.cumsum(layout.lengths, 0), (1, 0)).int()
    window, most, scale = (-1, 0) if causal else (-1, -1), max(lengths), WIDTH**-0.5
    ways = {
        "spans": lambda: attend_key_ranges(*tensors, ranges, scale),
        "variable_length": lambda: varlen_attn(
            *tensors, bounds, bounds, most, most, scale=scale, window_size=window
        ),
    }  # fmt: skip
    outputs = {name: way() for name, way in ways.items()}
    rows: dict[str, Any] = {
        name: {"forward": micros(way), "backward": micros(lambda y=outputs[name]: gradients(y, tensors, grad_output))}
        for name, way in ways.items()
    }
    one, other = outputs.values()
    return {**rows, "apart": float((one - other).detach().abs().max())}


def gradients(y: torch.Tensor, tensors: list[torch.Tensor], grad_output: torch.Tensor) -> object:
    return torch.autograd.grad(y, tensors, grad_output, retain_graph=True)


def micros(work: Any) -> float:
    return round(1000 * do_bench(work, warmup=5, rep=20))


if __name__ == "__main__":
    main()
