"""Scores of generated texts beside what people wrote.

BLEU, chrF and TER by sacrebleu, with its signatures; ROUGE by rouge-score; exact match; attachment scores of trees that
are generated as brackets; and two scores of single sentences for rewards.
"""

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal

from regard.data import street
from regard.data.linearise import Tree, read_brackets
from regard.errors import DataError
from regard.metrics.registry import Metric, Score, Texts, check_counts, register

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacrebleuMetric

BleuTokens = Literal["13a", "intl", "char", "zh", "none"]
ROUGE = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
RougeWords = Literal["ascii", "unicode"]


def bleu(
    hypotheses: Sequence[str], *references: Sequence[str], tokenize: BleuTokens = "13a", lowercase: bool = False
) -> Score:
    """Corpus BLEU of detokenised text, 0 to 100; several lists of references may be given."""
    return _corpus(_sacrebleu("bleu", tokenize=tokenize, lowercase=lowercase), hypotheses, references)


def chrf(hypotheses: Sequence[str], *references: Sequence[str], word_order: int = 0, lowercase: bool = False) -> Score:
    """Corpus chrF, 0 to 100: F-score of character n-grams; `word_order=2` is chrF++."""
    return _corpus(_sacrebleu("chrf", word_order=word_order, lowercase=lowercase), hypotheses, references)


def ter(hypotheses: Sequence[str], *references: Sequence[str], case_sensitive: bool = False) -> Score:
    """Corpus translation edit rate in percent: lower is better, and more than 100 is possible."""
    return _corpus(_sacrebleu("ter", case_sensitive=case_sensitive), hypotheses, references)


def sentence_bleu(hypothesis: str, *references: str, tokenize: BleuTokens = "13a", lowercase: bool = False) -> float:
    """BLEU of one sentence, 0 to 100, exponentially smoothed; n-grams longer than the sentence do not count."""
    check_counts([hypothesis], [[reference] for reference in references])
    metric = _sacrebleu("bleu", tokenize=tokenize, lowercase=lowercase, effective_order=True)
    return metric.sentence_score(hypothesis, list(references)).score


def _sacrebleu(name: Literal["bleu", "chrf", "ter"], **settings: object) -> "SacrebleuMetric":
    """The library's metric, loaded here, so that a first translation does not wait for it."""
    return getattr(import_module(f"sacrebleu.metrics.{name}"), name.upper())(**settings)


