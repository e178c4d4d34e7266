"""What came of one run: scores, what it spent, and what it wrote, kept as `result.json` in its folder."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from regard.data.readers import read_labelled, read_pairs
from regard.errors import RunError
from regard.evaluate import measuring_batches
from regard.run.opened import Run
from regard.run.scoring import score_run
from regard.tasks import Classification, Translation
from regard.tasks.prepare import Preparation
from regard.train.durable import replacing, reported
from regard.train.log import read_metrics
from regard.train.strict_json import from_json, to_json

RESULT_FILE = "result.json"


@dataclass(frozen=True)
class Outcome:
    """What came of one run, or why nothing did."""

    problem: str | None = None
    """Why it failed; None where it did not."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Scores on the test data, or on the validation data where there is no other."""
    split: str = ""
    signatures: dict[str, str] = field(default_factory=dict)
    valid: dict[str, float] = field(default_factory=dict)
    """Scores on the validation data when training ended."""
    params: int = 0
    steps: int = 0
    tokens: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    evidence: dict[str, list[Any]] = field(default_factory=dict)
    """What a paired test needs: `written` and `references`, whether each answer is `right`, or `losses` of batches."""

    def save(self, folder: Path) -> None:
        """Keeps it in the run's folder."""
        with reported(RESULT_FILE, folder, 0), replacing(folder / RESULT_FILE) as stream:
            stream.write(to_json(asdict(self), indent=1).encode())


def saved_outcome(folder: Path) -> Outcome | None:
    """What a finished run left; None where it is not finished."""
    file = folder / RESULT_FILE
    if not file.is_file():
        return None
    try:
        return Outcome(**from_json(file.read_bytes()))
    except (ValueError, TypeError):
        raise RunError(f"{file}: not what a finished run leaves; remove it, and the run is tested again") from None


def trained_outcome(folder: Path, *, tested: bool) -> Outcome:
    """What a trained run reached and spent; tested where that is asked for."""
    lines = read_metrics(folder / "metrics.jsonl")
    spent = [line for line in lines if line.get("split") == "train"][-1]
    judged = [line for line in lines if line.get("split") == "valid"][-1]
    run = Run.open(folder)
    known = {**dict.fromkeys(spent, 0), "gradient_norm": 0, "averaged": 0}
    valid = {name: value for name, value in judged.items() if name == "loss" or name not in known}
    scores = _tested(run) if tested else {}
    return Outcome(
        valid=valid, params=run.task.num_params(run.recipe.model), steps=spent["step"], tokens=spent["tokens"],
        flops=spent["flops"], seconds=spent["seconds"], **scores,
    )  # fmt: skip


def _tested(run: Run) -> dict[str, Any]:
    recipe = run.recipe
    split = "test" if recipe.data.test is not None else "valid"
    preparation = Preparation(recipe.task, recipe.data, recipe.tokenizer, run.folder / "cache")
    source = recipe.data.split(split)
    report = score_run(recipe, run.task, run.model, source, preparation, run.device, longest=run.longest)
    if isinstance(run.task, Translation):
        references = [pair.target for pair in read_pairs(source, preparation.base)]
        evidence: dict[str, list[Any]] = {"written": report.details["written"], "references": references}
    elif isinstance(run.task, Classification):
        evidence = {"right": _right(run, split, preparation)}
    else:
        evidence = {"losses": _batch_losses(run, split, preparation)}
    return {"split": split, "metrics": report.metrics, "signatures": report.signatures, "evidence": evidence}


def _right(run: Run, split: str, preparation: Preparation) -> list[bool]:
    """Whether each example got its label; a blank text gets the first one, as in scoring."""
    examples = list(read_labelled(preparation.data.split(split), preparation.base))
    first = run.task.lexicon.labels[0]
    found = run.classify([example.text for example in examples])
    given = [max(row, key=row.__getitem__) if row else first for row in found]
    return [label == example.label for label, example in zip(given, examples, strict=True)]


@torch.no_grad()
def _batch_losses(run: Run, split: str, preparation: Preparation) -> list[float]:
    """The loss of each batch of the split, cut alike for all models with one vocabulary and batch size."""
    store = preparation.open(run.task, split)
    batches = measuring_batches(store, run.recipe.task.batching(run.recipe.data), run.recipe.train.tokens_per_batch)
    losses = []
    for step in range(batches.num_batches(0)):
        sums = run.task.measure(run.model, run.task.inputs(batches.batch(0, step), run.recipe.model, run.device))
        losses.append(sums["nll"] / max(1, sums["count"]))
    return losses
