"""Inputs of several sentences: split as the training sources of a run are, translated, joined with their white space.

A model that was trained on sentences translates the first of several and drops the others; one that was trained on
paragraphs, tables or programs must not be given parts of them. So the training sources are measured when the
vocabularies are made, and the result is stored with the run:

    RUN/sentences.json   {"examples": 4096, "several": 0.021, "line_breaks": 0.0, "language": "en"}
"""

import json
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal

from regard.config.values import TASK, read_toml, task_of
from regard.errors import DataError, InputError, OverlongError
from regard.files.run_folder import RECIPE_FILE, SENTENCES_FILE, is_run
from regard.files.strict_json import table_from_json
from regard.text.inputs import Items, Overlong, Work, run_handling_overlong
from regard.text.outputs import EMPTY_OUTPUT, Output, Paragraph, best_combinations, concatenate
from regard.text.sentences import line_spans, sentence_spans

MAX_READ = 100_000
"""Examples at the beginning of the training data from which the sample is taken."""
MAX_MEASURED = 4096
USUAL = 0.5
"""Share of training sources from which on something is usual in them."""
SENTENCES_AT_ONCE = 1024
"""Inputs that a model is given together, however many a text has."""

Unit = Literal["sentence", "line"]


@dataclass(frozen=True)
class Splitting:
    """What part of a text is one input of a model."""

    unit: Unit = "sentence"
    language: str | None = None
    """Code of the language whose abbreviations are used; those of all languages where it is None."""

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each input in a text, without the white space around it; none in a blank text."""
        return sentence_spans(text, self.language) if self.unit == "sentence" else line_spans(text)


def whole_spans(text: str) -> list[tuple[int, int]]:
    """A text as one input, without the white space around it."""
    start = len(text) - len(text.lstrip())
    return [(start, len(text.rstrip()))] if text.strip() else []


@dataclass(frozen=True)
class SourceStatistics:
    examples: int
    several: float
    """Share with more than one sentence."""
    line_breaks: float
    """Share with a line break inside."""
    language: str | None = None
    """Language code from the names of the data."""

    @property
    def splitting(self) -> Splitting | None:
        """Into sentences where sources usually are sentences, else into lines where they usually are lines."""
        if self.several <= USUAL:
            return Splitting("sentence", self.language)
        return Splitting("line", self.language) if self.line_breaks <= USUAL else None

    def save(self, folder: Path) -> None:
        (folder / SENTENCES_FILE).write_text(f"{json.dumps(asdict(self))}\n", encoding="utf-8")

    @classmethod
    def load(cls, file: Path) -> "SourceStatistics":
        with suppress(ValueError, OSError):
            match {"language": None, **table_from_json(file.read_bytes())}:
                case {"examples": int(examples), "several": int() | float() as several,
                      "line_breaks": int() | float() as breaks, "language": str() | None as language}:  # fmt: skip
                    return cls(examples, several, breaks, language)
                case _:
                    pass
        raise DataError(file, "expected what was measured of the training sources; restore the file from a copy")


def measure_sources(sources: Iterable[str], language: str | None) -> SourceStatistics:
    """Statistics over a few thousand of the first hundred thousand sources that are not blank."""
    sample = _evenly_spaced(source for source in islice(sources, MAX_READ) if source.strip())
    several = sum(len(sentence_spans(source, language)) > 1 for source in sample)
    breaks = sum(len(line_spans(source)) > 1 for source in sample)
    count = max(1, len(sample))
    return SourceStatistics(len(sample), several / count, breaks / count, language)


def _evenly_spaced(sources: Iterable[str]) -> list[str]:
    """At most MAX_MEASURED evenly spaced texts of a stream of unknown length."""
    sample, stride = list[str](), 1
    for number, source in enumerate(sources):
        if number % stride == 0:
            sample.append(source)
        if len(sample) > MAX_MEASURED:
            sample, stride = sample[::2], stride * 2
    return sample


def load_splitting(run: Path) -> Splitting | None:
    """How the inputs of a run are split: as its training sources, or into sentences where these were not measured.

    Only those of translators are: a summary is of the whole document.
    """
    if (run / SENTENCES_FILE).is_file():
        return SourceStatistics.load(run / SENTENCES_FILE).splitting
    return Splitting() if is_run(run) and task_of(read_toml(run / RECIPE_FILE)) == TASK else None


@dataclass(frozen=True)
class SplitTexts:
    """Texts, and the span of each model input in them."""

    texts: Sequence[str]
    spans: Sequence[Sequence[tuple[int, int]]]

    @classmethod
    def of(cls, texts: Sequence[str], splitting: Splitting | None) -> "SplitTexts":
        """Texts split as a run's training sources are; without a splitting, each text is one input."""
        if splitting is None:
            return cls(texts, [[(0, len(text))] if text.strip() else [] for text in texts])
        return cls(texts, [splitting.spans(text) for text in texts])

    @cached_property
    def sentences(self) -> list[str]:
        """The inputs of all texts, one after the other."""
        return [text[start:end] for text, spans in zip(self.texts, self.spans, strict=True) for start, end in spans]

    @cached_property
    def owners(self) -> list[int]:
        """The index of the text that each sentence is from."""
        return [index for index, spans in enumerate(self.spans) for _ in spans]

    def join(self, outputs: Sequence[Sequence[Output]]) -> list[list[Output]]:
        """The translations of each text from those of its sentences, best first; of a blank text, an empty one."""
        remaining = iter(outputs)
        return [self._join(index, [next(remaining) for _ in spans]) for index, spans in enumerate(self.spans)]

    def _join(self, index: int, outputs: Sequence[Sequence[Output]]) -> list[Output]:
        text, spans = self.texts[index], self.spans[index]
        if not spans:
            return [EMPTY_OUTPUT]
        if not any(outputs):  # skipped, since every sentence is too long
            return []
        ranked = best_combinations([candidates or [EMPTY_OUTPUT] for candidates in outputs])
        ends = [0, *(end for _, end in spans)]
        gaps = [text[end:start] for end, (start, _) in zip(ends, spans, strict=False)]
        sources, trailing = [text[start:end] for start, end in spans], text[spans[-1][1] :]
        return [_paragraph(combination, gaps, trailing, sources) for combination in ranked]

    @contextmanager
    def errors_by_text(self) -> Generator[None]:
        """Errors about a sentence get the number of the text it is from."""
        try:
            yield
        except OverlongError as error:
            problems = {self.owners[number - 1] + 1: problem for number, problem in error.inputs.items()}
            raise OverlongError(problems) from None
        except InputError as error:
            raise InputError(self.owners[error.number - 1] + 1, error.problem) from None


