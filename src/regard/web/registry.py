"""The runs that are served, by name; the server reaches no other folder."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from regard import api
from regard.data.languages import Pair, pair_of
from regard.errors import RunError, nearest
from regard.files.run_folder import METRICS_FILE
from regard.run import Run
from regard.text.sentences import sentence_spans
from regard.text.special_tokens import BOS, UNK
from regard.text.splitting import SplitTexts
from regard.text.tokenizer import Tokenizer
from regard.text.training_words import TrainingWords
from regard.web.engine import CTranslate2Engine, Engine, RunEngine
from regard.web.prometheus import ServerMetrics
from regard.web.requests import RequestError
from regard.web.settings import PROMPT_TOKENS, ServeConfig
from regard.web.worker import Worker

TaskName = Literal["translation", "language_model", "classification"]
ANY_TASK = "any"
EngineFor = Callable[[Run], Engine]
DOES = {"translation": "translates", "language_model": "completes texts", "classification": "classifies texts"}


def task_of(run: Run) -> TaskName | None:
    """What a run does with texts; None where it can only be looked at."""
    by_verb: dict[str | None, TaskName] = {
        "translate": "translation", "generate": "language_model", "classify": "classification",
    }  # fmt: skip
    reads_text = {"source", "text"} & run.task.vocabularies.tokenizers.keys()
    return by_verb.get(run.task.verb) if reads_text else None


class ServedRun:
    """A run with its worker."""

    def __init__(
        self,
        name: str,
        run: Run,
        config: ServeConfig,
        metrics: ServerMetrics,
        pair: Pair | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.name, self.run = name, run
        self.task = task_of(run)
        if pair is not None and self.task != "translation":
            raise RunError(f"languages: '{name}' is a run of {run.recipe.task.kind}; only translators have languages")
        self.pair = pair or pair_of(run.recipe.data.train)
        limits = {"queue": config.queue, "tokens_per_batch": config.tokens_per_batch}
        self.words = TrainingWords.load(run.folder)
        self.worker = Worker(name, engine or RunEngine(run), **limits, metrics=metrics)

    @property
    def tokenizer(self) -> Tokenizer:
        """The input tokenizer; of a translator, the source's."""
        tokenizers = self.run.task.vocabularies.tokenizers
        return tokenizers["source" if self.task == "translation" else "text"]

    @property
    def created(self) -> int:
        """Time of the last training step, in seconds since 1970."""
        file = self.run.folder / METRICS_FILE
        return int(file.stat().st_mtime) if file.exists() else 0

    def unseen_words(self, texts: Sequence[str]) -> list[list[str]]:
        """The words of each text that are not in the training data; none where the run has no list of them."""
        return [self.words.unseen(text) if self.words else [] for text in texts]

    def length(self, text: str) -> int:
        """Tokens of a text, within the model's limit; a translator splits a long text into sentences."""
        longest = self.run.longest
        size = len(self.tokenizer.encode(text)) + 1 if text.strip() else 1
        if longest is None or size <= longest:
            return size
        if self.task == "translation":
            sentences = [text[start:end] for start, end in sentence_spans(text)]
            size = max(len(self.tokenizer.encode(sentence)) + 1 for sentence in sentences)
        if self.run.cuts:
            return min(size, longest)
        if size > longest:
            what = "a sentence" if self.task == "translation" else "a text"
            raise RequestError(413, f"{what} of {size} tokens; {self.name} takes at most {longest}")
        return size

    def paragraphs(self, texts: Sequence[str]) -> SplitTexts:
        """Texts split into inputs of the model: sentences, unless it was trained on longer texts."""
        if self.run.splitting is None:
            return SplitTexts.of(texts, None)
        return SplitTexts.of(texts, replace(self.run.splitting, language=self.pair.source))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each input of the model in a line of text."""
        return list(self.paragraphs([text]).spans[0])

    def prompt_ids(self, prompt: str | list[int], max_tokens: int) -> list[int]:
        """The token ids of a prompt, with the BOS token where the model expects it."""
        size = self.tokenizer.vocab_size
        if isinstance(prompt, str):
            ids = self.tokenizer.encode(prompt)
        elif max(prompt, default=0) < size:
            ids = prompt
        else:
            raise RequestError(400, f"prompt: {max(prompt)} is no token of {self.name}, which has {size}")
        ids = [BOS, *ids] if self.run.documents else ids or self.tokenizer.encode("\n") or [UNK]
        longest = min(self.run.recipe.model.longest or PROMPT_TOKENS * 2, PROMPT_TOKENS + max_tokens)
        if len(ids) + max_tokens > longest:
            raise RequestError(
                413, f"{len(ids)} tokens of prompt and {max_tokens} to generate; {self.name} allows {longest} in all"
            )
        return ids


class ModelRegistry:
    def __init__(self, served: Iterable[ServedRun]) -> None:
        self.by_name = {run.name: run for run in served}

    def stop(self) -> None:
        """Stops all workers; requests that are not finished fail."""
        for served in self.by_name.values():
            served.worker.stop(seconds=0)
            if isinstance(served.worker.engine, CTranslate2Engine):
                served.worker.engine.close()

    def of_task(self, task: TaskName) -> list[ServedRun]:
        return [served for served in self.by_name.values() if served.task == task]

    def any(self, name: str | None = None) -> ServedRun:
        """The run of that name, or the first."""
        if name is None:
            return next(iter(self.by_name.values()))
        if name not in self.by_name:
            raise RequestError(404, f"no run called '{name}' is served; {nearest(name, self.by_name)}")
        return self.by_name[name]

    def named(self, name: str | None, task: TaskName) -> ServedRun:
        """The run of that name, which must have this task; without a name, the first that has."""
        if name is not None:
            served = self.any(name)
            if served.task != task:
                does = DOES[served.task] if served.task else "can only be looked at"
                raise RequestError(400, f"'{name}' {does}; it does not do {task}")
            return served
        candidates = self.of_task(task)
        if not candidates:
            raise RequestError(400, f"no run that {DOES[task]} is served")
        return candidates[0]

    def translator(self, source: str, target: str, name: str | None = None) -> ServedRun:
        """A run from one language into another; `auto` is any source language."""
        candidates = [self.named(name, "translation")] if name is not None else self.of_task("translation")
        if not candidates:
            raise RequestError(400, f"no run that {DOES['translation']} is served")
        for served in candidates:
            if served.pair.target == target and source in (served.pair.source, "auto"):
                return served
        pairs = ", ".join(f"{served.pair.source} to {served.pair.target}" for served in candidates)
        raise RequestError(400, f"{source} to {target} is not supported; known: {pairs}")


def open_runs(
    folders: Mapping[str, Path],
    config: ServeConfig,
    metrics: ServerMetrics,
    device: str,
    languages: Mapping[str, Pair],
    engine: EngineFor = RunEngine,
) -> ModelRegistry:
    """Loads the runs; every name in `languages` must be one of them."""
    for name in languages:
        if name not in folders:
            raise RunError(f"languages: no run called '{name}' is served; {nearest(name, folders)}")
    if not folders:
        raise RunError("no run to serve; name at least one run folder")
    opened = {name: api.load(folder, device) for name, folder in folders.items()}
    return ModelRegistry(
        ServedRun(name, run, config, metrics, languages.get(name), engine(run)) for name, run in opened.items()
    )


def names_of(arguments: Iterable[str]) -> dict[str, Path]:
    """Folders by the names they are served under: NAME=FOLDER, or the folder's name."""
    named: dict[str, Path] = {}
    for argument in arguments:
        name, equals, folder = argument.partition("=")
        path = Path(argument if Path(argument).exists() or not equals else folder)
        name = name if str(path) != argument else path.resolve().name
        if name in named:
            raise RunError(f"two runs are called '{name}'; tell them apart: first={named[name]} second={path}")
        named[name] = path
    return named
