"""What comes of a claim: numbers that are kept, and the verdict, sentence and figure that follow from them."""

import json
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.claims.claim import Claim, Finding, Numbers, Verdict, overall
from regard.claims.registry import CLAIMS
from regard.claims.setup import Setup
from regard.claims.style import slide
from regard.errors import DataError
from regard.files.machine import cores

MEASUREMENTS, FIGURES = Path("measurements", "claims"), Path("images", "claims")
"""Where an output folder keeps what was measured, and its pictures; `docs` is such a folder."""


@dataclass(frozen=True)
class Result:
    """A claim with its numbers; everything else is computed from these."""

    claim: Claim
    numbers: Numbers
    seconds: float
    quick: bool = False
    seed: int = 1
    machine: str = ""

    @property
    def findings(self) -> list[Finding]:
        """What the rule says about each part of the claim."""
        return self.claim.judge(self.numbers)

    @property
    def verdict(self) -> Verdict:
        """What the rule says about all of it."""
        return overall(self.findings)

    @property
    def headline(self) -> str:
        """What was found."""
        return self.claim.headline(self.numbers)

    def tree(self) -> dict[str, Any]:
        """For machines: the verdict, what was measured, and the numbers."""
        claim = self.claim
        findings = [{"said": one.said, "measured": one.measured, "verdict": one.verdict} for one in self.findings]
        return {
            "name": claim.name, "title": claim.title, "says": claim.says, "verdict": self.verdict,
            "measured": self.headline, "findings": findings, "how": claim.how, "quick": self.quick, "seed": self.seed,
            "seconds": round(self.seconds, 1), "machine": self.machine, "numbers": self.numbers,
        }  # fmt: skip

    def save(self, folder: Path) -> Path:
        """Writes numbers and figure below an output folder; the figure's path."""
        file, figure = folder / MEASUREMENTS / f"{self.claim.name}.json", folder / FIGURES / f"{self.claim.name}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(self.tree(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        self.draw(figure)
        return figure

    def draw(self, file: Path) -> None:
        """The figure as a PNG file."""
        file.parent.mkdir(parents=True, exist_ok=True)
        with slide(self.headline, self.claim.name.upper(), self.verdict) as figure:
            self.claim.draw(figure, self.numbers)
        figure.savefig(file, dpi=100)


def run_claim(claim: Claim, setup: Setup) -> Result:
    """Measures a claim."""
    began = time.perf_counter()
    numbers = json.loads(json.dumps(claim.measure(setup)))  # what is judged is what is kept
    machine = f"{platform.machine()}, {cores()} cores, torch {torch.__version__}"
    return Result(claim, numbers, time.perf_counter() - began, setup.quick, setup.seed, machine)


def stored_results(folder: Path, claims: Sequence[Claim] = tuple(CLAIMS.values())) -> list[Result]:
    """What an output folder keeps of these claims, judged and told anew."""
    files = [(claim, folder / MEASUREMENTS / f"{claim.name}.json") for claim in claims]
    return [_read(claim, file) for claim, file in files if file.is_file()]


def _read(claim: Claim, file: Path) -> Result:
    try:
        tree = json.loads(file.read_text(encoding="utf-8"))
        kept = {name: tree[name] for name in ("numbers", "seconds", "quick", "seed", "machine")}
    except (ValueError, KeyError, TypeError):
        raise DataError(file, "expected what `regard claims --out` writes") from None
    return Result(claim, **kept)
