"""The commands of the command line as functions; `import regard` offers objects on top of them (`runs.py`).

run = regard.api.train("recipes/demo.toml", out="runs/demo")
run = regard.api.load("runs/demo")
run.translate(["Anna threw away the old chair."])[0][0].text
regard.api.evaluate(run).metrics["bleu"]
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import islice
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, overload

from regard import look as looking
from regard.claims import Result, Setup, run_claim, select_claims, stored_results, write_page
from regard.compare import Comparison, compare_sweep, read_sweep
from regard.data.lines import plain_texts
from regard.data.settings import SPLITS
from regard.data.source_reader import read_examples
from regard.data.sources import SourceConfig, source_of_files
from regard.decode.search import AnySearch
from regard.errors import ConfigError, Interrupted, RunError
from regard.export.export import export_model, require_target
from regard.export.exported_model import ExportedModel, HeldOut
from regard.export.huggingface.import_model import read_folder
from regard.export.parity import Parity
from regard.files.run_folder import CHECKPOINTS_FOLDER, METRICS_FILE, list_checkpoints
from regard.progress import VERBOSITY
from regard.run import Plan, Recipe, Run, plan_recipe
from regard.run.conclusion import conclusion, resume_sentence
from regard.run.imported_model import refuse_occupied, write_imported
from regard.run.scoring import Report, score_run
from regard.run.training import train_run
from regard.tasks.images import ImageTask
from regard.text.inputs import Overlong
from regard.train.log import read_metrics
from regard.train.loop import STOPPED
from regard.train.monitor import Callback, Callbacks, Watcher
from regard.train.parallel.processes import is_main_process, parse_device
from regard.train.precision import choose_precision, machine_peak
from regard.train.progress import make_watcher
from regard.train.signals import StopRequest

Texts = list[str] | tuple[str, ...]


def train(
    recipe: Plan | Recipe | str | Path,
    *settings: str,
    out: str | Path,
    resume: bool = False,
    data_changed: bool = False,
    watcher: Watcher | None = None,
    on_step: Callback | None = None,
    on_validation: Callback | None = None,
) -> Run:
    """Trains what a recipe says (`key=value` settings on top) into a folder, and opens the result.

    `resume` continues from the newest checkpoint there; `data_changed` accepts that data or tokenizer changed since.
    An error in a callback stops the run, saves it, and is then raised.
    """
    if isinstance(recipe, Plan | Recipe) and settings:
        raise ConfigError("settings", "a Recipe has its settings already; change them with recipe.but(…)")
    for setting in settings:
        if not isinstance(setting, str):
            raise ConfigError("settings", f"expected texts such as 'train.steps=100', got {setting!r}")
    folder = _path(out, "out")
    plan = _plan(recipe, settings, folder if resume else None)
    stop = StopRequest()
    display = nullcontext(watcher) if watcher is not None else make_watcher(_peak(plan.recipe))
    with display as shown:
        callbacks = Callbacks(shown, stop, on_step, on_validation) if on_step or on_validation else None
        _announce(plan, shown)
        ended = train_run(plan.recipe, folder, callbacks or shown, resume, data_changed, stop)
        if callbacks is not None and callbacks.error is not None:
            raise callbacks.error
        if ended == STOPPED:
            raise Interrupted(f"stopped and saved; {resume_sentence(folder)}" if is_main_process() else "")
        run = load(folder)
        if watcher is None and is_main_process():
            for sentence in (f"{ended}; the run is in {folder}", *conclusion(run)):
                shown.say(sentence)
    return run


def _plan(recipe: Plan | Recipe | str | Path, settings: Sequence[str], run: Path | None) -> Plan:
    match recipe:
        case Plan():
            return recipe
        case Recipe():
            return Plan(recipe)
        case _:
            return plan_recipe(_path(recipe, "recipe"), settings, run)


def _announce(plan: Plan, watcher: Watcher) -> None:
    """Says how long training will take."""
    if is_main_process() and plan.announcement is not None:
        watcher.say(plan.announcement)


def load(folder: str | Path, device: str = "auto", which: str = "best") -> Run:
    """A trained run, with the weights of its best checkpoint (or `last`, or `step-N`)."""
    return Run.open(_path(folder, "run"), device, which)


def evaluate(
    run: Run | str | Path,
    data: SourceConfig | str | Path = "test",
    search: AnySearch | None = None,
    others: Sequence[Run | str | Path] = (),
    overlong: Overlong | None = None,
) -> Report:
    """The scores of a run on a split of its recipe, or on other data; of several runs that translate together.

    `data` is `train`, `valid` or `test`, a SourceConfig, or a file (`a.txt`, or two as `a.en,a.de`). Examples that are
    too long for the model are cut or left out as in training, and counted in the report; `overlong` (cut, skip, error)
    says otherwise.
    """
    run = _opened(run)
    if isinstance(others, Run | str | Path):
        raise ConfigError("others", "expected a list of runs, got one")
    return score_run(run, _source(run, data), search, [_opened(other) for other in others], overlong)


@overload
def translate(run: Run | str | Path, texts: str, search: AnySearch | None = None, *, split: bool = True) -> str: ...
@overload
def translate(
    run: Run | str | Path, texts: Texts, search: AnySearch | None = None, *, split: bool = True
) -> list[str]: ...
def translate(
    run: Run | str | Path, texts: str | Texts, search: AnySearch | None = None, *, split: bool = True
) -> str | list[str]:
    """The best translation of each text; of a single text, that text's.

    A run that was trained on sentences translates a text sentence by sentence and keeps its layout, unless `split` is
    false.
    """
    outputs = [row[0].text for row in _opened(run).translate(_as_list(texts), search, split=split)]
    return outputs[0] if isinstance(texts, str) else outputs


@overload
def generate(run: Run | str | Path, prompts: str, search: AnySearch | None = None) -> str: ...
@overload
def generate(run: Run | str | Path, prompts: Texts, search: AnySearch | None = None) -> list[str]: ...
def generate(run: Run | str | Path, prompts: str | Texts, search: AnySearch | None = None) -> str | list[str]:
    """The continuation of each prompt; of a single prompt, that text."""
    outputs = [row[0].text for row in _opened(run).generate(_as_list(prompts), search)]
    return outputs[0] if isinstance(prompts, str) else outputs


@overload
def classify(run: Run | str | Path, texts: str) -> str | None: ...
@overload
def classify(run: Run | str | Path, texts: Texts) -> list[str | None]: ...
def classify(run: Run | str | Path, texts: str | Texts) -> str | list[str | None] | None:
    """The likeliest label of each text, of a single text its own; None for a blank one.

    Of a model that gives several labels: all above the threshold, with commas between; `classify_labels` has the list.
    """
    labels = [None if row is None else ", ".join(row) for row in _labels(_opened(run), _as_list(texts))]
    return labels[0] if isinstance(texts, str) else labels


def classify_labels(run: Run | str | Path, texts: Texts) -> list[list[str] | None]:
    """The labels of each text, likeliest first: one, or any number where the task gives several; None for a blank."""
    return _labels(_opened(run), _as_list(texts))


def _labels(run: Run, texts: Sequence[str]) -> list[list[str] | None]:
    return [None if row is None else run.task.given_labels(row) for row in run.classify(texts)]


def attention(
    run: Run | str | Path,
    text: str,
    target: str | None = None,
    *,
    snapshots: bool = False,
    **options: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """The payload of the page for one text, as plain values for JSON; `snapshots` adds the run's other checkpoints.

    `target` is a forced target. Further options are those of `regard.look.TraceConfig`.
    """
    run = _opened(run)
    if not isinstance(run.task, ImageTask):
        (text,) = plain_texts([text])
    if target is not None:
        (target,) = plain_texts([target])
    earlier = _snapshots(run) if snapshots else []
    tree = looking.trace(run, text, target, snapshots=earlier, **options)
    metrics = run.folder / METRICS_FILE
    lines = read_metrics(metrics) if metrics.exists() else []
    return {**tree, "training": [{name: _finite(value) for name, value in line.items()} for line in lines]}


def look(
    run: Run | str | Path,
    text: str,
    target: str | None = None,
    *,
    against: Run | str | Path | None = None,
    out: str | Path | None = None,
    **options: Any,  # noqa: ANN401
) -> str:
    """One offline page about one text, beside another run's with `against`; written to `out` if there is one."""
    tree = attention(run, text, target, snapshots=True, **options)
    if against is not None:
        tree["against"] = attention(against, text, target, **options)
    page = looking.render(tree)
    if out is not None:
        _path(out, "out").write_text(page, encoding="utf-8")
    return page


