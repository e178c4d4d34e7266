"""The outcome of one run: scores, costs and generated texts, stored as `result.json` in its folder."""

from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.data.content_hash import source_sha256
from regard.errors import RegardError, RunError
from regard.files.atomic import write_atomic
from regard.files.run_folder import METRICS_FILE
from regard.files.strict_json import from_json, to_json
from regard.metrics.registry import METRICS
from regard.run.recipe import Recipe
from regard.run.scoring import score_run
from regard.run.trained import Run
from regard.train.log import read_metrics

RESULT_FILE = "result.json"
Values = list[Any]
"""Texts, truth values or numbers, one for each example or batch."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run, or why it failed."""

    problem: str | None = None
    """Why it failed; None where it did not."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Scores on the test data, or on the validation data where there is no other."""
    split: str = ""
    fingerprint: str = ""
    """SHA-256 of the examples that were tested."""
    targets: str = ""
    """What a mean over targets is a mean over: which labels, or which vocabulary's tokens."""
    signatures: dict[str, str] = field(default_factory=dict)
    valid: dict[str, float] = field(default_factory=dict)
    """Scores on the validation data when training ended."""
    params: int = 0
    steps: int = 0
    tokens: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    evidence: dict[str, Values] = field(default_factory=dict)
    """What a paired test needs: `written` and `references`, whether each answer is `right`, or `losses` and `targets`
    of batches."""
    data: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the contents of each split: a result holds for these only."""

    def save(self, folder: Path) -> None:
        write_atomic(folder / RESULT_FILE, to_json(asdict(self), indent=1))


def saved_outcome(folder: Path) -> Outcome | None:
    """The outcome of a finished run; None where it is not finished."""
    file = folder / RESULT_FILE
    if not file.is_file():
        return None
    try:
        stored: Any = from_json(file.read_bytes())
        return Outcome(**stored)
    except (ValueError, TypeError):
        raise RunError(f"{file}: not the result of a finished run; remove it, and the run is tested again") from None


def trained_outcome(folder: Path, *, tested: bool) -> Outcome:
    """The outcome of a trained run; with test scores if `tested`."""
    lines = read_metrics(folder / METRICS_FILE)
    trained, measured = ([line for line in lines if line.get("split") == split] for split in ("train", "valid"))
    if not trained or not measured:
        raise RunError(f"{folder / METRICS_FILE}: has no line about training and validation; remove {folder}")
    spent, validation = trained[-1], measured[-1]
    run = Run.open(folder)
    outcome = Outcome(
        valid={name: value for name, value in validation.items() if name in METRICS},
        params=run.task.num_params(run.recipe.model), steps=spent["step"], tokens=spent["tokens"],
        flops=spent["flops"], seconds=spent["seconds"],
    )  # fmt: skip
    if not tested:
        return outcome
    split = scored_split(run.recipe)
    report = score_run(run, run.recipe.data.split(split))
    return replace(
        outcome, split=split, metrics=report.metrics, fingerprint=report.fingerprint, targets=report.targets,
        signatures=report.signatures, evidence=report.evidence,
    )  # fmt: skip


def scored_split(recipe: Recipe) -> str:
    """The split that a finished model is tested on."""
    return "test" if recipe.data.test is not None else "valid"


def data_contents(recipe: Recipe) -> dict[str, str]:
    """SHA-256 of the contents of each split that can be read now."""
    splits = [split for split in ("train", "valid", "test") if split != "test" or recipe.data.test is not None]
    hashes: dict[str, str] = {}
    for split in splits:
        with suppress(RegardError):  # a finished result outlives its data
            hashes[split] = source_sha256(recipe.data.split(split), Path(recipe.data.folder or ""))
    return hashes
