"""A trained run, reopened: its recipe, its vocabularies and its weights, ready to be used."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.config import read_toml
from regard.config.search_options import AS_NAMED
from regard.data.examples import Picture, Tagged
from regard.data.readers.lines import plain_texts
from regard.data.sources import SourceConfig
from regard.decode import BeamConfig, Ensemble, GreedyConfig, SampleConfig
from regard.decode.search import AnySearch, search_with
from regard.decode.steppers import Backend, choose_backend, with_backends
from regard.errors import ConfigError, RunError
from regard.files.run_folder import BEST, CHECKPOINTS_FOLDER, LABELS_FILE, LAST, RECIPE_FILE, STEP, is_run
from regard.run.fingerprint import Fingerprint, changed_settings, shown
from regard.run.recipe import Recipe
from regard.tasks import Task, Vocabularies
from regard.tasks.base import Verb
from regard.tasks.generation import Output, TextGenerator
from regard.text.splitting import SplitTexts, Splitting, load_splitting
from regard.train import checkpoint
from regard.train.memory import BYTES_TO_USE, require_memory
from regard.train.parallel.processes import parse_device, set_current_device
from regard.train.parallel.state import load_weights

OTHER_THAN_TEXT = ("images", "captions", "tagged")
"""Contents of tasks whose models read images, or sentences with their trees; also as texts: names of files, words."""


def read_run_recipe(folder: Path) -> Recipe:
    """The recipe a run was made with; RunError where the folder is no run."""
    if folder.is_file():
        raise RunError(f"{folder}: expected a run folder, got a file")
    if not folder.is_dir():
        raise RunError(f"{folder}: no such run folder; train one with: regard train RECIPE --out {folder}")
    if not is_run(folder):
        raise RunError(f"{folder}: not a run folder, it has no {RECIPE_FILE}")
    return Recipe.from_tree(read_toml(folder / RECIPE_FILE))


def read_vocabularies(recipe: Recipe, folder: Path) -> Vocabularies:
    """The vocabularies and labels in a run folder; RunError where the task needs labels and there are none."""
    vocabularies = Vocabularies.load(recipe.task.texts, folder)
    if recipe.task.has_classes and not vocabularies.labels:
        raise RunError(f"{folder / LABELS_FILE}: the labels of the run are missing; restore the file from a copy")
    return vocabularies


@dataclass(frozen=True)
class Run:
    """A trained model and all that belongs to it."""

    folder: Path
    recipe: Recipe
    task: Task
    model: nn.Module
    step: int
    device: torch.device

    @classmethod
    def open(cls, folder: Path, device: str = "auto", which: str = "best") -> "Run":
        """The run in a folder, with the weights of its best checkpoint (or `last`, or `step-N`)."""
        where = parse_device(device)
        set_current_device(where)
        recipe = read_run_recipe(folder)
        recipe.check()
        vocabularies = read_vocabularies(recipe, folder)
        task = recipe.task.task(vocabularies)
        require_memory(task.num_params(recipe.model), torch.device("cpu"), BYTES_TO_USE)
        saved = checkpoint.load(_chosen(folder, which))
        _refuse_edited(folder, saved, vocabularies, recipe)
        model = task.build(recipe.model)
        load_weights(model, _served(saved, folder))
        return cls(folder, recipe, task, model.to(where).eval(), saved.step, where)

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @cached_property
    def longest(self) -> int | None:
        """Most tokens of an input that the model was made for; None where the task cuts longer ones itself."""
        return self.recipe.longest_input

    def source(self, data: SourceConfig | str) -> SourceConfig:
        """A split of the run's recipe by its name, or other data; ConfigError where the recipe's folder is gone."""
        if not isinstance(data, str):
            return data
        source, folder = self.recipe.data.split(data), Path(self.recipe.data.folder or "")
        if not folder.is_dir() and any(not file.exists() for file in source.files(folder)):
            raise ConfigError(
                "data.folder",
                f"{folder} is no longer there; name other data with --data, or say where it lies now: "
                f"regard train {self.folder / RECIPE_FILE} data.folder=… --out {self.folder} --resume",
            )
        return source

    def longest_with(self, others: Sequence["Run"]) -> int | None:
        """Most tokens of an input that each of several models was made for."""
        limits = [run.longest for run in (self, *others) if run.longest is not None]
        return min(limits, default=None)

    def but(self, **task: Any) -> "Run":  # noqa: ANN401
        """The same run with some settings of its task changed, such as what becomes of unknown words."""
        recipe = self.recipe.but(task=self.recipe.task.but(**task))
        recipe.check()
        return replace(self, recipe=recipe, task=recipe.task.task(self.task.vocabularies))

    def generator(self, *others: "Run") -> TextGenerator:
        """What writes text with this run's model, or with several runs' models together."""
        steppers: list[Any] = [self.model, *(other.model for other in others)]
        stepper = self.model if not others else Ensemble(steppers)
        self.refuse_strangers(others)
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
        """The model as it writes quickest where it is, and why in this way."""
        return choose_backend(self.model, self.device)

    def refuse_strangers(self, others: Sequence["Run"]) -> None:
        """Only runs with one vocabulary write together."""
        for other in others:
            _same_vocabulary(self, other)

    @property
    def cuts(self) -> bool:
        """Whether inputs that are too long are cut, as in training."""
        return self.recipe.data.overlong == "cut"

    def translate(
        self,
        texts: Sequence[str],
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
        given, search, generator = self._given(texts), self._search(search), self.generator(*others)
        if not split or self.splitting is None:
            return generator.translate(given, search, cut=cut)
        divided = SplitTexts.of(given, self.splitting)
        with divided.errors_by_text():
            return divided.join(generator.translate(divided.sentences, search, cut=cut))

    @cached_property
    def splitting(self) -> Splitting | None:
        """How texts of several sentences are split, if they are: as the run's training sources are."""
        return load_splitting(self.folder)

    def generate(self, prompts: Sequence[str], search: AnySearch | None = None) -> list[list[Output]]:
        """What the model writes after each prompt."""
        self.require("generate")
        return self.generator().generate(plain_texts(prompts), self._search(search), self.documents)

    def stream(self, prompt: str, search: AnySearch | None = None) -> Iterator[str]:
        """What the model writes after a prompt, as it comes."""
        self.require("generate")
        return self.generator().stream(plain_texts([prompt])[0], self._search(search), self.documents)

    def classify(self, texts: Sequence[str], cut: bool | None = None) -> list[dict[str, float] | None]:
        """The probability of each label for each text; those that are too long are `cut` as in training, or refused."""
        self.require("classify")
        cut = self.cuts if cut is None else cut
        return self.task.classify(self.model, self._given(texts), self.device, self.longest, cut)

    @property
    def documents(self) -> bool:
        """Whether a language model learnt where texts begin and end, or read one running text."""
        train = self.recipe.data.train
        return train is None or not train.is_running_text

    def _given(self, texts: Sequence[Any]) -> list[Any]:
        """What a model is to read: texts, or images and sentences of treebanks where the task reads these."""
        read = (Tagged, Picture, bytes, Path) if self.recipe.task.content in OTHER_THAN_TEXT else ()
        if not read or isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
            return plain_texts(texts)
        inputs = list(texts)
        plain = plain_texts("" if isinstance(one, read) else one for one in inputs)
        return [one if isinstance(one, read) else text for one, text in zip(inputs, plain, strict=True)]

    def search_with(self, options: Mapping[str, Any], called: Mapping[str, str] = AS_NAMED) -> AnySearch:
        """The run's own search with options on top, such as `{"n_best": 3}`; `called` is what the person calls them."""
        return search_with(self.recipe.usual_search, options, called)

    def _search(self, search: AnySearch | None) -> AnySearch:
        """A search, or the run's usual one; anything else is refused before a model is asked."""
        if search is None:
            return self.recipe.usual_search
        if not isinstance(search, GreedyConfig | BeamConfig | SampleConfig):
            raise ConfigError(
                "search", f"expected a GreedyConfig, BeamConfig or SampleConfig of regard.decode, got {search!r}"
            )
        return search

    def require(self, verb: Verb) -> None:
        """Refuses what the run's task cannot do."""
        if self.task.verb != verb:
            other = f"it can {self.task.verb}" if self.task.verb else "start another run from it"
            raise ConfigError("task", f"{self.folder} is a run of {self.recipe.task.kind} and cannot {verb}; {other}")


