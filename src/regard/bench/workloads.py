"""What is measured: workloads, described in plain values for every program, and the programs with their scripts.

FLOPs follow from the description by one formula for all programs, without padding: a program that pads computes more
than is counted.
"""

import importlib.util
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

SCRIPTS = Path(__file__).parent / "scripts"
"""Scripts of regard and of plain torch."""
PEER_SCRIPTS = Path(__file__).parents[3] / "benchmarks" / "peers"
"""Scripts of other programs; exists in a checkout of the repository only."""
Kind = Literal["train-pair", "train-text", "translate", "generate"]
Device = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class Workload:
    """One task of one size; every program gets the same random tokens."""

    name: str
    kind: Kind
    title: str
    width: int
    depth: int
    """Layers; of an encoder-decoder, on each side."""
    heads: int
    vocabulary: int
    rows: int
    shortest: int
    longest: int
    """Tokens of a row (of either side, for pairs) lie between these, evenly …"""
    spread: tuple[int, ...] = ()
    """… or are these, each as often as the others."""
    write: int = 0
    """Tokens to generate for each row."""
    beam: int = 1
    dropout: float = 0.0
    device: Device = "cpu"
    precisions: tuple[str, ...] = ("float32", "bfloat16")
    peers: tuple[str, ...] = ()
    """Programs that take part; all that support the kind, when empty."""

    @property
    def feedforward(self) -> int:
        return 4 * self.width

    def tree(self) -> dict[str, object]:
        """The description as JSON."""
        return {**asdict(self), "feedforward": self.feedforward}

    def tiny(self) -> "Workload":
        """The same workload in miniature, for `--quick`."""
        longest = min(self.longest, 10)
        return replace(
            self, width=32, depth=1, heads=2, vocabulary=min(self.vocabulary, 120), rows=min(self.rows, 4),
            shortest=min(self.shortest, longest), longest=longest, write=min(self.write, 5), spread=(),
        )  # fmt: skip


