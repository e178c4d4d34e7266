"""From the recipe's files to stores of encoded examples: read and checked, vocabularies learnt, encoded once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from pathlib import Path

import numpy as np

from regard.data.batches import StreamConfig
from regard.data.content_hash import code_sha256, source_sha256
from regard.data.examples import Example, PairBlock
from regard.data.fields import AnyField
from regard.data.findings import Findings
from regard.data.languages import NAMES, pair_of
from regard.data.settings import DataConfig
from regard.data.source_reader import read_blocks, read_examples
from regard.data.sources import SourceConfig
from regard.data.store import Store
from regard.errors import DataError, counted
from regard.progress import phase, tracked
from regard.tasks.base import Task, TaskConfig, Vocabularies
from regard.tasks.contract import ModelConfig
from regard.text.splitting import MAX_READ, SourceStatistics, measure_sources
from regard.text.tokenizer import Tokenizer, TokenizerConfig, train_tokenizers
from regard.text.training_words import TrainingWords


@dataclass
class Preparation:
    """What is needed to read the data of a recipe, and what was noticed on the way."""

    config: TaskConfig
    data: DataConfig
    tokenizer: TokenizerConfig
    cache: Path
    """Where stores of encoded examples are kept."""
    notes: list[str] = field(default_factory=list)
    """What a person should know: warnings about the data, what a length limit removed."""
    model: ModelConfig | None = None
    """The model's settings, where examples take their form from them, as images do."""
    words: TrainingWords | None = None
    """Takes in the words of the training texts that a model reads, where somebody wants them."""
    has_read: bool = field(default=False, init=False)
    """Whether the training texts were read; otherwise their store was in the cache."""
    _sources: list[str] = field(default_factory=list, init=False, repr=False)
    _contents: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _examples: dict[tuple[str, int], Sequence[Example]] = field(default_factory=dict, init=False, repr=False)

    @property
    def base(self) -> Path:
        """Where relative paths start."""
        return Path(self.data.folder or "")

    def learn(self, tokenizers: Mapping[str, Tokenizer] | None = None) -> Vocabularies:
        """Vocabularies (unless given) and labels from the training data, which is checked on the way."""
        source = self.data.split("train")
        if self.data.holds_out:
            self.notes.append(
                f"data.valid is not given: {self.data.held_out:.3g} of the training data is held out for it"
            )
        labels = self._labels(source)
        if tokenizers is not None:
            return Vocabularies(tokenizers, labels)
        names = self.config.texts
        with phase("tokenising", unit="texts") as advance:
            if self.tokenizer.joint and self.tokenizer.sample < 1 and len(names) > 1:  # large data: read once for all
                sampled = {" and ".join(names): lambda: self._sampled_texts(source, advance)}
                [shared] = train_tokenizers(sampled, self.tokenizer).values()
                return Vocabularies(dict.fromkeys(names, shared), labels)
            texts = {name: lambda name=name: self._texts(source, name, advance) for name in names}
            return Vocabularies(train_tokenizers(texts, self.tokenizer), labels)

    def measure_sources(self) -> SourceStatistics | None:
        """Whether training sources are sentences or longer, where inputs may be split into sentences."""
        if not self.config.splits_inputs:
            return None
        source = self.data.split("train")
        language = pair_of(source).source
        language = language if language in NAMES else None
        if self._sources:
            sources, self._sources = self._sources, []
            return measure_sources(sources, language)
        with phase("reading data.train", unit="texts") as advance:
            return measure_sources(self._texts(source, self.config.texts[0], advance), language)

    def examples(self, split: str, most: int) -> Sequence[Example]:
        """The examples of a split, so many at most, evenly spread: read once."""
        if (split, most) not in self._examples:
            whole = list(read_examples(self.data.split(split), self.base))
            number = min(len(whole), most)
            self._examples[split, most] = [whole[index * len(whole) // number] for index in range(number)]
        return self._examples[split, most]

    def open(self, task: Task, split: str, training: bool = False) -> Store:
        """The store of a split: made now, or found in the cache."""
        source = self.data.split(split)
        findings = Findings()

        def blocks() -> Iterator[Sequence[Example]]:
            with phase(f"storing data.{split}", unit=f"{source.unit}s") as advance:
                for block in read_blocks(source, self.base, findings):
                    if training:
                        self._note_words(block)
                    yield block if training else list(filter(self.config.is_answered, block))
                    advance(len(block))

        fields = self._fields(task, training)
        store = task.open_store(
            blocks, fields, self.model, training, cache=self.cache, settings=self._settings(task, source, training)
        )
        store.file = self._name(source)
        self._note(split, store, findings)
        if not len(store):
            raise DataError(
                self._name(source),
                f"no example is left for {split}: all are blank or too long; "
                f"see data.max_length{self._positions(task)}",
            )
        return store

    def _note_words(self, block: Sequence[Example]) -> None:
        """Takes in the words of some examples."""
        self.has_read = True
        if self.words is not None and self.config.reads is not None:
            self.words.add_all(texts_of(block, self.config.reads))

    def read_words(self) -> None:
        """Takes in the words of the training texts where their store was in the cache."""
        if not self.has_read:
            for block in read_blocks(self.data.split("train"), self.base):
                self._note_words(block)

    def _settings(self, task: Task, source: SourceConfig, training: bool) -> dict[str, object]:
        """All that the rows of a store depend on, whole: a list of what matters could lack something."""
        return {
            "source": source.tree(),
            "unanswered": training,
            "content": self._content(source),
            "task": self.config.tree(),
            "tokenizer": self.tokenizer.tree(),
            "vocabularies": {name: tokenizer.identity for name, tokenizer in task.vocabularies.tokenizers.items()},
            "labels": list(task.vocabularies.labels),
            "code": code_sha256("tasks"),
        }

    def _content(self, source: SourceConfig) -> str:
        """What a source holds now, read once; a store with images reads them by itself."""
        if source.content in ("images", "captions"):
            return ""
        name = repr(source.files(self.base) or source.tree())
        if name not in self._contents:
            self._contents[name] = source_sha256(source, self.base)
        return self._contents[name]

    def _fields(self, task: Task, training: bool) -> Mapping[str, AnyField]:
        """The fields of the task's examples, none longer than the positions of the model; a stream is cut anyway."""
        fields = task.fields(self.data, self.tokenizer, training)
        if self.model is None or isinstance(self.config.batching(self.data), StreamConfig):
            return fields
        limits = task.position_limits(self.model)
        overlong = self.data.overlong
        return {
            name: field.within(limits[name], overlong) if name in limits else field for name, field in fields.items()
        }

    def _positions(self, task: Task) -> str:
        """What the positions of the model can hold, for a sentence."""
        limits = {} if self.model is None else task.position_limits(self.model)
        held = " and ".join(f"{limit} tokens of {name}" for name, limit in limits.items())
        return f" and model.position.length: the model has positions for {held}" if held else ""

    def _note(self, split: str, store: Store, findings: Findings) -> None:
        source = self.data.split(split)
        self.notes += [f"data.{split}: {summary}" for summary in findings.summaries()]
        for what, counts in (("left out", store.skipped), ("cut", store.cut)):
            for why, count in counts.items():
                origin = self._origin(source, *store.first.get(why, ("", 0)))
                where = f" ({'first ' if count > 1 else ''}at {origin})" if origin else ""
                self.notes.append(f"data.{split}: {counted(count, source.unit)} {what}: {why}{where}")

    def _origin(self, source: SourceConfig, field: str, line: int) -> str:
        """Where a field of an example stood; empty where that is not known."""
        files = source.files(self.base)
        aligned = source.origin == "files" and field == "target"
        return f"{files[1] if aligned else self._name(source)}:{line}" if line else ""

    def _texts(self, source: SourceConfig, field: str, advance: Callable[[int], None]) -> Iterator[str]:
        """One text of each example, or of a share of them, evenly spread."""
        for block in self._sampled(source):
            yield from texts_of(block, field)
            advance(len(block))

    def _sampled_texts(self, source: SourceConfig, advance: Callable[[int], None]) -> Iterator[str]:
        """All texts of a share of the examples; sources are kept to be measured."""
        names, self._sources = self.config.texts, []
        for block in self._sampled(source):
            columns = [texts_of(block, name) for name in names]
            if self.config.splits_inputs:
                self._sources += columns[0][: MAX_READ - len(self._sources)]
            yield from chain.from_iterable(zip(*columns, strict=True))
            advance(len(names) * len(block))

    def _sampled(self, source: SourceConfig) -> Iterator[Sequence[Example]]:
        """The examples that the vocabulary is trained on."""
        share, number = self.tokenizer.sample, 0
        for block in read_blocks(source, self.base):
            if share < 1:
                counts = np.floor(np.arange(number - 1, number + len(block)) * share)
                number += len(block)
                chosen = (np.diff(counts) > 0).tolist()
                block = block.select(chosen) if isinstance(block, PairBlock) else list(compress(block, chosen))
            yield block

    def _labels(self, source: SourceConfig) -> list[str]:
        if not self.config.has_classes:
            return []
        examples = tracked(read_examples(source, self.base), "reading data.train", unit=f"{source.unit}s")
        seen = {name for example in examples for name in example.classes}
        if len(seen) < 2:
            raise DataError(self._name(source), f"expected at least two labels, got {sorted(seen)}")
        return sorted(seen, key=lambda label: (not label.lstrip("-").isdigit(), label.zfill(12), label))

    def _name(self, source: SourceConfig) -> str:
        names = chain(map(str, source.files(self.base)), [source.hub or f"street/{source.street}"])
        return next(names)


def texts_of(examples: Sequence[Example], field: str) -> list[str]:
    """One text of each example."""
    if isinstance(examples, PairBlock):
        return examples.sources if field == "source" else examples.targets
    return [getattr(example, field) + getattr(example, "end", "") for example in examples]
