"""Vocabularies that are trained on text.

    tokenizer = Tokenizer.train(texts, BpeConfig(size=8000))
    tokenizer.decode(tokenizer.encode("Ein Haus.")) == "Ein Haus."

The kinds `bpe`, `unigram`, `char` and `byte` are lossless: `decode(encode(text)) == normalise(text)` for every text,
and `normalise` changes nothing unless a normal form or lower case is set. The kind `word` keeps words and line ends:
words outside the vocabulary become `<unk>`, and other whitespace becomes one space between words.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Self

from regard.errors import ConfigError, DataError
from regard.files.run_folder import TOKENIZER_FILE, field_tokenizer_file
from regard.text.special_tokens import EOS, UNK
from regard.text.subword_sampling import Sampler
from regard.text.tokenizer_kinds import BpeConfig as BpeConfig
from regard.text.tokenizer_kinds import ByteConfig as ByteConfig
from regard.text.tokenizer_kinds import CharConfig as CharConfig
from regard.text.tokenizer_kinds import TokenizerConfig as TokenizerConfig
from regard.text.tokenizer_kinds import UnigramConfig as UnigramConfig
from regard.text.tokenizer_kinds import WordConfig as WordConfig
from regard.text.vocabulary import Piece as Piece
from regard.text.vocabulary import Vocabulary, require_unicode

NO_TAG = 0
"""Stands at tokens that begin no word; the tags themselves count from one."""

Texts = Callable[[], Iterable[str]]
"""Gives the texts of a field from the start, each time it is called."""


class Tokenizer(Vocabulary):
    """A vocabulary that can be trained, and that can sample segmentations for subword regularisation."""

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig) -> Self:
        """Trains a vocabulary on texts, which are read once and one at a time."""
        return cls(config.train(_checked(texts) if config.kind != "byte" else texts))

    def sampler(self, config: TokenizerConfig) -> Sampler | None:
        """Subword regularisation while training, where the settings ask for it."""
        if self.id_mapping is None:
            return config.sampler(self.core)
        if getattr(config, "dropout", 0.0) or getattr(config, "alpha", None):
            raise ConfigError("tokenizer", "an imported vocabulary has no sampling; leave dropout and alpha out")
        return None

    def encode_words(self, words: Sequence[str]) -> "EncodedWords":
        """The token ids of words that stand one space apart; each is encoded by itself, to at least one token."""
        normaliser = self.core.normalizer
        adds_space = normaliser is not None and normaliser.normalize_str("x").startswith(" ")
        between = "" if adds_space else " "
        texts = [between + word if index else word for index, word in enumerate(words)]
        tokens: list[int] = []
        starts: list[int] = []
        for ids in self.encode_batch(texts, prefix=False):
            starts.append(len(tokens))
            tokens += ids or [UNK]
        return EncodedWords([*tokens, EOS], starts)


def _checked(texts: Iterable[str]) -> Iterator[str]:
    """The texts; DataError where one is not valid Unicode, or all are empty."""
    empty = True
    for text in texts:
        require_unicode(text)
        empty = empty and not text
        yield text
    if empty:
        raise DataError("tokenizer", "there is no text to train a vocabulary on")


@dataclass(frozen=True)
class EncodedWords:
    """The token ids of a sentence of words, `<eos>` last.

    The first token of a word stands for the word: it has the word's tag, and its head is the first token of the word's
    head. The other tokens of the word have the first as their head, so that two of them are one or two steps apart in
    the tree, whatever the tree. `<eos>` has no head, as the root has none.
    """

    tokens: list[int]
    starts: list[int]
    """Position of each word's first token."""

    def heads(self, heads: Sequence[int]) -> list[int]:
        """The position of each token's head, from the words' heads, which count from one; a root's is its own."""
        positions = list(range(len(self.tokens)))
        ends = [*self.starts[1:], len(self.tokens) - 1]
        for start, end, head in zip(self.starts, ends, heads, strict=True):
            positions[start] = self.starts[head - 1] if head else start
            positions[start + 1 : end] = [start] * (end - start - 1)
        return positions

    def tags(self, tag_ids: Sequence[int]) -> list[int]:
        """At each word's first token the id of its tag plus one; elsewhere NO_TAG."""
        tags = [NO_TAG] * len(self.tokens)
        for start, tag_id in zip(self.starts, tag_ids, strict=True):
            tags[start] = tag_id + 1
        return tags


def train_tokenizers(fields: Mapping[str, Texts], config: TokenizerConfig) -> dict[str, Tokenizer]:
    """The tokenizer of each field of an example; with a joint vocabulary, all fields share one."""
    if not fields:
        return {}
    if config.joint or len(fields) == 1:
        shared = Tokenizer.train(chain.from_iterable(texts() for texts in fields.values()), config)
        return dict.fromkeys(fields, shared)
    return {name: Tokenizer.train(texts(), config) for name, texts in fields.items()}


def save_tokenizers(tokenizers: Mapping[str, Tokenizer], folder: Path) -> list[Path]:
    """Writes `tokenizer.json`, or `tokenizer.FIELD.json` for each field that has its own; returns the files."""
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