def lengths(work: Workload) -> list[int]:
    """Tokens of each row, spread evenly from the shortest to the longest (or as `spread` says), and mixed."""
    if work.spread:
        return [work.spread[(row * 7) % len(work.spread)] for row in range(work.rows)]
    span = work.longest - work.shortest + 1
    spread = [work.longest - (row * span) // work.rows for row in range(work.rows)]
    return [spread[(row * 7) % work.rows] if work.rows % 7 else spread[row] for row in range(work.rows)]


def tokens(work: Workload) -> int:
    """The tokens that are counted: target tokens in training, generated tokens otherwise."""
    return sum(lengths(work)) if work.kind.startswith("train") else work.rows * work.write


def flops(work: Workload) -> float:
    """2 FLOPs per weight and token forward, twice that backward, and attention's FLOPs for pairs of tokens."""
    row_lengths = lengths(work)
    if work.kind == "train-pair":
        return 3 * sum(_encoder_flops(work, n) + _decoder_flops(work, n, n) for n in row_lengths)
    if work.kind == "train-text":
        return 3 * sum(_language_model_flops(work, n) for n in row_lengths)
    if work.kind == "translate":
        return sum(_encoder_flops(work, n) + work.beam * _decoder_flops(work, work.write, n) for n in row_lengths)
    return sum(_language_model_flops(work, n + work.write) for n in row_lengths)


def _encoder_flops(work: Workload, n: int) -> float:
    """Forward FLOPs for n tokens: four projections and the feed-forward of each layer, and all pairs."""
    weights = 4 * work.width**2 + 2 * work.width * work.feedforward
    return work.depth * (2 * n * weights + 4 * n * n * work.width)


def _decoder_flops(work: Workload, n: int, source: int) -> float:
    """Forward FLOPs: eight projections, causal pairs, cross-attention pairs, feed-forward and output layer."""
    weights = 8 * work.width**2 + 2 * work.width * work.feedforward
    layers = work.depth * (2 * n * weights + 2 * n * n * work.width + 4 * n * source * work.width)
    return layers + 2 * n * work.width * work.vocabulary


def _language_model_flops(work: Workload, n: int) -> float:
    """Forward FLOPs of a decoder-only model."""
    weights = 4 * work.width**2 + 2 * work.width * work.feedforward
    return work.depth * (2 * n * weights + 2 * n * n * work.width) + 2 * n * work.width * work.vocabulary


SMALL = partial(Workload, width=256, depth=3, heads=4, vocabulary=8000)
BASE = partial(Workload, width=512, depth=6, heads=8, vocabulary=32000)
BIG = partial(Workload, width=1024, depth=6, heads=16, vocabulary=32000, device="cuda", precisions=("bfloat16",))
GPT2 = partial(Workload, width=768, depth=12, heads=12, vocabulary=50257, device="cuda", precisions=("bfloat16",))
SENTENCES = {"shortest": 25, "longest": 25, "write": 30, "precisions": ("float32",)}
MULTI30K = (
    6, 7, 8, 8, 8, 9, 9, 9, 10, 10, 10, 11, 11, 11, 11, 12, 12, 12, 13, 13, 13, 14, 14, 15, 15, 16, 16, 17, 18, 19, 21,
    24,
)  # fmt: skip
"""Lengths of its German training sentences in words and punctuation: 32 quantiles; the longest has 45."""
SMALL_TRANSLATION, BASE_TRANSLATION = partial(SMALL, **SENTENCES), partial(BASE, **SENTENCES)
GENERATION = partial(GPT2, shortest=128, longest=128, write=256)

WORKLOADS: tuple[Workload, ...] = (
    SMALL("train-pair", "train-pair", "training, encoder-decoder 256 × (3 + 3), 64 pairs of 15 to 25 tokens",
          rows=64, shortest=15, longest=25, dropout=0.1),
    Workload("train-text", "train-text", "training, character model 384 × 6, 12 × 256 tokens",
             width=384, depth=6, heads=6, vocabulary=65, rows=12, shortest=256, longest=256),
    SMALL_TRANSLATION("translate-1", "translate", "translation, 256 × (3 + 3), greedy, one sentence", rows=1),
    SMALL_TRANSLATION("translate-32", "translate", "translation, 256 × (3 + 3), greedy, 32 sentences", rows=32),
    BASE_TRANSLATION("base-beam-1", "translate", "translation, 512 × (6 + 6), beam of 5, one sentence", rows=1, beam=5),
    BASE_TRANSLATION("base-32", "translate", "translation, 512 × (6 + 6), greedy, 32 sentences", rows=32),
    GPT2("gpu-train-text", "train-text", "training, GPT-2 124M, 64 × 1,024 tokens",
         rows=64, shortest=1024, longest=1024),
    BIG("gpu-train-pair", "train-pair", "training, 1,024 × (6 + 6), sentences as long as those of Multi30k",
        rows=2048, shortest=min(MULTI30K), longest=max(MULTI30K), spread=MULTI30K, dropout=0.1),
    GENERATION("gpu-generate-1", "generate", "generation, GPT-2 124M, one text", rows=1),
    GENERATION("gpu-generate-64", "generate", "generation, GPT-2 124M, 64 texts", rows=64),
)  # fmt: skip


def sizes(device: Device) -> list[Workload]:
    """Workloads of equally many tokens at growing widths, then at growing lengths."""
    budget, precision = (4096, "float32") if device == "cpu" else (65536, "bfloat16")

    def work(name: str, title: str, width: int, length: int) -> Workload:
        return Workload(
            name, "train-text", title, width, depth=4, heads=width // 64, vocabulary=8000, rows=budget // length,
            shortest=length, longest=length, device=device, precisions=(precision,), peers=("regard", "plain torch"),
        )  # fmt: skip

    wide = [work(f"width-{width}", f"width {width:,}, length 256", width, 256) for width in (128, 256, 512, 1024)]
    lengths = (64, 256, 1024, 4096)
    return wide + [work(f"length-{length}", f"length {length:,}, width 256", 256, length) for length in lengths]


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
