"""Texts longer than a sentence: divided, translated by whichever engine, and put together again with their layout."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from regard.errors import InputError, OverlongError
from regard.text.segments import Output, Overlong, best_combinations, fitted, joined, together
from regard.text.splitting import Splitting

SENTENCES_AT_ONCE = 1024
"""Inputs that a model is given together, however many a text has."""


@dataclass(frozen=True)
class Paragraph(Output):
    """The translation of a text of several sentences; its score is the sum of theirs."""

    sentences: list[dict[str, Any]]
    """Source, text and score of each."""


@dataclass(frozen=True)
class Paragraphs:
    """Texts, and where the inputs of a model stand in each."""

    texts: Sequence[str]
    spans: Sequence[Sequence[tuple[int, int]]]

    @classmethod
    def of(cls, texts: Sequence[str], splitting: Splitting) -> "Paragraphs":
        """Texts divided as a run's training sources are."""
        return cls(texts, [splitting.spans(text) for text in texts])

    @classmethod
    def whole(cls, texts: Sequence[str]) -> "Paragraphs":
        """Texts that are one input each."""
        return cls(texts, [[(0, len(text))] if text.strip() else [] for text in texts])

    @cached_property
    def sentences(self) -> list[str]:
        """What a model is to translate, one after the other."""
        return [text[start:end] for text, own in zip(self.texts, self.spans, strict=True) for start, end in own]

    @cached_property
    def owners(self) -> list[int]:
        """The index of the text that each sentence is from."""
        return [index for index, own in enumerate(self.spans) for _ in own]

    def joined(self, found: Sequence[Sequence[Output]]) -> list[list[Output]]:
        """The translations of each text from those of its sentences, best first; of a blank text, an empty one."""
        remaining = iter(found)
        return [self._joined(index, [next(remaining) for _ in own]) for index, own in enumerate(self.spans)]

    def _joined(self, index: int, found: Sequence[Sequence[Output]]) -> list[Output]:
        text, spans = self.texts[index], self.spans[index]
        if not spans:
            return joined([], [])
        if not any(found):  # left out, since each is too long
            return []
        nothing = [Output("", 0.0, [], [], True)]
        ranked = best_combinations([outputs or nothing for outputs in found])
        starts = [0, *(end for _, end in spans)]
        gaps = [text[end:start] for end, (start, _) in zip(starts, spans, strict=False)]
        sources, behind = [text[start:end] for start, end in spans], text[spans[-1][1] :]
        return [_laid_out(outputs, gaps, behind, sources) for outputs in ranked]

    @contextmanager
    def renumbered(self) -> Iterator[None]:
        """Says of a refused sentence which text it is from."""
        try:
            yield
        except OverlongError as error:
            raise OverlongError({self.owners[one - 1] + 1: error.inputs[one] for one in error.inputs}) from None
        except InputError as error:
            raise InputError(self.owners[error.number - 1] + 1, error.problem) from None


def _laid_out(outputs: Sequence[Output], gaps: Sequence[str], behind: str, sources: Sequence[str]) -> Output:
    if len(outputs) == 1:
        return replace(outputs[0], text=f"{gaps[0]}{outputs[0].text}{behind}")
    whole = together(outputs, gaps, sources)
    parts = [
        {"source": source, "text": one.text, "score": one.score} for source, one in zip(sources, outputs, strict=True)
    ]
    return Paragraph(**{**vars(whole), "text": whole.text + behind}, sentences=parts)


def fitted_paragraphs(
    texts: list[Any],
    work: Callable[[list[Any], bool], list[Any]],
    origins: Sequence[tuple[object, int]],
    overlong: Overlong,
    say: Callable[[str], None],
    splitting: Splitting | None,
) -> tuple[list[Any], dict[int, str]]:
    """What a model makes of texts, as `fitted` says, sentence by sentence; without a splitting, each as it is.

    Of a text with a sentence that is too long, the other sentences are translated whatever becomes of that one.
    """
    if splitting is None:
        return fitted(texts, work, origins, overlong, say)
    divided = Paragraphs.of(texts, splitting)
    found, problems = list[Any](), dict[int, str]()
    for start in range(0, len(divided.sentences), SENTENCES_AT_ONCE):
        owners = divided.owners[start : start + SENTENCES_AT_ONCE]
        batch = divided.sentences[start : start + SENTENCES_AT_ONCE]
        results, wrong = fitted(batch, work, [origins[owner] for owner in owners], overlong, say)
        found += results
        for number, problem in wrong.items():
            problems.setdefault(owners[number - 1] + 1, problem)
    return divided.joined(found), problems
