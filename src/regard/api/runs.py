"""The objects of `import regard`: train or load a run, use it, look inside it.

The examples below run on the three runs of the tour: `runs/pairs`, `runs/reviews` and `runs/text`.
"""

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypedDict, Unpack, overload

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from regard import api
from regard.api.inside import Attention, Hidden, Logits, Look, attention_of, hidden_of, logits_of
from regard.api.memory import file_names, roles_of, write_rows
from regard.api.settings import in_python
from regard.config.plugins import allow_plugins
from regard.data.guess.columns import CONTENTS, GuessOptions
from regard.data.guess.task import guess_data
from regard.data.lines import plain_texts
from regard.data.settings import SPLITS
from regard.data.sources import SourceConfig
from regard.export.parity import Parity
from regard.files.run_folder import METRICS_FILE
from regard.look.activations import PartName, patched
from regard.run.recipe import Recipe
from regard.run.scoring import Report
from regard.run.trained import Run as OpenedRun
from regard.tasks import TaskConfig
from regard.train.log import read_metrics

Texts = list[str] | tuple[str, ...]


class SearchOptions(TypedDict, total=False):
    """How text is generated, on top of the run's own search."""

    beam: int
    length_penalty: float
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int
    max_length: int


class Run:
    """A trained run: its verbs, its scores, and what its model computes inside.

    >>> import regard
    >>> regard.load("runs/reviews")
    Run('runs/reviews': classification, encoder, ... parameters, step ...)
    """

    def __init__(self, opened: OpenedRun) -> None:
        self.opened = opened
        """The run as the other modules of regard know it: recipe, task, tokenizers, device."""

    @property
    def folder(self) -> Path:
        return self.opened.folder

    @property
    def recipe(self) -> Recipe:
        """All settings that the run was trained with."""
        return self.opened.recipe

    @property
    def step(self) -> int:
        """The step of the checkpoint that the weights are from."""
        return self.opened.step

    @property
    def model(self) -> nn.Module:
        return self.opened.model

    @property
    def metrics(self) -> Any:  # noqa: ANN401
        """The lines of metrics.jsonl: a pandas DataFrame where pandas is installed, else a list of dicts.

        >>> import regard
        >>> lines = regard.load("runs/reviews").metrics
        >>> len(lines) > 2
        True
        """
        lines = read_metrics(self.folder / METRICS_FILE)
        if importlib.util.find_spec("pandas") is None:
            return lines
        return importlib.import_module("pandas").DataFrame(lines)

    def __repr__(self) -> str:
        recipe, params = self.recipe, sum(parameter.numel() for parameter in self.model.parameters())
        what = f"{recipe.task.kind}, {recipe.model.kind}, {params:,} parameters, step {self.step:,}"
        return f"Run('{self.folder}': {what})"

    # Verbs

    @overload
    def translate(self, texts: str, *, split: bool = True, **search: Unpack[SearchOptions]) -> str: ...
    @overload
    def translate(self, texts: Texts, *, split: bool = True, **search: Unpack[SearchOptions]) -> list[str]: ...
    def translate(self, texts: str | Texts, *, split: bool = True, **search: Unpack[SearchOptions]) -> str | list[str]:
        """The translation or the summary of a text, or of each text of a list.

        A run that was trained on sentences translates a text sentence by sentence, unless `split` is false.

        >>> import regard
        >>> run = regard.load("runs/pairs")
        >>> german = run.translate("The dog sleeps.")
        >>> several = run.translate(["The dog sleeps.", "The cat sees a bird."], beam=2)
        >>> type(german).__name__, len(several)
        ('str', 2)
        """
        rows = self.opened.translate(_listed(texts), self._search(search), split=split)
        outputs = [row[0].text for row in rows]
        return outputs[0] if isinstance(texts, str) else outputs

    @overload
    def generate(self, prompts: str, **search: Unpack[SearchOptions]) -> str: ...
    @overload
    def generate(self, prompts: Texts, **search: Unpack[SearchOptions]) -> list[str]: ...
    def generate(self, prompts: str | Texts, **search: Unpack[SearchOptions]) -> str | list[str]:
        """The continuation of a prompt, or of each prompt of a list.

        >>> import regard
        >>> run = regard.load("runs/text")
        >>> once = run.generate("The dog", max_length=20, temperature=0.7, seed=3)
        >>> once == run.generate("The dog", max_length=20, temperature=0.7, seed=3)
        True
        """
        outputs = [row[0].text for row in self.opened.generate(_listed(prompts), self._search(search))]
        return outputs[0] if isinstance(prompts, str) else outputs

    @overload
    def classify(self, texts: str) -> str | None: ...
    @overload
    def classify(self, texts: Texts) -> list[str | None]: ...
    def classify(self, texts: str | Texts) -> str | list[str | None] | None:
        """The likeliest label of a text, or of each text of a list; None for a blank one.

        >>> import regard
        >>> run = regard.load("runs/reviews")
        >>> run.classify("What a dull film!") in ("negative", "positive")
        True
        """
        return api.classify(self.opened, texts)

    def evaluate(self, data: object = None) -> Report:
        """The scores on `train`, `valid` or `test`, on files, or on data from memory.

        Without data: on the test data that the recipe names, else on the validation data.

        >>> import regard
        >>> run = regard.load("runs/reviews")
        >>> sorted(run.evaluate().metrics)[:2]
        ['accuracy', 'loss']
        >>> run.evaluate([("What a dull film!", "negative")]).examples
        1
        """
        if data is None:
            data = "valid" if self.recipe.data.test is None else "test"
        if isinstance(data, str) and data in SPLITS:
            return api.evaluate(self.opened, data)
        with in_python(), TemporaryDirectory() as folder:
            task, paths = self.recipe.task, file_names(data)
            names = {} if self.recipe.data.train is None else _columns_of(self.recipe.data.train)
            if paths is None:
                paths = [Path(folder) / "test.jsonl"]
                columns = write_rows(data, paths[0], task.content)
                names = names if names and {*names.values()} <= {*columns} else roles_of(columns, task.content)
            return api.evaluate(self.opened, _source(paths, names, task).from_here())

    def export(self, to: str, out: str | Path, *, int8: bool = False) -> Parity:
        """Writes the model for other programs (`huggingface`, `ctranslate2`, `onnx`), and checks it against this one.

        >>> import regard
        >>> regard.load("runs/text").export("huggingface", "exported").problems()
        []
        """
        return api.export(self.opened, to, out, int8=int8)

    # Inside

    def attention(self, text: str, target: str | None = None) -> Attention:
        """The attention weights of every layer and head, as numpy arrays with their tokens.

        `target` is what the model is to generate; without it, it generates by itself.

        >>> import regard
        >>> attention = regard.load("runs/pairs").attention("The dog sleeps.", target="Der Hund schläft.")
        >>> attention.encoder.weights.ndim, attention.cross.weights.shape[:2] == attention.decoder.weights.shape[:2]
        (4, True)
        """
        return attention_of(self.opened, _one(text), target)

    def logits(self, text: str, target: str | None = None) -> Logits:
        """The logits at each position of the target, or of each label.

        >>> import regard
        >>> logits = regard.load("runs/pairs").logits("The dog sleeps.", target="Der Hund schläft.")
        >>> logits.values.shape == (len(logits.tokens), len(logits.names))
        True
        """
        return logits_of(self.opened, _one(text), target)

    def hidden(self, text: str, target: str | None = None) -> Hidden:
        """The hidden vectors after each layer, at each position.

        >>> import regard
        >>> hidden = regard.load("runs/pairs").hidden("The dog sleeps.")
        >>> hidden.encoder.shape[0], hidden.decoder.shape[0]     # 1 + layers
        (4, 3)
        """
        return hidden_of(self.opened, _one(text), target)

    @contextmanager
    def patch(
        self,
        part: PartName,
        layer: int,
        head: int | None = None,
        position: int | Sequence[int] | None = None,
        value: ArrayLike | None = None,
    ) -> Iterator[Self]:
        """Replaces the output of a head or of a whole layer while the `with` block lasts; by zeros without a value.

        `position` limits it to some tokens, counted from 0. `value` is one vector, or a row for each position, such as
        the hidden vectors of another text. All of the run's methods are affected.

        >>> import regard
        >>> run = regard.load("runs/reviews")
        >>> before, other = run.logits("What a dull film!"), run.hidden("What a great film!")
        >>> with run.patch("encoder", layer=0, head=0):
        ...     ablated = run.logits("What a dull film!")
        >>> bool((ablated.values != before.values).any())
        True
        >>> with run.patch("encoder", layer=0, value=other.encoder[1]):
        ...     swapped = run.logits("What a dull film!")
        >>> bool(abs(swapped.values - run.logits("What a great film!").values).max() < 1e-5)
        True
        """
        vector = None if value is None else torch.from_numpy(np.array(value, dtype=np.float32))
        positions = [position] if isinstance(position, int) else position
        before = self.opened
        with patched(self.model, part, layer, head, positions, vector):
            self.opened = replace(before)  # chooses its decoding backend anew: only some call the hooks
            try:
                yield self
            finally:
                self.opened = before

    def look(self, text: str, target: str | None = None, *, against: "Run | None" = None, **options: Any) -> Look:  # noqa: ANN401
        """The page about one text, which a notebook shows; `against` puts another run beside this one.

        Further options are those of `regard.look.TraceConfig`, such as `beam=4`.

        >>> import regard
        >>> run = regard.load("runs/reviews")
        >>> run.look("What a dull film!").html.startswith("<!doctype html>")
        True
        """
        other = None if against is None else against.opened
        return Look(text, api.look(self.opened, text, target, against=other, **options))

    def _search(self, options: SearchOptions) -> Any:  # noqa: ANN401
        changes: dict[str, object] = {("size" if name == "beam" else name): value for name, value in options.items()}
        return self.opened.search_with({**changes, "n_best": 1}, {"size": "beam"})


