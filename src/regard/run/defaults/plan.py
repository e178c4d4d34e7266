"""A recipe made complete: what it leaves out follows from its task, its data, its budget and the machine.

`defaults → decided from the data → preset or model.from → recipe.toml → key=value`: what a recipe sets is kept, always.
The complete recipe is saved with its run and says `defaults = "fixed"`, so nothing is decided twice.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import torch

from regard.config import parse_override
from regard.config.shipped import recipe_file
from regard.config.values import Tree, is_list, is_table, table_of
from regard.errors import ConfigError, RegardError
from regard.files.run_folder import is_run
from regard.models import preset
from regard.run.defaults.cost import Machine
from regard.run.defaults.facts import Facts, survey
from regard.run.defaults.job import Decider, Decision, Job
from regard.run.defaults.rules import RULES
from regard.run.recipe import Recipe, pop_model_key, read_run_tree, recipe_tree, resolve_recipe, with_folder
from regard.run.unused_settings import unused
from regard.tasks import TaskConfig
from regard.train.parallel.processes import parse_device
from regard.train.precision import machine_peak

RULED = ("task", "tokenizer", "model", "train")
"""Tables that hold decided settings; of `data`, those of RULED_DATA."""
RULED_DATA = ("held_out", "max_length", "overlong", "batching")
NOMINAL = {"cpu": 1e11, "cuda": 6e14}
"""FLOP/s that several processes reckon with, which must all decide alike."""


def _rules(task: TaskConfig) -> Callable[[Job], None]:
    """The rules of a task; of one from a plugin, those of the task that it derives from, or none."""
    derived = [cls for cls in type(task).__mro__ if issubclass(cls, TaskConfig) and "kind" in cls.model_fields]
    names = [str(cls.model_fields["kind"].default) for cls in derived]
    return next((RULES[kind] for kind in names if kind in RULES), lambda job: None)


@dataclass(frozen=True)
class Plan:
    """A complete recipe, and what was decided for it."""

    recipe: Recipe
    decisions: tuple[Decision, ...] = ()
    minutes: float | None = None
    """How long training takes on this machine, about; None where that was not estimated."""
    facts: Facts | None = None
    below: Tree = field(default_factory=Tree)
    """The decided settings as a tree."""

    @property
    def announcement(self) -> str | None:
        """How long it will take, for people; None where the recipe says it, or nobody knows."""
        if self.minutes is None or self.facts is None:
            return None
        about = (
            f"{self.minutes:.0f} minutes" if self.minutes >= 1.5 else f"{max(1, round(self.minutes * 60)):d} seconds"
        )
        return f"{self.facts.amount}: about {about} on this machine; train.minutes=… changes it"


def plan_recipe(file: Path | None, overrides: Sequence[str] = (), run: Path | None = None) -> Plan:
    """The complete recipe of a file, or of a shipped one's name, with `key=value` settings on top, with its decisions.

    Of a run that resumes, what the recipe leaves out is as the run has it.
    """
    file = file if file is None else recipe_file(file)
    tree, overrides = recipe_tree(file, overrides) if file is not None else ({}, overrides)
    return plan_tree(tree, overrides, file.parent if file else Path(), run)


def plan_tree(tree: Tree, overrides: Sequence[str] = (), folder: Path = Path(), run: Path | None = None) -> Plan:
    """The same for a tree; names of files start at a folder."""
    stated = dict(_stated(tree, overrides))
    if stated.get("defaults") == "fixed":
        return Plan(with_folder(resolve_recipe(tree, overrides), folder))
    tree, overrides = _with_tables(tree, overrides)
    if run is not None and is_run(run):
        return Plan(complete(tree, overrides, _of_run(run), folder))
    problem = _problem(tree, overrides)
    try:
        surveyed = with_folder(resolve_recipe(*_only(tree, overrides, ("task", "data"))), folder)
        facts = survey(surveyed.task, surveyed.data)
    except RegardError:
        if problem is not None:
            raise problem from None
        raise
    named = stated.get("model.kind", stated.get("model"))
    kind = named if isinstance(named, str) else surveyed.task.usual_model
    job = Job(
        facts, _machine(str(stated.get("train.device", "auto"))), Decider(_with_model(tree, overrides, stated).items())
    )
    job.decide.kinds["task"] = surveyed.task.kind
    job.is_usual_model = kind == surveyed.task.usual_model and "model" not in job.decide.stated
    if job.is_usual_model:
        job.decide.kind("model", kind, f"the usual kind for {surveyed.task.kind}")
    try:
        _rules(surveyed.task)(job)
    except Exception:  # rules compute with stated values, which may be invalid
        if problem is not None:
            raise problem from None
        raise
    below = job.decide.tree()
    recipe = complete(tree, overrides, below, folder)
    while idle := {setting.path for setting in unused(recipe)} & {decision.path for decision in job.decide.decisions}:
        job.decide.withdraw(idle)
        below = job.decide.tree()
        recipe = complete(tree, overrides, below, folder)
    decisions = tuple(decision for decision in job.decide.decisions if _holds(recipe, decision))
    return Plan(recipe, decisions, None if "minutes" in job.limits else job.minutes, facts, below)


@dataclass
class Variants:
    """Recipes that differ only in what they state: what a file leaves out is decided once, for all of them."""

    common: Sequence[str]
    """Settings on top of every file."""
    budget: str | None = None
    """What each of them may spend, as a setting such as train.flops=1e12; the rules must know it."""
    _plans: dict[Path, Plan] = field(default_factory=dict[Path, Plan])

    def recipe(self, file: Path, variant: Sequence[str], last: Sequence[str]) -> Recipe:
        """The complete recipe of a file with the common settings, a variant's own, and the last on top of all."""
        if file not in self._plans:
            self._plans[file] = plan_recipe(file, [*self.common, *last, *([self.budget] if self.budget else [])])
        tree, settings = recipe_tree(file, [*self.common, *variant, *last])
        if dict(_stated(tree, settings)).get("defaults") == "fixed":
            return with_folder(resolve_recipe(tree, settings), file.parent)
        return complete(tree, settings, self._plans[file].below, file.parent)


