"""Measurements in parts: every process writes a file of its own, and reports read whatever is there.

A part says with which command it was made, on what machine, and which answers were right, in one bit each.
"""

import base64
import gc
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from results import machine

GIB = 2**30


def store(file: Path, part: dict[str, Any]) -> None:
    """Writes a part, with the machine that it was measured on."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**part, "machine": machine()}, indent=1, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """All parts of a folder by their names; none where nothing was measured."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}


def pack_answers(right: Sequence[bool]) -> dict[str, Any]:
    """Which answers were right, as text that is short enough to be kept."""
    return {"count": len(right), "bits": base64.b64encode(np.packbits(np.array(right, bool)).tobytes()).decode()}


def unpack_answers(packed: dict[str, Any]) -> list[bool]:
    """What `pack_answers` was given."""
    bits = np.unpackbits(np.frombuffer(base64.b64decode(packed["bits"]), np.uint8), count=packed["count"])
    return bits.astype(bool).tolist()


def hardware(part: dict[str, Any]) -> str:
    """The machine of a part in words."""
    found = part["machine"]
    return f"{found['gpu'] or str(found['cores']) + ' CPU cores'}, torch {found['torch']}"


def replace_between(document: Path, begin: str, end: str, text: str) -> None:
    """Writes a text between two marks of a document."""
    before, found, rest = document.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{document}: expected the marks {begin} and {end}")
    document.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def start_of_memory(device: str) -> float:
    """Forgets the peak so far; what is held now, in GiB."""
    gc.collect()
    if device != "cuda":
        return 0.0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated() / GIB


def peak_of_memory(device: str) -> float | None:
    """The most GiB that the device's allocator handed out; None where there is no device to ask."""
    return round(torch.cuda.max_memory_allocated() / GIB, 3) if device == "cuda" else None
