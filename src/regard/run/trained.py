"""A trained run, opened from its folder: a `Trained` model that translates, generates and classifies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from regard.config.search_options import AS_NAMED
from regard.data.examples import Picture, Tagged
from regard.data.lines import plain_texts
from regard.data.sources import SourceConfig
from regard.decode import BeamConfig, Ensemble, GreedyConfig, SampleConfig
from regard.decode.search import AnySearch, search_with
from regard.decode.steppers import Backend, choose_backend, with_backends
from regard.errors import ConfigError, RunError
from regard.files.run_folder import (
    BEST,
    CHECKPOINTS_FOLDER,
    LABELS_FILE,
    LAST,
    RECIPE_FILE,
    STEP,
    TOKENIZER_FILE,
    is_run,
)
from regard.nn.fast.sdpa import disable_cudnn_attention
from regard.run.fingerprint import Fingerprint, changed_settings, identities, shown
from regard.run.recipe import Recipe, read_run_tree
from regard.tasks import MultiLabelConfig, Vocabularies
from regard.tasks.base import Verb
from regard.tasks.contract import as_stepper
from regard.tasks.generation import AnyInputs, Output, TextGenerator
from regard.tasks.multi_label import load_thresholds
from regard.tasks.trained import Trained
from regard.text.splitting import SplitTexts, Splitting, load_splitting
from regard.train import checkpoint
from regard.train.memory import BYTES_TO_USE, require_memory
from regard.train.parallel.processes import parse_device, set_current_device
from regard.train.parallel.state import load_weights

OTHER_THAN_TEXT = ("images", "captions", "tagged")
"""Contents of tasks that read images, or sentences with trees; also as text: file names, words."""


def read_run_recipe(folder: Path) -> Recipe:
    """The recipe a run was made with; RunError where the folder is no run."""
    if folder.is_file():
        raise RunError(f"{folder}: expected a run folder, got a file")
    if not folder.is_dir():
        raise RunError(f"{folder}: no such run folder; train one with: regard train RECIPE --out {folder}")
    if not is_run(folder):
        raise RunError(f"{folder}: not a run folder, it has no {RECIPE_FILE}")
    return Recipe.from_tree(read_run_tree(folder))


def read_vocabularies(recipe: Recipe, folder: Path) -> Vocabularies:
    """The vocabularies and labels in a run folder; RunError where the task needs labels and there are none."""
    vocabularies = Vocabularies.load(recipe.task.texts, folder)
    if recipe.task.has_classes and not vocabularies.labels:
        raise RunError(f"{folder / LABELS_FILE}: the labels of the run are missing; restore the file from a copy")
    if isinstance(recipe.task, MultiLabelConfig):
        return replace(vocabularies, thresholds=load_thresholds(folder, vocabularies.labels))
    return vocabularies


@dataclass(frozen=True)
class Run(Trained):
    """A trained model in its run folder, with the verbs of its task."""

    recipe: Recipe
    folder: Path

    @classmethod
    def open(cls, folder: Path, device: str = "auto", which: str = "best") -> "Run":
        """The run in a folder, with the weights of its best checkpoint (or `last`, or `step-N`)."""
        chosen = parse_device(device)
        set_current_device(chosen)
        disable_cudnn_attention()
        recipe = read_run_recipe(folder)
        recipe.check()
        vocabularies = read_vocabularies(recipe, folder)
        task = recipe.task.task(vocabularies)
        require_memory(task.num_params(recipe.model), torch.device("cpu"), BYTES_TO_USE)
        saved = checkpoint.load(_checkpoint_path(folder, which))
        _refuse_edited(folder, saved, vocabularies, recipe)
        model = task.build(recipe.model)
        load_weights(model, _served_weights(saved, folder))
        return cls(model.to(chosen).eval(), task, recipe, chosen, folder.name, saved.step, folder)

    def source(self, data: SourceConfig | str) -> SourceConfig:
        """A split of the run's recipe by its name, or other data; ConfigError where the recipe's folder is gone."""
        if not isinstance(data, str):
            return data
        source, folder = self.recipe.data.split(data), Path(self.recipe.data.folder or "")
        if not folder.is_dir() and any(not file.exists() for file in source.files(folder)):
            raise ConfigError(
                "data.folder",
                f"{folder} is no longer there; name other data with --data, or say where it is now: "
                f"regard train {self.folder / RECIPE_FILE} data.folder=… --out {self.folder} --resume",
            )
        return source

    def longest_with(self, others: Sequence["Run"]) -> int | None:
        """Most tokens of an input that all of several models were made for."""
        limits = [run.longest for run in (self, *others) if run.longest is not None]
        return min(limits, default=None)

    def but(self, **task: object) -> "Run":
        """The same run with some settings of its task changed, such as how unknown words are handled."""
        recipe = self.recipe.but(task=self.recipe.task.but(**task))
        recipe.check()
        return replace(self, recipe=recipe, task=recipe.task.task(self.task.vocabularies))

    def generator(self, *others: "Run") -> TextGenerator:
        """Generates text with this run's model, or with an ensemble of several runs' models."""
        steppers = [as_stepper(run.model) for run in (self, *others)]
        stepper = Ensemble(steppers) if others else steppers[0]
        self.require_same_vocabulary(others)
        generator = self.task.generator(
            stepper, self.device, self.longest_with(others), Path(self.recipe.data.folder or "")
        )
        backends = {id(run.model): run.backend.stepper for run in (self, *others)}
        return replace(generator, stepper=with_backends(generator.stepper, backends))

    def limit(self, search: AnySearch | None = None, others: Sequence["Run"] = ()) -> str | None:
        """A sentence where the model, or one of several, has fewer positions than the search may generate tokens."""
        if self.task.verb not in ("translate", "generate"):
            return None
        return self.generator(*others).limit(search or self.recipe.usual_search)

    @cached_property
    def backend(self) -> Backend:
        """The fastest decoding backend for the model and its device, and the reason for it."""
        return choose_backend(self.model, self.device)

    def require_same_vocabulary(self, others: Sequence["Run"]) -> None:
        for other in others:
            if identities(self.task.vocabularies) != identities(other.task.vocabularies):
                raise ConfigError(
                    "ensemble",
                    f"{self.folder} and {other.folder} have different vocabularies; train both with the same "
                    f"{TOKENIZER_FILE}",
                )

    def translate(
        self,
        texts: AnyInputs,
        search: AnySearch | None = None,
        others: Sequence["Run"] = (),
        cut: bool | None = None,
        split: bool = True,
    ) -> list[list[Output]]:
        """The translations of each text, best first.

        Texts of several sentences are translated sentence by sentence where the run was trained on sentences, unless
        `split` is false, and keep their layout. Sentences that are too long are `cut`, as in training unless said
        otherwise; OverlongError names the texts with one that is not to be.
        """
        self.require("translate")
        cut = self.cuts if cut is None else cut
        inputs, search, generator = self._inputs(texts), self._search(search), self.generator(*others)
        if not split or self.splitting is None:
            return generator.translate(inputs, search, cut=cut)
        parts = SplitTexts.of([str(text) for text in inputs], self.splitting)
        with parts.errors_by_text():
            return parts.join(generator.translate(parts.sentences, search, cut=cut))

    @cached_property
    def splitting(self) -> Splitting | None:
        """How texts of several sentences are split, if they are: as the run's training sources are."""
        return load_splitting(self.folder)

    def generate(self, prompts: Sequence[str], search: AnySearch | None = None) -> list[list[Output]]:
        """Continuations of each prompt, best first."""
        self.require("generate")
        return self.generator().generate(plain_texts(prompts), self._search(search), self.documents)

    def stream(self, prompt: str, search: AnySearch | None = None) -> Iterator[str]:
        """The continuation of a prompt, piece by piece."""
        self.require("generate")
        return self.generator().stream(plain_texts([prompt])[0], self._search(search), self.documents)

    def classify(self, texts: AnyInputs, cut: bool | None = None) -> list[dict[str, float] | None]:
        """The probability of each label for each text; those that are too long are `cut` as in training, or refused."""
        self.require("classify")
        cut = self.cuts if cut is None else cut
        return self.task.classify(self.model, self._inputs(texts), self.device, self.longest, cut)

    def _inputs(self, texts: AnyInputs) -> AnyInputs:
        """Checked inputs: texts, or images and sentences of treebanks where the task reads these."""
        accepted = (Tagged, Picture, bytes, Path) if self.recipe.task.content in OTHER_THAN_TEXT else ()
        if not accepted or isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
            return plain_texts(texts)
        inputs = list(texts)
        plain = plain_texts("" if isinstance(item, accepted) else item for item in inputs)
        return [item if isinstance(item, accepted) else text for item, text in zip(inputs, plain, strict=True)]

    def search_with(self, options: Mapping[str, object], called: Mapping[str, str] = AS_NAMED) -> AnySearch:
        """The run's own search with options on top, such as `{"n_best": 3}`; `called` is what the person calls them."""
        return search_with(self.recipe.usual_search, options, called)

    def _search(self, search: AnySearch | None) -> AnySearch:
        if search is None:
            return self.recipe.usual_search
        if not isinstance(search, GreedyConfig | BeamConfig | SampleConfig):
            raise ConfigError(
                "search", f"expected a GreedyConfig, BeamConfig or SampleConfig of regard.decode, got {search!r}"
            )
        return search

    def require(self, verb: Verb) -> None:
        if self.task.verb != verb:
            other = f"it can {self.task.verb}" if self.task.verb else "start another run from it"
            raise ConfigError("task", f"{self.folder} is a run of {self.recipe.task.kind} and cannot {verb}; {other}")