def _paragraph(outputs: Sequence[Output], gaps: Sequence[str], trailing: str, sources: Sequence[str]) -> Output:
    if len(outputs) == 1:
        return replace(outputs[0], text=f"{gaps[0]}{outputs[0].text}{trailing}")
    whole = concatenate(outputs, gaps, sources)
    return Paragraph(
        whole.text + trailing,
        whole.score,
        whole.tokens,
        whole.token_logprobs,
        whole.finished,
        sentences=[
            {"source": source, "text": output.text, "score": output.score}
            for source, output in zip(sources, outputs, strict=True)
        ],
    )


def translate_by_sentence(
    texts: Items,
    translate: Work,
    origins: Sequence[tuple[object, int]],
    overlong: Overlong,
    warn: Callable[[str], None],
    splitting: Splitting | None,
) -> tuple[Items, dict[int, str]]:
    """The results of `translate(texts, cut)`, sentence by sentence; without a splitting, text by text.

    Overlong sentences are handled as by `run_handling_overlong`; the other sentences of their text are translated.
    """
    if splitting is None:
        return run_handling_overlong(texts, translate, origins, overlong, warn)
    split = SplitTexts.of(texts, splitting)
    outputs, problems = Items(), dict[int, str]()
    for start in range(0, len(split.sentences), SENTENCES_AT_ONCE):
        owners = split.owners[start : start + SENTENCES_AT_ONCE]
        batch = split.sentences[start : start + SENTENCES_AT_ONCE]
        batch_origins = [origins[owner] for owner in owners]
        results, batch_problems = run_handling_overlong(batch, translate, batch_origins, overlong, warn)
        outputs += results
        for number, problem in batch_problems.items():
            problems.setdefault(owners[number - 1] + 1, problem)
    return split.join(outputs), problems
