"""The programs that are measured, their scripts, and the Python environment of each."""

import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from regard.bench.workloads import Kind, Workload

SCRIPTS = Path(__file__).parent / "scripts"
"""Scripts of regard and of plain torch."""
PEER_SCRIPTS = Path(__file__).parents[3] / "benchmarks" / "peers"
"""Scripts of other programs; exists in a checkout of the repository only."""


@dataclass(frozen=True)
class Program:
    name: str
    script: str
    module: str
    """What must be importable."""
    kinds: tuple[Kind, ...]
    options: tuple[str, ...] = ()
    precisions: tuple[str, ...] | None = None
    """Its data types; the workload's when left out."""
    threads: tuple[int, ...] = ()
    """Numbers of threads to try; all cores when left out."""
    converted: bool = False
    """Whether it runs a converted CTranslate2 model."""
    devices: tuple[str, ...] = ("cpu", "cuda")

    @property
    def ours(self) -> bool:
        """Whether it is regard, which runs in this environment."""
        return self.name.startswith("regard")

    @property
    def file(self) -> Path | None:
        """Its script; None where that is not there."""
        files = (folder / f"{self.script}.py" for folder in (SCRIPTS, PEER_SCRIPTS))
        return next((file for file in files if file.is_file()), None)

    def does(self, work: Workload) -> bool:
        named = not work.peers or self.name in work.peers
        return named and work.kind in self.kinds and work.device in self.devices


TRAINS: tuple[Kind, ...] = ("train-pair", "train-text")
GENERATES: tuple[Kind, ...] = ("translate", "generate")
INT8 = ("float32", "int8")

PROGRAMS: tuple[Program, ...] = (
    Program("regard", "of_regard", "regard", (*TRAINS, *GENERATES)),
    Program("regard packed", "of_regard", "regard", ("train-pair",), ("packed",)),
    Program("regard + CTranslate2", "of_regard_ctranslate2", "ctranslate2", GENERATES, precisions=INT8, converted=True,
            devices=("cpu",)),
    Program("torch.nn", "of_torch", "torch", TRAINS),
    Program("plain torch", "of_torch", "torch", ("train-text",), ("plain",)),
    Program("Hugging Face", "of_huggingface", "transformers", (*TRAINS, *GENERATES)),
    Program("x-transformers", "of_x_transformers", "x_transformers", (*TRAINS, "translate"), devices=("cpu",)),
    Program("JoeyNMT", "of_joeynmt", "joeynmt", ("train-pair", "translate"), devices=("cpu",)),
    Program("CTranslate2", "of_ctranslate2", "ctranslate2", GENERATES, precisions=INT8, threads=(1, 2), converted=True,
            devices=("cpu",)),
    Program("CTranslate2 divided", "of_ctranslate2", "ctranslate2", GENERATES, ("divided",), precisions=INT8,
            converted=True, devices=("cpu",)),
)  # fmt: skip


def interpreter_for(program: Program, environment: Path | None) -> str | None:
    """The Python that can import a program: of the peers' environment, or this one; None where neither can."""
    if program.ours:
        return sys.executable if importlib.util.find_spec(program.module) else None
    if environment is not None:
        python = environment / "bin" / "python"
        check = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({program.module!r}) is None)"
        if python.exists() and subprocess.run([python, "-c", check], capture_output=True, check=False).returncode == 0:
            return str(python)
    return sys.executable if importlib.util.find_spec(program.module) else None
