"""Vocabularies that are learnt from text.

    tokenizer = Tokenizer.train(texts, BpeConfig(size=8000))
    tokenizer.decode(tokenizer.encode("Ein Haus.")) == "Ein Haus."

The kinds `bpe`, `unigram`, `char` and `byte` lose nothing: `decode(encode(text)) == normalise(text)` for every text,
and `normalise` changes nothing unless a normal form or lower case is set. The kind `word` keeps words and line ends:
words outside the vocabulary become `<unk>`, and other whitespace becomes one space between words.
"""

from collections.abc import Iterable, Iterator
from typing import Self

from regard.errors import ConfigError, DataError
from regard.text.subword_sampling import Sampler
from regard.text.tokenizer_kinds import BpeConfig as BpeConfig
from regard.text.tokenizer_kinds import ByteConfig as ByteConfig
from regard.text.tokenizer_kinds import CharConfig as CharConfig
from regard.text.tokenizer_kinds import TokenizerConfig as TokenizerConfig
from regard.text.tokenizer_kinds import UnigramConfig as UnigramConfig
from regard.text.tokenizer_kinds import WordConfig as WordConfig
from regard.text.vocabulary import Piece as Piece
from regard.text.vocabulary import Vocabulary, require_unicode


class Tokenizer(Vocabulary):
    """A vocabulary and how text is cut into it, with what training needs: learning it, and cutting at random."""

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig) -> Self:
        """Learns a vocabulary from texts, which are read once and one at a time."""
        return cls(config.train(_trainable(texts) if config.kind != "byte" else texts))

    def sampler(self, config: TokenizerConfig) -> Sampler | None:
        """What cuts text at random while training, where the settings ask for it."""
        if self.numbering is None:
            return config.sampler(self.core)
        if getattr(config, "dropout", 0.0) or getattr(config, "alpha", None):
            raise ConfigError("tokenizer", "an imported vocabulary always cuts alike; leave dropout and alpha out")
        return None


def _trainable(texts: Iterable[str]) -> Iterator[str]:
    """The texts, each of them valid Unicode, and at least one not empty."""
    empty = True
    for text in texts:
        require_unicode(text)
        empty = empty and not text
        yield text
    if empty:
        raise DataError("tokenizer", "there is no text to learn a vocabulary from")
