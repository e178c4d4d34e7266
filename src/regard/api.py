"""regard from Python: the same verbs as on the command line.

run = regard.api.train("recipes/demo.toml", out="runs/demo")
run = regard.api.load("runs/demo")
run.translate(["The street was too wide."])[0][0].text
regard.api.evaluate(run).metrics["bleu"]
"""

from collections.abc import Sequence
from pathlib import Path

from regard.data.sources import SourceConfig
from regard.run import Recipe, Run, read_recipe, train_run
from regard.run.scoring import Report, score_run
from regard.tasks.prepare import Preparation
from regard.tasks.writing import AnySearch
from regard.train.loop import Watcher
from regard.train.precision import choose_precision, machine_peak
from regard.train.progress import make_watcher


def train(
    recipe: Recipe | str | Path, *settings: str, out: str | Path, resume: bool = False, watcher: Watcher | None = None
) -> Run:
    """Trains what a recipe says (`key=value` settings on top) into a folder, and opens the result."""
    resolved = recipe if isinstance(recipe, Recipe) else read_recipe(Path(recipe), settings)
    folder = Path(out)
    if watcher is not None:
        train_run(resolved, folder, watcher, resume)
        return load(folder)
    device = resolved.train.device
    with make_watcher(_peak(resolved, "cpu" if device == "auto" else device)) as told:
        told.say(f"{train_run(resolved, folder, told, resume)}; the run is in {folder}")
    return load(folder)


def load(folder: str | Path, device: str = "auto", which: str = "best") -> Run:
    """A trained run, with the weights of its best checkpoint (or `last`, or `step-N`)."""
    return Run.open(Path(folder), device, which)


def evaluate(
    run: Run | str | Path,
    data: SourceConfig | str = "test",
    search: AnySearch | None = None,
) -> Report:
    """The scores of a run on a split of its recipe, or on other data."""
    run = run if isinstance(run, Run) else load(run)
    recipe = run.recipe
    source = recipe.data.split(data) if isinstance(data, str) else data
    preparation = Preparation(recipe.task, recipe.data, recipe.tokenizer, run.folder / "cache")
    return score_run(recipe, run.task, run.model, source, preparation, run.device, search, run.longest)


def translate(run: Run | str | Path, texts: Sequence[str], search: AnySearch | None = None) -> list[str]:
    """The best translation of each text."""
    run = run if isinstance(run, Run) else load(run)
    return [outputs[0].text for outputs in run.translate(texts, search)]


def generate(run: Run | str | Path, prompts: Sequence[str], search: AnySearch | None = None) -> list[str]:
    """What the model writes after each prompt."""
    run = run if isinstance(run, Run) else load(run)
    return [outputs[0].text for outputs in run.generate(prompts, search)]


def classify(run: Run | str | Path, texts: Sequence[str]) -> list[str | None]:
    """The likeliest label of each text; None for a blank one."""
    run = run if isinstance(run, Run) else load(run)
    return [max(row, key=row.__getitem__) if row else None for row in run.classify(texts)]


def _peak(recipe: Recipe, device: str) -> float | None:
    """The machine's measured FLOP/s in the precision of a run."""
    import torch

    device = "cuda" if recipe.train.device != "cpu" and torch.cuda.is_available() else device
    return machine_peak(device, choose_precision(recipe.train.precision, device).dtype)