def compare(
    files: str | Path | Sequence[str | Path],
    *settings: str,
    out: str | Path,
    seeds: int | None = None,
    budget: str | None = None,
    tune: bool | None = None,
) -> Comparison:
    """Recipes, or the variants of one sweep file, with equal budgets; defaults are those of the sweep.

    Tables and runs are in `out`; runs that are complete there are not trained again.
    """
    named = [files] if isinstance(files, str | Path) else files
    sweep = read_sweep([_path(file, "files") for file in named], settings, seeds=seeds, budget=budget, tune=tune)
    return compare_sweep(sweep, _path(out, "out"))


def export(
    run: Run | str | Path,
    to: str,
    out: str | Path,
    *,
    int8: bool = False,
    data: SourceConfig | str | Path = "valid",
    examples: int = 256,
) -> Parity:
    """Writes a run's model for other programs (huggingface, ctranslate2, onnx); Failure where it fails its check.

    The check compares logits and outputs with the run's own on held-out examples; its report stays in the folder.
    """
    require_target(to)
    if not isinstance(examples, int) or examples < 1:
        raise ConfigError("examples", f"expected a whole number above 0, got {examples!r}")
    run = _opened(run, "cpu")
    read = islice(read_examples(_source(run, data), Path(run.recipe.data.folder or "")), examples)
    return export_model(ExportedModel.of(run), HeldOut.of(read), to, Path(out), int8=int8)