def _corpus(metric: "SacrebleuMetric", hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    check_counts(hypotheses, references)
    score = metric.corpus_score(hypotheses, references)
    return Score(score.name, score.score, str(metric.get_signature()))


def rouge(
    hypotheses: Sequence[str],
    *references: Sequence[str],
    words: RougeWords = "ascii",
    stem: bool | None = None,
    kinds: Sequence[str] = tuple(ROUGE),
) -> dict[str, Score]:
    """Mean F-scores over the corpus, 0 to 100, as rouge1, rouge2 and rougeL; the best of several references counts.

    `ascii` and stemming (its default) are what papers on English report. Other languages need `unicode`, which does not
    stem: the stemmer is English.
    """
    library = import_module("rouge_score.rouge_scorer")  # here, as it loads nltk, which takes most of a second
    check_counts(hypotheses, references)
    stem = words == "ascii" if stem is None else stem
    if stem and words == "unicode":
        raise DataError("rouge", "stemming is for English only; use words='ascii' or stem=False")
    tokenizer = UnicodeWords() if words == "unicode" else None
    scorer = library.RougeScorer(list(kinds), use_stemmer=stem, tokenizer=tokenizer)
    rows = [scorer.score_multi(wordings, text) for text, *wordings in zip(hypotheses, *references, strict=True)]
    signature = f"nrefs:{len(references)}|words:{words}|stem:{'yes' if stem else 'no'}|version:{version('rouge-score')}"
    means = {kind: sum(row[kind].fmeasure for row in rows) / len(rows) for kind in kinds}
    return {kind: Score(ROUGE[kind], 100 * float(mean), signature) for kind, mean in means.items()}


class UnicodeWords:
    """Lower-cased runs of letters and digits of any script; the usual tokeniser cuts words at every ä, ß or ж."""

    def tokenize(self, text: str) -> list[str]:
        return re.findall(r"[^\W_]+", text.lower())


def exact_match(hypotheses: Sequence[Hashable], *references: Sequence[Hashable]) -> float:
    """Share of hypotheses that equal one of their references."""
    check_counts(hypotheses, references)
    matches = sum(hypothesis in wordings for hypothesis, *wordings in zip(hypotheses, *references, strict=True))
    return matches / len(hypotheses)


def gleu(hypothesis: Sequence[Hashable], reference: Sequence[Hashable], longest: int = 4) -> float:
    """Google's sentence score, 0 to 1: matching n-grams over the larger number of n-grams, n from 1 to `longest`.

    Made for rewards (Wu 2016): it needs no smoothing, and swapping the sides changes nothing. Takes words or token ids.
    """
    if isinstance(hypothesis, str) or isinstance(reference, str):
        raise DataError("gleu", "expected lists of words or token ids, got text; split it first")
    ours, theirs = _ngrams(hypothesis, longest), _ngrams(reference, longest)
    most = max(ours.total(), theirs.total())
    return (ours & theirs).total() / most if most else 1.0


def _ngrams(tokens: Sequence[Hashable], longest: int) -> Counter[tuple[Hashable, ...]]:
    sizes = range(1, longest + 1)
    return Counter(tuple(tokens[at : at + size]) for size in sizes for at in range(len(tokens) - size + 1))


@dataclass(frozen=True)
class Attachment:
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


def _rouge(kind: str, texts: Texts) -> Score:
    return rouge(texts.hypotheses, texts.references, kinds=[kind])[kind]


def _attachment(label: Literal["UAS", "LAS"], texts: Texts) -> Score:
    scores = attachment(texts.hypotheses, texts.references)
    return Score(label, scores.uas if label == "UAS" else scores.las, "")


def _pronouns(texts: Texts) -> Score | None:
    right, total = street.pronoun_accuracy(texts.sources, texts.hypotheses)
    return Score("pronoun accuracy", right / total, "") if total else None


PAIRS, CAPTIONS, SUMMARIES = "translation", "image_description", "summarisation"
for _metric in (
    Metric("uas", "UAS", True, percent=True, tasks=(PAIRS,), compute=partial(_attachment, "UAS"),
           applies_to=lambda source: source.is_treebank and source.target == "brackets"),
    Metric("las", "LAS", True, percent=True, tasks=(PAIRS,), compute=partial(_attachment, "LAS"),
           applies_to=lambda source: source.is_treebank and source.target == "brackets"),
    Metric("rouge_1", "ROUGE-1", True, test="sign_flips_of_examples", tasks=(SUMMARIES,),
           compute=partial(_rouge, "rouge1")),
    Metric("rouge_2", "ROUGE-2", True, test="sign_flips_of_examples", tasks=(SUMMARIES,),
           compute=partial(_rouge, "rouge2")),
    Metric("rouge_l", "ROUGE-L", True, test="sign_flips_of_examples", tasks=(SUMMARIES,),
           compute=partial(_rouge, "rougeL")),
    Metric("cut", "inputs cut", False, percent=True, is_quality=False),
    Metric("bleu", "BLEU", True, test="resampling", sacrebleu=partial(_sacrebleu, "bleu"), tasks=(PAIRS, CAPTIONS),
           compute=lambda texts: bleu(texts.hypotheses, texts.references)),
    Metric("chrf", "chrF", True, test="resampling", sacrebleu=partial(_sacrebleu, "chrf"), tasks=(PAIRS, CAPTIONS),
           compute=lambda texts: chrf(texts.hypotheses, texts.references)),
    Metric("ter", "TER", False, test="resampling", sacrebleu=partial(_sacrebleu, "ter"), tasks=(PAIRS,),
           compute=lambda texts: ter(texts.hypotheses, texts.references)),
    Metric("exact_match", "exact match", True, percent=True, tasks=(PAIRS, CAPTIONS),
           compute=lambda texts: Score("exact match", exact_match(texts.hypotheses, texts.references), "")),
    Metric("pronoun", "pronoun accuracy", True, percent=True, tasks=(PAIRS,), compute=_pronouns,
           applies_to=lambda source: source.street is not None),
):  # fmt: skip
    register(_metric)