def _chosen(folder: Path, which: str) -> Path:
    """The checkpoint of that name; where no best one was marked, the newest that is whole."""
    if which not in (BEST, LAST) and not STEP.fullmatch(which):
        raise RunError(f"{folder}: expected the checkpoint {BEST}, {LAST} or step-N, got '{which}'")
    path = folder / CHECKPOINTS_FOLDER / which
    if which == "best" and not path.exists():
        newest, _ = checkpoint.newest(folder / CHECKPOINTS_FOLDER)
        if newest is None:
            raise RunError(
                f"{folder}: no checkpoint yet; train it with: "
                f"regard train {folder / RECIPE_FILE} --out {folder} --resume"
            )
        return newest
    return path


def _refuse_edited(folder: Path, saved: checkpoint.Checkpoint, vocabularies: Vocabularies, recipe: Recipe) -> None:
    """Weights mean what they were trained as: with this vocabulary, these labels, this model."""
    kept = Fingerprint.saved(saved)
    if kept is None:
        return
    if changed := kept.vocabulary_changes(vocabularies):
        raise RunError(
            f"{folder}: {' and '.join(changed)} changed since step {saved.step:,} was trained; restore it from a copy"
        )
    for path, old, new in changed_settings(kept.recipe_of(folder), recipe):
        if path.startswith(("model.", "task.kind")):
            raise ConfigError(
                path,
                f"{folder / RECIPE_FILE} has {shown(new)}, but step {saved.step:,} was trained with {shown(old)}; "
                "restore the setting",
            )


def _served(saved: checkpoint.Checkpoint, folder: Path) -> dict[str, torch.Tensor]:
    """The weights that a checkpoint says are to be used: its own, or an average that it holds as well."""
    serve = saved.state.get("serve", "model")
    found = saved.model if serve == "model" else saved.extra.get(str(serve))
    if found is None:
        raise RunError(f"{folder}: the checkpoint of step {saved.step} has no weights called '{serve}'")
    return found


def _same_vocabulary(one: Run, other: Run) -> None:
    mine = {name: tokenizer.identity for name, tokenizer in one.task.vocabularies.tokenizers.items()}
    theirs = {name: tokenizer.identity for name, tokenizer in other.task.vocabularies.tokenizers.items()}
    if mine != theirs:
        raise ConfigError(
            "ensemble",
            f"{one.folder} and {other.folder} have different vocabularies; train both with the same tokenizer.json",
        )
