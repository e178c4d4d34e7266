"""BLEU, chrF and TER by sacrebleu, with its signatures; exact match; and two scores of single sentences for rewards."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from regard.data import street
from regard.errors import DataError
from regard.metrics.registry import Metric, Score, Texts, check_counts, register

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacrebleuMetric

BleuTokens = Literal["13a", "intl", "char", "zh", "none"]


def bleu(
    hypotheses: Sequence[str], *references: Sequence[str], tokenize: BleuTokens = "13a", lowercase: bool = False
) -> Score:
    """Corpus BLEU of detokenised text, 0 to 100; several lists of references may be given."""
    return _corpus(_bleu(tokenize=tokenize, lowercase=lowercase), hypotheses, references)


def chrf(hypotheses: Sequence[str], *references: Sequence[str], word_order: int = 0, lowercase: bool = False) -> Score:
    """Corpus chrF, 0 to 100: F-score of character n-grams; `word_order=2` is chrF++."""
    return _corpus(_chrf(word_order=word_order, lowercase=lowercase), hypotheses, references)


def ter(hypotheses: Sequence[str], *references: Sequence[str], case_sensitive: bool = False) -> Score:
    """Corpus translation edit rate in percent: lower is better, and more than 100 is possible."""
    return _corpus(_ter(case_sensitive=case_sensitive), hypotheses, references)


def exact_match(hypotheses: Sequence[Hashable], *references: Sequence[Hashable]) -> float:
    """Share of hypotheses that equal one of their references."""
    check_counts(hypotheses, references)
    matches = sum(hypothesis in wordings for hypothesis, *wordings in zip(hypotheses, *references, strict=True))
    return matches / len(hypotheses)


def _bleu(**settings: Any) -> "SacrebleuMetric":  # noqa: ANN401
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(**settings)


def _chrf(**settings: Any) -> "SacrebleuMetric":  # noqa: ANN401
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(**settings)


def _ter(**settings: Any) -> "SacrebleuMetric":  # noqa: ANN401
    from sacrebleu.metrics.ter import TER

    return TER(**settings)


def _pronouns(texts: Texts) -> Score | None:
    right, total = street.pronoun_accuracy(texts.sources, texts.hypotheses)
    return Score("pronoun accuracy", right / total, "") if total else None


PAIRS, CAPTIONS = "translation", "image_description"
for _metric in (
    Metric("bleu", "BLEU", True, test="resampling", sacrebleu=_bleu, tasks=(PAIRS, CAPTIONS),
           compute=lambda texts: bleu(texts.hypotheses, texts.references)),
    Metric("chrf", "chrF", True, test="resampling", sacrebleu=_chrf, tasks=(PAIRS, CAPTIONS),
           compute=lambda texts: chrf(texts.hypotheses, texts.references)),
    Metric("ter", "TER", False, test="resampling", sacrebleu=_ter, tasks=(PAIRS,),
           compute=lambda texts: ter(texts.hypotheses, texts.references)),
    Metric("exact_match", "exact match", True, percent=True, tasks=(PAIRS, CAPTIONS),
           compute=lambda texts: Score("exact match", exact_match(texts.hypotheses, texts.references), "")),
    Metric("pronoun", "pronoun accuracy", True, percent=True, tasks=(PAIRS,), compute=_pronouns,
           applies_to=lambda source: source.street is not None),
):  # fmt: skip
    register(_metric)


def sentence_bleu(hypothesis: str, *references: str, tokenize: BleuTokens = "13a", lowercase: bool = False) -> float:
    """BLEU of one sentence, 0 to 100, exponentially smoothed; n-grams longer than the sentence do not count."""
    check_counts([hypothesis], [[reference] for reference in references])
    metric = _bleu(tokenize=tokenize, lowercase=lowercase, effective_order=True)
    return metric.sentence_score(hypothesis, list(references)).score


def gleu(hypothesis: Sequence[Hashable], reference: Sequence[Hashable], longest: int = 4) -> float:
    """Google's sentence score, 0 to 1: matching n-grams over the larger number of n-grams, n from 1 to `longest`.

    Made for rewards (Wu 2016): it needs no smoothing, and swapping the sides changes nothing. Takes words or token ids.
    """
    if isinstance(hypothesis, str) or isinstance(reference, str):
        raise DataError("gleu", "expected lists of words or token ids, got text; split it first")
    ours, theirs = _ngrams(hypothesis, longest), _ngrams(reference, longest)
    most = max(ours.total(), theirs.total())
    return (ours & theirs).total() / most if most else 1.0


def _corpus(metric: "SacrebleuMetric", hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    check_counts(hypotheses, references)
    score = metric.corpus_score(hypotheses, references)
    return Score(score.name, score.score, str(metric.get_signature()))


def _ngrams(tokens: Sequence[Hashable], longest: int) -> Counter[tuple[Hashable, ...]]:
    sizes = range(1, longest + 1)
    return Counter(tuple(tokens[at : at + size]) for size in sizes for at in range(len(tokens) - size + 1))
