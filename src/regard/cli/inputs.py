"""Inputs of `translate`, `generate` and `classify`: lines, images, treebanks; and words unseen in training."""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.output import say
from regard.errors import counted

if TYPE_CHECKING:
    from regard.data.lines import Input

LINES_AT_ONCE = 256
LINES_NAMED, WORDS_NAMED = 10, 10
"""So many lines with unseen words are named one by one, and so many words of each."""


def read_lines(file: Path | None) -> "Iterator[list[Input]]":
    """The input in batches of lines; typed input line by line."""
    from regard.data.lines import input_lines

    lines = input_lines(file)
    while batch := list(islice(lines, 1 if is_typed(file) else LINES_AT_ONCE)):
        yield batch


def read_to_classify(content: str, files: list[Path]) -> "Iterator[list[Input]]":
    """Lines, sentences with their dependency trees, or images: image files, or lines with their names."""
    if content == "images" and files:
        for start in range(0, len(files), LINES_AT_ONCE):
            yield [image_input(file) for file in files[start : start + LINES_AT_ONCE]]
        return
    for file in files or [None]:
        yield from _read_treebank(file) if file and content == "tagged" else read_lines(file)


def _read_treebank(file: Path) -> "Iterator[list[Input]]":
    """The sentences of a CoNLL-U file with their trees; the lines of any other file."""
    from regard.data.findings import Findings
    from regard.data.lines import Input, uncompressed_name
    from regard.data.readers.conllu import tagged_sentences

    if uncompressed_name(file).suffix != ".conllu":
        yield from read_lines(file)
        return
    sentences = tagged_sentences(file, None, Findings())
    inputs = (Input(sentence, sentence.location.file, sentence.location.line) for sentence in sentences)
    while batch := list(islice(inputs, LINES_AT_ONCE)):
        yield batch


def image_input(file: Path) -> "Input":
    from regard.data.lines import Input

    return Input(str(file), str(file), 0)


def is_typed(file: Path | None) -> bool:
    """Whether a person types the input."""
    return file is None and sys.stdin is not None and sys.stdin.isatty()


class UnseenWords:
    """Names words that are not in a run's training data: those of the first lines, then their number."""

    def __init__(self, run: Path) -> None:
        from regard.text.training_words import TrainingWords

        self._words = TrainingWords.load(run)
        self._lines, self._unnamed = 0, 0

    def report(self, text: object, origin: tuple[object, int]) -> dict[str, list[str]]:
        """The JSON field of a text's unseen words, after a note on standard error; empty where a run has no list."""
        text = getattr(text, "text", text)  # of a sentence of a treebank
        if self._words is None or not isinstance(text, str):
            return {}
        words = self._words.unseen(text)
        if words and self._lines < LINES_NAMED:
            say(f"{origin[0]}:{origin[1]}: {unseen_sentence(words)}")
        self._lines += bool(words)
        self._unnamed += len(words) if self._lines > LINES_NAMED else 0
        return {"unseen": words}

    def close(self) -> None:
        """Says how many more there were."""
        if self._unnamed:
            lines = self._lines - LINES_NAMED
            say(
                f"{counted(lines, 'more line')} with {counted(self._unnamed, 'word')} that "
                f"{'was' if self._unnamed == 1 else 'were'} not in the training data; --json names all"
            )


def unseen_sentence(words: list[str]) -> str:
    """Such as "'zebra' was not in the training data"."""
    names = ", ".join(f"'{word}'" for word in words[:WORDS_NAMED])
    if len(words) > WORDS_NAMED:
        names += f" and {counted(len(words) - WORDS_NAMED, 'more word')}"
    return f"{names} {'was' if len(words) == 1 else 'were'} not in the training data"