def load(
    folder: str | Path, *, device: str = "auto", checkpoint: str = "best", plugins: Sequence[str | Path] = ()
) -> Run:
    """A trained run, with the weights of its best checkpoint (or `last`, or `step-N`).

    `plugins` are the Python files with kinds of your own that it was trained with; they are run as code.

    >>> import regard
    >>> run = regard.load("runs/pairs", checkpoint="last")
    >>> run.folder.name
    'pairs'
    """
    allow_plugins(map(str, plugins))
    return Run(api.load(folder, device, checkpoint))


def _source(paths: Sequence[Path], columns: Mapping[str, str | int], task: TaskConfig) -> SourceConfig:
    """Data to test on: its columns are those of the training data where they are known."""
    if len(paths) == 2 and task.content == "pairs":
        return SourceConfig(source=str(paths[0]), target=str(paths[1]))
    if len(paths) == 1 and (columns or task.content == "text"):
        return SourceConfig.from_tree({"file": str(paths[0]), **columns})
    return guess_data(paths, Path(), GuessOptions(task.kind if task.kind in CONTENTS else None)).sources["train"]


def _columns_of(source: SourceConfig) -> dict[str, str | int]:
    roles = ("source", "target", "text", "label") if source.origin != "files" else ()
    return {role: column for role in roles if (column := getattr(source, role)) is not None}


def _one(text: str) -> str:
    return plain_texts([text])[0]


def _listed(texts: str | Texts) -> Sequence[str]:
    return [texts] if isinstance(texts, str) else texts
