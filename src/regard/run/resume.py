"""Whether a run may resume: recipe, data and vocabularies now, beside those that its checkpoint was trained with.

Data is compared by its contents, so it may have moved. Settings of `train` may change, each as far as the state of the
run allows. Whatever else changed is named and refused, or accepted with `--data-changed` where the weights still fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.store import Store
from regard.errors import ConfigError, RunError
from regard.files.run_folder import CHECKPOINTS_FOLDER, RECIPE_FILE, is_run
from regard.run.fingerprint import Fingerprint, changed_settings, shown
from regard.run.recipe import Recipe
from regard.run.trained import read_run_recipe
from regard.tasks import Vocabularies
from regard.train import checkpoint
from regard.train.budget import BudgetConfig, Spent
from regard.train.checkpoint import Checkpoint
from regard.train.loop import Trainer

FREE = ("data.folder", "data.train", "data.valid", "data.test", "search", "train")
"""Settings that may change: data is compared by its contents, and no weight depends on the others."""
FIXED = ("model", "start", "task.kind", "tokenizer")
"""Settings that weights and vocabularies were made with: another value needs another run."""
FLAG = "--data-changed"
NOT_COMPARED = "the checkpoint has no fingerprint, so nothing could be compared: data and tokenizer may have changed"


@dataclass(frozen=True)
class Resumption:
    """A run folder, the checkpoint to resume from, and what the run was trained with until then."""

    out: Path
    saved: Checkpoint | None
    fingerprint: Fingerprint | None
    before: Recipe | None
    """The recipe in force when the checkpoint was written; None where nothing tells it."""
    data_changed: bool = False
    """Whether other data than before is accepted."""

    @classmethod
    def of(cls, out: Path, saved: Checkpoint | None, data_changed: bool = False) -> "Resumption":
        """From a checkpoint's fingerprint; one without it is compared with its run's recipe."""
        fingerprint = Fingerprint.saved(saved) if saved is not None else None
        if fingerprint is None:
            before = read_run_recipe(out) if is_run(out) else None
            return cls(out, saved, None, before, data_changed)
        return cls(out, saved, fingerprint, fingerprint.recipe_of(out), data_changed)

    def check_recipe(self, recipe: Recipe) -> None:
        """Refuses settings that the run cannot change; before any data is read."""
        if self.saved is not None and "optimiser" not in self.saved.state:
            raise RunError(
                f"{self.out}: step {self.saved.step} was not saved by a run with these settings, but imported: it has "
                f"no state of training; start a new run from it with model.from={self.out}"
            )
        if self.before is None:
            return
        for path, old, new in changed_settings(self.before, recipe):
            if _below(path, FREE) or (self.data_changed and not _below(path, FIXED)):
                continue
            accepted = "" if _below(path, FIXED) else f", or accept it with {FLAG}"
            raise RunError(
                f"{self.out}: cannot resume with another {path} (was {shown(old)}, now {shown(new)}); take it from "
                f"{self.out / RECIPE_FILE}, or use a new --out{accepted}"
            )
        if self.saved is not None:
            self._check_optimiser(self.before, recipe, self.saved)
            self._check_budget(self.before, recipe, self.saved)

    def _check_optimiser(self, before: Recipe, recipe: Recipe, saved: Checkpoint) -> None:
        old, new = before.train.optimiser.kind, recipe.train.optimiser.kind
        if old != new:
            raise ConfigError(
                "train.optimiser",
                f"the checkpoint of step {saved.step} has the state of {old}, which {new} cannot use; keep {old}, or "
                f"start a new run with model.from={self.out}",
            )

    def _check_budget(self, before: Recipe, recipe: Recipe, saved: Checkpoint) -> None:
        """A budget that is smaller than what was used cannot be kept; one that is just used up is a finished run."""
        used = Spent.saved(saved.state.get("spent")).used
        for name in BudgetConfig.model_fields:
            limit = getattr(recipe.train, name)
            if limit is not None and limit != getattr(before.train, name) and used[name] > limit:
                raise ConfigError(
                    f"train.{name}",
                    f"expected at least the {used[name]:.6g} that {self.out} has used already, got {limit:.6g}",
                )

    def check_vocabulary(self, vocabularies: Vocabularies) -> list[str]:
        """What to say about a tokenizer or labels that changed, where that is accepted."""
        return self._refuse(self.fingerprint.vocabulary_changes(vocabularies) if self.fingerprint else [])

    def check_data(self, splits: Mapping[str, Store]) -> list[str]:
        """What to say about data that changed, where that is accepted."""
        if self.saved is not None and self.fingerprint is None:
            return [NOT_COMPARED]
        return self._refuse(self.fingerprint.data_changes(splits) if self.fingerprint else [])

    def same_validation(self, splits: Mapping[str, Store]) -> bool:
        """Whether scores on the validation data can be compared with those before."""
        return self.fingerprint is None or not self.fingerprint.data_changes({"valid": splits["valid"]})

    def _refuse(self, changes: Sequence[str]) -> list[str]:
        if not changes:
            return []
        step = self.saved.step if self.saved else 0
        problem = f"{' and '.join(changes)} changed since the checkpoint of step {step:,}"
        if self.data_changed:
            return [f"{problem}; accepted with {FLAG}"]
        raise RunError(f"{self.out}: {problem}; restore it, use a new --out, or accept the change with {FLAG}")

    def settings_changed(self, recipe: Recipe) -> list[str]:
        """One sentence about all settings that have changed, if any has."""
        changes = changed_settings(self.before, recipe) if self.before else ()
        listed = ", ".join(f"{path}={shown(new)} (was {shown(old)})" for path, old, new in changes)
        return [f"changed settings: {listed}"] if listed else []


def latest_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest whole checkpoint, and a sentence for each broken one, the best among them."""
    latest, problems = checkpoint.latest(folder)
    saved = checkpoint.load(latest) if latest else None
    if saved is not None and (problem := checkpoint.broken_best(folder, saved.step)):
        problems.append(f"{problem}; the best checkpoint is chosen anew, from step {saved.step:,} on")
        saved.state.update(best=None, best_step=saved.step, since_best=0)
    return saved, problems


def restore(trainer: Trainer, saved: Checkpoint, out: Path, same_validation: bool) -> None:
    """Restores a checkpoint; RunError where it was not written by a run like this one."""
    try:
        trainer.restore(saved, same_validation)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(
            f"{out / CHECKPOINTS_FOLDER}: step {saved.step} was not saved by a run with these settings ({error}); "
            "resume with the run's own recipe, or start from it in a new --out with model.from"
        ) from None


def _below(path: str, tables: Sequence[str]) -> bool:
    return any(path == table or path.startswith(f"{table}.") for table in tables)
