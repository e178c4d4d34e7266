"""`regard.train` and `regard.compare`: on rows from memory, tables, files or a recipe."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard import api
from regard.api.memory import as_splits, file_names, roles_of, write_again, write_rows
from regard.api.runs import Run
from regard.api.settings import as_overrides, in_python
from regard.compare import Comparison
from regard.config import dump_toml, kinds
from regard.config.plugins import load_plugins
from regard.config.shipped import shipped
from regard.data.columns import Content
from regard.data.guess.columns import CONTENTS, GuessOptions
from regard.data.guess.task import guess_data
from regard.data.sources import SourceConfig
from regard.errors import ConfigError
from regard.files.run_folder import DATA_FOLDER, LOCK_FILE, is_run
from regard.run.defaults.plan import plan_tree
from regard.run.recipe import Recipe
from regard.run.training import refuse_mixing
from regard.train.monitor import Callback, Quiet


def train(
    data: object,
    *,
    out: str | Path,
    task: str | Mapping[str, object] | None = None,
    valid: object = None,
    test: object = None,
    source: str | None = None,
    target: str | None = None,
    text: str | None = None,
    label: str | None = None,
    resume: bool = False,
    data_changed: bool = False,
    on_step: Callback | None = None,
    on_validation: Callback | None = None,
    quiet: bool = False,
    **settings: object,
) -> Run:
    """Trains a model on data into a folder, and returns the run.

    `data`: a list of `(source, target)`, of `(text, label)` or of texts, a dict of columns, a table of Arrow or pandas,
    a Hugging Face dataset; names of files; or a recipe. Rows from memory are kept in the run's folder. `source`,
    `target`, `text` and `label` name columns where they cannot be told. Without `valid`, a part of the data is held
    out. Whatever is not set is decided from data and budget, as by `regard train`.

    Settings are those of recipes: `train={"steps": 100}`, `train__steps=100` or `**{"train.steps": 100}`.

    `resume` continues from the newest checkpoint in the folder, and does nothing where training has finished.
    `on_step` and `on_validation` are called with the values of a line of metrics.jsonl and `progress`, the share of the
    budget that is used; an error in one saves the run, stops it and is raised.

    >>> import regard
    >>> films = [(f"a {word} film, number {n}", word) for n in range(30) for word in ("good", "bad")]
    >>> losses = []
    >>> run = regard.train(
    ...     films, task="classification", out="runs/films", train__steps=3, quiet=True,
    ...     on_step=lambda line: losses.append(line["loss"]),
    ... )
    >>> run.classify("a good film") in ("good", "bad"), len(losses)
    (True, 3)
    """
    folder, overrides, watcher = Path(out), as_overrides(settings), Quiet() if quiet else None
    with in_python(), _data_folder(folder):
        recipe = _recipe_of(data)
        if recipe is None:
            refuse_mixing(folder, resume)
            plugins, overrides = load_plugins({}, overrides, Path())
            options = GuessOptions(_kind(task), text, label, source, target)
            written = _written(data, valid, test, task, options, folder / DATA_FOLDER, resume and not data_changed)
            recipe = plan_tree({**plugins, **written}, overrides, run=folder if resume else None)
            overrides = []
        elif valid is not None or test is not None or source or target or text or label:
            raise ConfigError("data", "a recipe names its own data and columns; change them with settings")
        elif task is not None:
            overrides += as_overrides({"task": task})
        opened = api.train(
            recipe, *overrides, out=folder, resume=resume, data_changed=data_changed, watcher=watcher,
            on_step=on_step, on_validation=on_validation,
        )  # fmt: skip
    return Run(opened)


def compare(
    variants: Mapping[str, Mapping[str, object]] | str | Path | Sequence[str | Path],
    data: object = None,
    *,
    out: str | Path,
    task: str | Mapping[str, object] | None = None,
    valid: object = None,
    test: object = None,
    seeds: int | None = None,
    budget: str | None = None,
    tune: bool | None = None,
    **settings: object,
) -> Comparison:
    """Trains variants with equal budgets and several seeds; the table says which differ significantly.

    `variants` are settings by name, on top of a recipe or of data, as `train` takes them; or a sweep file, or several
    recipes. Further settings hold for all. Runs that are complete in the folder are not trained again.

    >>> import regard
    >>> table = regard.compare(
    ...     {"learned": {"model.position": "learned"}, "none": {"model.position": "none"}},
    ...     data="reviews", out="runs/positions", seeds=1, budget="steps=2",
    ... )
    >>> [row.name for row in table.rows], table.metric
    (['learned', 'none'], 'accuracy')
    """
    overrides = as_overrides(settings)
    with in_python(), TemporaryDirectory() as folder, _data_folder(Path(out)):
        if isinstance(variants, Mapping):
            recipe = _recipe_of(data)
            if recipe is None:
                load_plugins({}, overrides, Path())
                recipe = Path(folder) / "recipe.toml"
                written = _written(data, valid, test, task, GuessOptions(_kind(task)), Path(out) / DATA_FOLDER, True)
                recipe.write_text(dump_toml(written), encoding="utf-8")
            base = str(recipe) if str(recipe) in shipped() else str(Path(str(recipe)).absolute())
            rows = {name: as_overrides(changes) for name, changes in variants.items()}
            sweep = Path(folder) / "sweep.toml"
            sweep.write_text(dump_toml({"base": base, "variants": rows}), encoding="utf-8")
            return api.compare(sweep, *overrides, out=out, seeds=seeds, budget=budget, tune=tune)
        if data is not None:
            raise ConfigError("data", "belongs to variants that are settings by name; files of recipes have their own")
        return api.compare(variants, *overrides, out=out, seeds=seeds, budget=budget, tune=tune)


# Data


def _recipe_of(data: object) -> Recipe | Path | None:
    """The recipe that data is, if it is one: a Recipe, a TOML file, or the name of a shipped one."""
    if isinstance(data, Recipe):
        return data
    if not isinstance(data, str | Path) or (isinstance(data, str) and (len(data) > 500 or "\n" in data)):
        return None
    path = Path(data)
    is_recipe = path.suffix == ".toml" or (not path.suffix and len(path.parts) == 1 and not path.exists())
    return path if is_recipe else None


def _kind(task: str | Mapping[str, object] | None) -> str | None:
    """The task by which columns are guessed; those of plugins are not known by then."""
    kind = task.get("kind") if isinstance(task, Mapping) else task
    return kind if isinstance(kind, str) and kind in CONTENTS else None


def _written(
    data: object,
    valid: object,
    test: object,
    task: str | Mapping[str, object] | None,
    options: GuessOptions,
    folder: Path,
    again: bool,
) -> dict[str, Any]:
    """The recipe of data that is no recipe: its rows written into a folder, its task and columns guessed.

    With `again`, rows that are there already must be the same.
    """
    parts = {**as_splits(data), **{name: part for name, part in (("valid", valid), ("test", test)) if part is not None}}
    content, files = _content(task), {split: file_names(part) for split, part in parts.items()}
    base = Path() if all(files.values()) else folder
    sources, guessed = dict[str, SourceConfig](), ""
    for split, part in parts.items():
        paths, columns = files[split], options
        if paths is None:
            paths = [base / f"{split}.jsonl"]
            write = write_again if again and paths[0].is_file() else write_rows
            names = write(part, paths[0], content, "data" if split == "train" else split)
            columns = replace(options, **{**roles_of(names, content), **options.columns})
        guess = guess_data(paths, base, columns)
        sources |= guess.sources if split == "train" else {split: guess.sources["train"]}
        guessed = guessed or guess.task
    trees = {split: _tree(source) for split, source in sources.items()}
    kind = guessed if task is None else task
    return {"task": kind, "data": {"folder": str(base.resolve()), **trees}}


def _content(task: str | Mapping[str, object] | None) -> Content | None:
    kind = task.get("kind") if isinstance(task, Mapping) else task
    member = kinds(Recipe.model_fields["task"].annotation).get(str(kind))
    return None if member is None else member.content  # type: ignore[attr-defined]


def _tree(source: SourceConfig) -> dict[str, Any]:
    return {name: value for name, value in source.tree().items() if name in source.model_fields_set}


@contextmanager
def _data_folder(out: Path) -> Iterator[None]:
    """An error before training has begun leaves no folder behind, as `train_run` leaves none."""
    made = [path for path in (out / DATA_FOLDER, out, *out.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        if made and not is_run(out):
            shutil.rmtree(out / DATA_FOLDER, ignore_errors=True)
            with suppress(OSError):  # a folder that holds something stays
                if out in made and [path.name for path in out.iterdir()] == [LOCK_FILE]:
                    (out / LOCK_FILE).unlink()
                for path in made[1:] if made[0] == out / DATA_FOLDER else made:
                    path.rmdir()
        raise
