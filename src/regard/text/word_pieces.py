"""Words in pieces: which tokens each word of a sentence becomes, and how its tag and its head pass over to them.

A word's first piece stands for the word: it has the word's tag, and its head is the first piece of the word's head. The
pieces after it hang on it, so that two pieces of a word are one or two steps apart in the tree, whatever the tree. The
end token hangs on nothing, as the root does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.text.special_tokens import EOS, UNK
from regard.text.tokenizer import Tokenizer

NO_TAG = 0
"""Stands where no word begins; the tags themselves count from one."""


@dataclass(frozen=True)
class Cut:
    """The tokens of a sentence, the end token last."""

    tokens: list[int]
    starts: list[int]
    """Where each word's first piece stands."""

    def heads(self, heads: Sequence[int]) -> list[int]:
        """The place of each token's head, of words' heads that count from one; a root's is its own."""
        found = list(range(len(self.tokens)))
        ends = [*self.starts[1:], len(self.tokens) - 1]
        for start, end, head in zip(self.starts, ends, heads, strict=True):
            found[start] = self.starts[head - 1] if head else start
            found[start + 1 : end] = [start] * (end - start - 1)
        return found

    def tags(self, numbers: Sequence[int]) -> list[int]:
        """At each word's first piece the number of its tag plus one; elsewhere NO_TAG."""
        found = [NO_TAG] * len(self.tokens)
        for start, number in zip(self.starts, numbers, strict=True):
            found[start] = number + 1
        return found


def cut_words(tokenizer: Tokenizer, words: Sequence[str]) -> Cut:
    """The tokens of words that stand one space apart; each word is cut by itself, and none is without a token."""
    between = "" if _puts_space_first(tokenizer) else " "
    texts = [word if not place else between + word for place, word in enumerate(words)]
    tokens: list[int] = []
    starts: list[int] = []
    for ids in tokenizer.cut_batch(texts):
        starts.append(len(tokens))
        tokens += ids or [UNK]
    return Cut([*tokens, EOS], starts)


def _puts_space_first(tokenizer: Tokenizer) -> bool:
    normaliser = tokenizer.core.normalizer
    return normaliser is not None and normaliser.normalize_str("x").startswith(" ")
