"""Attachment scores of parsers that write trees as brackets; shares are between 0 and 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from regard.data.linearise import Tree, read_brackets
from regard.metrics.score import check_counts


@dataclass(frozen=True)
class Attachment:
    """How many words of a text hang where they should."""

    words: int
    unlabelled: int
    """Words with the right head."""
    labelled: int
    """Words with the right head and the right relation to it."""

    @property
    def uas(self) -> float:
        """Unlabelled attachment score."""
        return self.unlabelled / max(1, self.words)

    @property
    def las(self) -> float:
        """Labelled attachment score."""
        return self.labelled / max(1, self.words)


def attachment(written: Sequence[str], references: Sequence[str]) -> Attachment:
    """Attachment over all words of the references, punctuation too, whatever was written for them.

    A parser that writes may leave words out, or write others. Its words are aligned with the reference's; a word that
    has no partner, or whose head has none, does not hang where it should.
    """
    check_counts(written, [references])
    words = unlabelled = labelled = 0
    for given, wanted in zip(map(read_brackets, written), map(read_brackets, references), strict=True):
        right, right_relation = _right(given, wanted)
        words, unlabelled, labelled = words + len(wanted.words), unlabelled + right, labelled + right_relation
    return Attachment(words, unlabelled, labelled)


def _right(given: Tree, wanted: Tree) -> tuple[int, int]:
    """Words of a sentence with the right head, and those of them with the right relation."""
    blocks = SequenceMatcher(None, given.words, wanted.words, autojunk=False).get_matching_blocks()
    partner = {block.a + at + 1: block.b + at + 1 for block in blocks for at in range(block.size)}
    partner[0] = 0  # the root hangs on nothing in both
    right = [
        (word, other) for word, other in partner.items()
        if word and partner.get(given.heads[word - 1]) == wanted.heads[other - 1]
    ]  # fmt: skip
    return len(right), sum(given.relations[word - 1] == wanted.relations[other - 1] for word, other in right)