def complete(tree: Tree, overrides: Sequence[str], below: Tree, folder: Path) -> Recipe:
    """A recipe on top of decided settings; nothing more is to be decided for it."""
    return with_folder(resolve_recipe(tree, overrides, below), folder).but(defaults="fixed")


def _stated(tree: Mapping[str, object], overrides: Sequence[str]) -> Iterator[tuple[str, object]]:
    """Paths and values of all that a recipe sets."""
    yield from _leaves(tree)
    for override in overrides:
        path, value = parse_override(override)
        below = _leaves(value, f"{'.'.join(path)}.") if is_table(value) and value else ()
        yield from below or [(".".join(path), value)]


def _with_tables(tree: Tree, overrides: Sequence[str]) -> tuple[Tree, list[str]]:
    """Tables given as `key={…}` as if the file had them: rules fill what they leave out there, too."""
    tree, rest = deepcopy(tree), list[str]()
    for override in overrides:
        path, value = parse_override(override)
        table: object = tree
        for name in path[:-1]:
            table = table.setdefault(name, {}) if is_table(table) else None
        above = [parse_override(one)[0] for one in rest]
        if is_table(value) and is_table(table) and not any(path[: len(one)] == one for one in above):
            table[path[-1]] = value
            rest = [one for one, below in zip(rest, above, strict=True) if below[: len(path)] != path]
        else:
            rest.append(override)
    return tree, rest


def _leaves(tree: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        if is_table(value) and value:
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _only(tree: Tree, overrides: Sequence[str], tables: Sequence[str]) -> tuple[Tree, list[str]]:
    """What a recipe says below some of its tables."""
    return (
        {key: value for key, value in tree.items() if key in tables},
        [override for override in overrides if parse_override(override)[0][0] in tables],
    )


def _problem(tree: Tree, overrides: Sequence[str]) -> ConfigError | None:
    """What is wrong with the recipe whatever the data is: to be said before the data is complained about."""
    try:
        resolve_recipe(tree, overrides)
    except ConfigError as error:
        return error
    return None


def _with_model(tree: Tree, overrides: Sequence[str], stated: Tree) -> Tree:
    """What is given, with what a preset or a run gives: that is not decided anew."""
    tree, rest, name = pop_model_key("preset", tree, overrides)
    _, _, run = pop_model_key("from", tree, rest)
    if name is None and run is None and "start.run" not in stated:
        return stated
    model: Mapping[str, object] = preset(name).model if name is not None else {}
    started = {} if name is not None and run is None else {"tokenizer": {}}
    return {**dict(_leaves(model, "model.")), **stated, "model": {}, **started}


def _of_run(run: Path) -> Tree:
    """The settings of a run that rules may have decided."""
    tree = read_run_tree(run)
    data = {name: value for name, value in table_of(tree, "data").items() if name in RULED_DATA}
    return {**{table: tree[table] for table in RULED if table in tree}, **({"data": data} if data else {})}


def _holds(recipe: Recipe, decision: Decision) -> bool:
    """Whether a decided value is in force."""
    value: object = recipe
    for name in decision.path.split("."):
        value = getattr(value, name, None)
    return value == (tuple(decision.value) if is_list(decision.value) else decision.value)


@cache
def _machine(setting: str) -> Machine:
    """The machine that a recipe trains on, measured for a moment."""
    device = parse_device(setting, "train.device")
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes > 1:
        return Machine(device.type, NOMINAL.get(device.type, 1e11), processes)
    half = device.type == "cuda" and torch.cuda.is_bf16_supported()
    peak = machine_peak(device, torch.bfloat16 if half else torch.float32)
    return Machine(device.type, float(f"{peak:.1g}"))
