"""The tokenizers of a task: one for all fields of an example where the vocabulary is joint, otherwise one for each."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from regard.files.run_folder import TOKENIZER_FILE, field_tokenizer_file
from regard.text.tokenizer import Tokenizer, TokenizerConfig

Texts = Callable[[], Iterable[str]]
"""Gives the texts of a field from the start, each time it is called."""


def train_tokenizers(fields: Mapping[str, Texts], config: TokenizerConfig) -> dict[str, Tokenizer]:
    """Learns the vocabulary of each field; with a joint one, all fields share a tokenizer."""
    if not fields:
        return {}
    if config.joint or len(fields) == 1:
        shared = Tokenizer.train(chain.from_iterable(texts() for texts in fields.values()), config)
        return dict.fromkeys(fields, shared)
    return {name: Tokenizer.train(texts(), config) for name, texts in fields.items()}


def save_tokenizers(tokenizers: Mapping[str, Tokenizer], folder: Path) -> list[Path]:
    """Writes `tokenizer.json`, or `tokenizer.FIELD.json` for each field that has its own; gives the files' names."""
    if len({tokenizer.identity for tokenizer in tokenizers.values()}) == 1:
        files = {folder / TOKENIZER_FILE: next(iter(tokenizers.values()))}
    else:
        files = {folder / field_tokenizer_file(name): tokenizer for name, tokenizer in tokenizers.items()}
    for file, tokenizer in files.items():
        tokenizer.save(file)
    return list(files)


def load_tokenizers(fields: Sequence[str], folder: Path) -> dict[str, Tokenizer]:
    """The tokenizers that `save_tokenizers` wrote."""
    if not fields:
        return {}
    if (folder / TOKENIZER_FILE).exists() or not any((folder / field_tokenizer_file(name)).exists() for name in fields):
        return dict.fromkeys(fields, Tokenizer.load(folder / TOKENIZER_FILE))
    return {name: Tokenizer.load(folder / field_tokenizer_file(name)) for name in fields}