def import_run(folder: str | Path, out: str | Path, *, say: Callable[[str], None] = lambda sentence: None) -> Run:
    """Makes a run of a Hugging Face folder (Marian, Pegasus, T5, GPT-2, GPT-NeoX, Llama, BERT, ViT layouts).

    Where transformers is installed, logits of random inputs are compared first; `say` is called with the result and
    with further notes.
    """
    refuse_occupied(Path(out))
    model = read_folder(Path(folder))
    write_imported(model, Path(out), str(folder), say)
    for note in model.notes:
        say(f"note: {note}")
    return load(out, "cpu")


def claims(
    names: str | Sequence[str] = (),
    *,
    out: str | Path = "claims",
    run: str | Path | None = None,
    seed: int = 1,
    stored: bool = False,
    quick: bool = False,
    say: Callable[[str], None] = lambda sentence: None,
) -> list[Result]:
    """Measures the lectures' claims (`f1` to `f17`, or all) and writes numbers, figures and the page into a folder.

    `run` is a trained demo for the claims that examine one. With `stored` nothing is measured: verdicts and figures
    follow from the folder's numbers. `quick` runs everything in seconds and proves nothing.
    """
    selected, folder = select_claims([names] if isinstance(names, str) else names), _path(out, "out")
    if run is not None and not any(claim.uses_translator for claim in selected):
        raise ConfigError(
            "--run", f"{', '.join(claim.name for claim in selected)}: none uses a trained run; leave it out"
        )
    if stored:
        results = stored_results(folder, selected)
        if not results:
            raise RunError(f"{folder}: no stored measurement of a claim; measure with: regard claims --out {folder}")
        for result in results:
            result.save(folder)
    else:
        results = []
        with TemporaryDirectory() as work:
            setup = Setup(Path(work), quick, seed, None if run is None else Path(run), say)
            for number, claim in enumerate(selected, start=1):
                say(f"[{number}/{len(selected)}] {claim.name}: {claim.title}")
                results.append(run_claim(claim, setup))
                results[-1].save(folder)
    write_page(folder)
    return results


def _opened(run: Run | str | Path, device: str = "auto") -> Run:
    return run if isinstance(run, Run) else load(run, device)


def _path(path: str | Path, argument: str) -> Path:
    if not isinstance(path, str | Path) or not str(path):
        raise ConfigError(argument, f"expected the name of a file or folder, got {path!r}")
    return Path(path)


def _as_list(texts: str | Texts) -> Sequence[str]:
    return [texts] if isinstance(texts, str) else texts


def _source(run: Run, data: SourceConfig | str | Path) -> SourceConfig:
    if isinstance(data, SourceConfig):
        return data
    if isinstance(data, str) and data in SPLITS:
        return run.source(data)
    return source_of_files(str(_path(data, "data")))


def _finite(value: object) -> object:
    """None for NaN and infinity, which JSON does not have."""
    return None if isinstance(value, float) and not isfinite(value) else value


def _snapshots(run: Run) -> list[Run]:
    """The run's complete checkpoints, the earliest first."""
    steps = sorted({step for step, _ in list_checkpoints(run.folder / CHECKPOINTS_FOLDER)})
    return [load(run.folder, str(run.device), f"step-{step}") for step in steps]


def _peak(recipe: Recipe) -> float | None:
    """The machine's measured FLOP/s in the precision of a run; None unless --verbose shows it."""
    if VERBOSITY.get() != "verbose":
        return None
    device = parse_device(recipe.train.device, "train.device").type
    return machine_peak(device, choose_precision(recipe.train.precision, device).dtype)