def _checkpoint_path(folder: Path, which: str) -> Path:
    """The checkpoint of that name; where no best one is marked, the newest that is whole."""
    if which not in (BEST, LAST) and not STEP.fullmatch(which):
        raise RunError(f"{folder}: expected the checkpoint {BEST}, {LAST} or step-N, got '{which}'")
    path = folder / CHECKPOINTS_FOLDER / which
    if which == "best" and not path.exists():
        latest, _ = checkpoint.latest(folder / CHECKPOINTS_FOLDER)
        if latest is None:
            raise RunError(
                f"{folder}: no checkpoint yet; train it with: "
                f"regard train {folder / RECIPE_FILE} --out {folder} --resume"
            )
        return latest
    return path


def _refuse_edited(folder: Path, saved: checkpoint.Checkpoint, vocabularies: Vocabularies, recipe: Recipe) -> None:
    """The weights belong to the vocabulary, labels and model settings that they were trained with."""
    fingerprint = Fingerprint.saved(saved)
    if fingerprint is None:
        return
    if changed := fingerprint.vocabulary_changes(vocabularies):
        raise RunError(
            f"{folder}: {' and '.join(changed)} changed since step {saved.step:,} was trained; restore it from a copy"
        )
    for path, old, new in changed_settings(fingerprint.recipe_of(folder), recipe):
        if path.startswith(("model.", "task.kind")):
            raise ConfigError(
                path,
                f"{folder / RECIPE_FILE} has {shown(new)}, but step {saved.step:,} was trained with {shown(old)}; "
                "restore the setting",
            )


def _served_weights(saved: checkpoint.Checkpoint, folder: Path) -> dict[str, torch.Tensor]:
    """The weights that a checkpoint says are to be used: the trained ones, or an average beside them."""
    serve = saved.state.get("serve", "model")
    weights = saved.model if serve == "model" else saved.extra.get(str(serve))
    if weights is None:
        raise RunError(f"{folder}: the checkpoint of step {saved.step} has no weights called '{serve}'")
    return weights
