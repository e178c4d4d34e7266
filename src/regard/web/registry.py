"""The runs that are served, by name; no other folder can be reached through the server."""

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
from regard.web.ctranslate2_run import FastEngine
from regard.web.engine import Engine, RunEngine
from regard.web.errors import Refusal
from regard.web.prometheus import Meters
from regard.web.settings import PROMPT_TOKENS, ServeConfig
from regard.web.worker import Worker

TaskName = Literal["translation", "language_model", "classification"]
EngineFor = Callable[[Run], Engine]
"""What answers for a run."""
DOES = {"translation": "translates", "language_model": "completes texts", "classification": "classifies texts"}


def task_of(run: Run) -> TaskName | None:
    """What a run does with texts, however it came to do it; None where it can only be looked at."""
    by_verb: dict[str | None, TaskName] = {
        "translate": "translation", "generate": "language_model", "classify": "classification",
    }  # fmt: skip
    reads_text = {"source", "text"} & run.task.vocabularies.tokenizers.keys()
    return by_verb.get(run.task.verb) if reads_text else None


class Served:
    """One run with the thread that answers for it."""

    def __init__(
        self,
        name: str,
        run: Run,
        config: ServeConfig,
        meters: Meters,
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
        self.worker = Worker(name, engine or RunEngine(run), **limits, meters=meters)

    @property
    def tokenizer(self) -> Tokenizer:
        """The vocabulary of what the run reads; of a translator, the source's."""
        tokenizers = self.run.task.vocabularies.tokenizers
        return tokenizers["source" if self.task == "translation" else "text"]

    @property
    def created(self) -> int:
        """When the run was last trained, in seconds since 1970."""
        file = self.run.folder / METRICS_FILE
        return int(file.stat().st_mtime) if file.exists() else 0

    def unseen(self, texts: Sequence[str]) -> list[list[str]]:
        """The words of each text that the training data never had; none where the run keeps no list of them."""
        return [self.words.unseen(text) if self.words else [] for text in texts]

    def length(self, text: str) -> int:
        """Tokens of a text; a translator takes a long one sentence by sentence, and none may be beyond it."""
        longest = self.run.longest
        size = len(self.tokenizer.encode(text)) + 1 if text.strip() else 1  # of a blank one nothing is read
        if longest is None or size <= longest:
            return size
        if self.task == "translation":
            sentences = [text[start:end] for start, end in sentence_spans(text)]
            size = max(len(self.tokenizer.encode(sentence)) + 1 for sentence in sentences)
        if self.run.cuts:
            return min(size, longest)
        if size > longest:
            what = "a sentence" if self.task == "translation" else "a text"
            raise Refusal(413, f"{what} of {size} tokens; {self.name} takes at most {longest}")
        return size

    def paragraphs(self, texts: Sequence[str]) -> SplitTexts:
        """Texts divided into what the run translates at a time: sentences, unless it was trained on longer texts."""
        if self.run.splitting is None:
            return SplitTexts.of(texts, None)
        return SplitTexts.of(texts, replace(self.run.splitting, language=self.pair.source))

    def prompt(self, given: str | list[int], to_write: int) -> list[int]:
        """A prompt as tokens, with what the model expects at the beginning of a text."""
        size = self.tokenizer.vocab_size
        if isinstance(given, str):
            ids = self.tokenizer.encode(given)
        elif max(given, default=0) < size:
            ids = given
        else:
            raise Refusal(400, f"prompt: {max(given)} is no token of {self.name}, which has {size}")
        ids = [BOS, *ids] if self.run.documents else ids or self.tokenizer.encode("\n") or [UNK]
        longest = min(self.run.recipe.model.longest or PROMPT_TOKENS * 2, PROMPT_TOKENS + to_write)
        if len(ids) + to_write > longest:
            raise Refusal(
                413, f"{len(ids)} tokens of prompt and {to_write} to write; {self.name} has room for {longest}"
            )
        return ids


class Shelf:
    """All runs of a server."""

    def __init__(self, served: Iterable[Served]) -> None:
        self.by_name = {one.name: one for one in served}

    def stop(self) -> None:
        """Ends all work; who still waits is told so."""
        for one in self.by_name.values():
            one.worker.stop(seconds=0)
            if isinstance(one.worker.engine, FastEngine):
                one.worker.engine.close()

    def of_task(self, task: TaskName) -> list[Served]:
        """The runs that do this."""
        return [one for one in self.by_name.values() if one.task == task]

    def any(self, name: str | None = None) -> Served:
        """The run of that name, or the first."""
        if name is None:
            return next(iter(self.by_name.values()))
        if name not in self.by_name:
            raise Refusal(404, f"no run called '{name}' is served; {nearest(name, self.by_name)}")
        return self.by_name[name]

    def named(self, name: str | None, task: TaskName) -> Served:
        """The run of that name, which must do this; without a name, the first that does."""
        if name is not None:
            one = self.any(name)
            if one.task != task:
                does = DOES[one.task] if one.task else "can only be looked at"
                raise Refusal(400, f"'{name}' {does}; it does not do {task}")
            return one
        able = self.of_task(task)
        if not able:
            raise Refusal(400, f"no run that {DOES[task]} is served")
        return able[0]

    def translator(self, source: str, target: str, name: str | None = None) -> Served:
        """A run from one language into another; `auto` is whatever the run reads."""
        able = [self.named(name, "translation")] if name is not None else self.of_task("translation")
        if not able:
            raise Refusal(400, f"no run that {DOES['translation']} is served")
        for one in able:
            if one.pair.target == target and source in (one.pair.source, "auto"):
                return one
        known = ", ".join(f"{one.pair.source} to {one.pair.target}" for one in able)
        raise Refusal(400, f"{source} to {target} is not supported; known: {known}")


def open_runs(
    folders: Mapping[str, Path],
    config: ServeConfig,
    meters: Meters,
    device: str,
    languages: Mapping[str, Pair],
    engine: EngineFor = RunEngine,
) -> Shelf:
    """Loads the runs of a server; every name given must be one of them."""
    for name in languages:
        if name not in folders:
            raise RunError(f"languages: no run called '{name}' is served; {nearest(name, folders)}")
    if not folders:
        raise RunError("no run to serve; name at least one run folder")
    opened = {name: api.load(folder, device) for name, folder in folders.items()}
    return Shelf(Served(name, run, config, meters, languages.get(name), engine(run)) for name, run in opened.items())


def names_of(arguments: Iterable[str]) -> dict[str, Path]:
    """Folders by the names they are served under: NAME=FOLDER, or a folder's own name."""
    named: dict[str, Path] = {}
    for argument in arguments:
        name, equals, folder = argument.partition("=")
        path = Path(argument if Path(argument).exists() or not equals else folder)
        name = name if str(path) != argument else path.resolve().name
        if name in named:
            raise RunError(f"two runs are called '{name}'; tell them apart: first={named[name]} second={path}")
        named[name] = path
    return named
