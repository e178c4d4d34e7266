"""Attachment scores of parsers that generate trees as brackets; shares are between 0 and 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from regard.data.linearise import Tree, read_brackets
from regard.data.sources import SourceConfig
from regard.metrics.registry import Metric, Score, Texts, check_counts, register


@dataclass(frozen=True)
class Attachment:
    """How many words have the right head."""

    words: int
    unlabelled: int
    """Words with the right head."""
    labelled: int
    """Words with the right head and the right relation to it."""

    @property
    def uas(self) -> float:
        return self.unlabelled / max(1, self.words)

    @property
    def las(self) -> float:
        return self.labelled / max(1, self.words)


def attachment(hypotheses: Sequence[str], references: Sequence[str]) -> Attachment:
    """Attachment over all words of the references, punctuation too.

    A generated tree may lack words, or have others. Its words are aligned with the reference's; a word without a
    partner, or whose head has none, is wrong.
    """
    check_counts(hypotheses, [references])
    words = unlabelled = labelled = 0
    for ours, theirs in zip(map(read_brackets, hypotheses), map(read_brackets, references), strict=True):
        right, right_relation = _right(ours, theirs)
        words, unlabelled, labelled = words + len(theirs.words), unlabelled + right, labelled + right_relation
    return Attachment(words, unlabelled, labelled)


def _right(ours: Tree, theirs: Tree) -> tuple[int, int]:
    """Words of a sentence with the right head, and those of them with the right relation."""
    blocks = SequenceMatcher(None, ours.words, theirs.words, autojunk=False).get_matching_blocks()
    partner = {block.a + at + 1: block.b + at + 1 for block in blocks for at in range(block.size)}
    partner[0] = 0  # both roots
    right = [
        (word, other) for word, other in partner.items()
        if word and partner.get(ours.heads[word - 1]) == theirs.heads[other - 1]
    ]  # fmt: skip
    return len(right), sum(ours.relations[word - 1] == theirs.relations[other - 1] for word, other in right)


def _generates_trees(source: SourceConfig) -> bool:
    return source.is_treebank and source.target == "brackets"


def _uas(texts: Texts) -> Score:
    return Score("UAS", attachment(texts.hypotheses, texts.references).uas, "")


def _las(texts: Texts) -> Score:
    return Score("LAS", attachment(texts.hypotheses, texts.references).las, "")


for _name, _compute in (("uas", _uas), ("las", _las)):
    register(
        Metric(
            _name, _name.upper(), True, percent=True, tasks=("translation",), compute=_compute,
            applies_to=_generates_trees,
        )
    )  # fmt: skip
