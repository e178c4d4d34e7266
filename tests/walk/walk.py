"""The walk: each leaf in each situation that has it, changed; something changes, or one sentence refuses it."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from walk_corpus import write_corpus
from walk_hints import OTHER, STARTED, exempt, hints_for
from walk_leaves import SEARCH, Leaf, Tree, leaves, other_values
from walk_outcome import Outcome, Prepared, forget, train, use
from walk_situations import TRAIN, Situation, situations

from regard.config import layered
from regard.config.tree import kinds
from regard.errors import RegardError, RunError
from regard.run import Recipe
from regard.run.recipe import resolve_recipe


@dataclass
class Step:
    """One leaf in one situation."""

    leaf: Leaf
    situation: Situation
    result: str
    """acts, refused, exception, silent or broken."""
    detail: str = ""
    idle: list[str] = field(default_factory=list)
    """Parameters that the change made and that no gradient reaches."""

    @property
    def is_finding(self) -> bool:
        """Whether something must be mended."""
        return self.result in ("silent", "broken") or bool(self.idle)

    @property
    def sentence(self) -> str:
        """For people."""
        idle = f"; idle: {', '.join(self.idle[:3])}" if self.idle else ""
        return f"{self.leaf.name} in {self.situation.name}: {self.result}: {self.detail}{idle}"


class Try(NamedTuple):
    """What came of one value."""

    result: str
    detail: str
    idle: list[str] = []  # noqa: RUF012


class Walk:
    """Runs recipes once each."""

    def __init__(self, corpus: Path) -> None:
        self.corpus = corpus
        self.known: dict[str, tuple[Outcome, Path]] = {}
        self.prepared: dict[str, Prepared] = {}

    def outcome(self, tree: Tree, keep: bool = False) -> tuple[Outcome, Path]:
        """What a recipe does; kept where it is compared again."""
        tree = self.with_runs(tree)
        name = json.dumps(tree, sort_keys=True)
        if name in self.known:
            return self.known[name]
        found = train(tree, self.corpus)
        if keep:
            self.known[name] = found
        return found

    def with_runs(self, tree: Tree) -> Tree:
        """The tree with the folders of trained runs in the place of their names."""
        run = tree.get("start", {}).get("run")
        if run not in (STARTED, OTHER):
            return tree
        alone = {key: value for key, value in tree.items() if key not in ("start", "train")}
        alone["task"] = {key: value for key, value in tree["task"].items() if key != "reward"}
        alone |= {"train": {**TRAIN, "save_every": 1}, "seed": 1 if run == STARTED else 2}
        outcome, out = self.outcome(alone, keep=True)
        if outcome.refusal is not None:
            raise RunError(outcome.refusal)
        return {**tree, "start": {**tree["start"], "run": str(out)}}

    def can(self, situation: Situation) -> bool:
        """Whether the combination is trained at all."""
        return self.outcome(situation.tree(), keep=True)[0].refusal is None

    def close(self) -> None:
        """Removes what was kept for one situation."""
        for _, out in self.known.values():
            forget(out)
        self.known, self.prepared = {}, {}

    def step(self, leaf: Leaf, situation: Situation) -> Step:
        """Changes one leaf in one situation."""
        exception = exempt(leaf)
        if exception is not None and not exception.tried:
            return Step(leaf, situation, "exception", exception.why)
        step = self._step(leaf, situation)
        return (
            replace(step, result="exception", detail=exception.why) if exception and step.result == "silent" else step
        )

    def _step(self, leaf: Leaf, situation: Situation) -> Step:
        hints = hints_for(leaf)
        base = situation.tree()
        try:
            base = lay(base, leaf.base())
            for hint in hints:
                base = lay(base, _known(hint.base, situation))
            values, every = self.values(leaf, base, hints)
        except RegardError as error:
            refusal = self._refusal(leaf, situation)
            return Step(leaf, situation, "refused" if refusal else "broken", refusal or str(error))
        if not values:
            return Step(leaf, situation, "broken", "no other value is known; give one in walk_hints.py")
        results = [self._try(leaf, base, value) for value in values] if every else []
        if not every:
            for value in values:
                results.append(self._try(leaf, base, value))
                if results[-1].result == "acts":
                    break
        idle = [name for result in results for name in result.idle] if kinds(leaf.field.annotation) else []
        order = ["broken", "silent", "acts", "refused"] if every else ["broken", "acts", "silent", "refused"]
        result = next(name for name in order if name in [tried.result for tried in results])
        detail = "; ".join(tried.detail for tried in results if tried.result == result)
        return Step(leaf, situation, result, detail, idle)

    def _refusal(self, leaf: Leaf, situation: Situation) -> str | None:
        """The sentence that refuses the kinds on the way to a leaf, whatever stands beside them."""
        try:
            return self.outcome(lay(situation.tree(), leaf.base()), keep=True)[0].refusal
        except RegardError as error:
            return str(error)

    def glimpse(self, tree: Tree) -> Outcome:
        """What a model does before its first step, with data that is prepared once for all models."""
        recipe = resolve_recipe(tree)
        form = [getattr(recipe.model, name, None) for name in ("kind", "image", "channels")]
        name = json.dumps({**tree, "model": form}, sort_keys=True)
        if name not in self.prepared:
            self.prepared[name] = Prepared.of(recipe, self.corpus)
        return self.prepared[name].outcome(recipe)

    def values(self, leaf: Leaf, base: Tree, hints: list[Any]) -> tuple[list[Any], bool]:
        """Values to try, and whether each must act."""
        recipe = resolve_recipe(base)
        current: Any = recipe
        for key in leaf.keys:
            current = getattr(current, key, None)
        values, every = other_values(leaf, current)
        for hint in hints:
            if hint.values is not None:
                values = hint.values if isinstance(hint.values, list) else hint.values(current, recipe)
            every = hint.every if hint.every is not None else every
        return values, every

    def _try(self, leaf: Leaf, base: Tree, value: Any) -> Try:
        shown = json.dumps(value)
        try:
            changed = lay(base, leaf.setting(value))
            if leaf.section == "model" and len(leaf.path) > 1:
                before, after = self.glimpse(base), self.glimpse(changed)
                if not before.same(after):
                    return _judged(shown, before, after)
            return self._trained(shown, base, changed)
        except RegardError as error:
            return Try("refused", f"{shown}: {error}")
        except Exception as error:  # what is no sentence is a finding
            return Try("broken", f"{shown}: {type(error).__name__}: {error}")

    def _trained(self, shown: str, base: Tree, changed: Tree) -> Try:
        before, out = self.outcome(base, keep=True)
        after, other = self.outcome(changed)
        try:
            if before.same(after) and before.refusal is None:
                use(before, out)
                use(after, other)
                return (
                    Try("acts", f"{shown}: what the model says") if before.text != after.text else Try("silent", shown)
                )
            return _judged(shown, before, after)
        finally:
            forget(other)


def _judged(shown: str, before: Outcome, after: Outcome) -> Try:
    """What is said of two outcomes that are not the same, or both refused."""
    if after.refusal is not None:
        return Try("refused", f"{shown}: {after.refusal}")
    if before.refusal is not None:
        return Try("acts", f"{shown}: no longer refused")
    new = [name for name in after.idle if name not in before.idle]
    return Try("acts", f"{shown}: {', '.join(before.differences(after)[:3])}", new)


def lay(base: Tree, tree: Tree) -> Tree:
    """A tree on another; None takes a setting out."""
    found = layered(Recipe, deepcopy(base), _without_none(tree))
    _take_out(found, tree)
    return found


def _known(beside: Tree, situation: Situation) -> Tree:
    """What stands beside a leaf, without the parts that a kind of model does not have."""
    if "model" not in beside:
        return beside
    fields = kinds(Recipe.model_fields["model"].annotation)[situation.model].model_fields
    return {**beside, "model": {key: value for key, value in beside["model"].items() if key in fields}}


def _without_none(tree: Tree) -> Tree:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in tree.items()
        if value is not None
    }


def _take_out(found: Tree, tree: Tree) -> None:
    for key, value in tree.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict) and isinstance(found.get(key), dict):
            _take_out(found[key], value)


def walk_all(folder: Path, wanted: Callable[[Leaf, Situation], bool] = lambda leaf, situation: True) -> Iterator[Step]:
    """Every leaf in every situation that has it, or those that are wanted; files go into a folder."""
    corpus = folder / "corpus"
    corpus.mkdir()
    write_corpus(corpus)
    walk, every = Walk(corpus), [leaf for leaf in leaves() if leaf.section != SEARCH]
    for situation in situations():
        mine = [leaf for leaf in every if situation.walks(leaf) and wanted(leaf, situation)]
        if mine and walk.can(situation):
            yield from (walk.step(leaf, situation) for leaf in mine)
        walk.close()
