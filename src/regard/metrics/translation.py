"""BLEU, chrF and TER by sacrebleu, with its signatures; and two scores of single sentences for rewards."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from regard.errors import DataError
from regard.metrics.score import Score, check_counts

BleuTokens = Literal["13a", "intl", "char", "zh", "none"]


def bleu(
    hypotheses: Sequence[str], *references: Sequence[str], tokenize: BleuTokens = "13a", lowercase: bool = False
) -> Score:
    """Corpus BLEU of detokenised text, 0 to 100; several lists of references may be given."""
    return _corpus(BLEU(tokenize=tokenize, lowercase=lowercase), hypotheses, references)


def chrf(hypotheses: Sequence[str], *references: Sequence[str], word_order: int = 0, lowercase: bool = False) -> Score:
    """Corpus chrF, 0 to 100: F-score of character n-grams; `word_order=2` is chrF++."""
    return _corpus(CHRF(word_order=word_order, lowercase=lowercase), hypotheses, references)


def ter(hypotheses: Sequence[str], *references: Sequence[str], case_sensitive: bool = False) -> Score:
    """Corpus translation edit rate in percent: lower is better, and more than 100 is possible."""
    return _corpus(TER(case_sensitive=case_sensitive), hypotheses, references)


def sentence_bleu(hypothesis: str, *references: str, tokenize: BleuTokens = "13a", lowercase: bool = False) -> float:
    """BLEU of one sentence, 0 to 100, exponentially smoothed; n-grams longer than the sentence do not count."""
    check_counts([hypothesis], [[reference] for reference in references])
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=True)
    return metric.sentence_score(hypothesis, list(references)).score


def gleu(hypothesis: Sequence[Hashable], reference: Sequence[Hashable], longest: int = 4) -> float:
    """Google's sentence score, 0 to 1: matching n-grams over the larger number of n-grams, n from 1 to `longest`.

    Made for rewards (Wu 2016): it needs no smoothing, and swapping the sides changes nothing. Takes words or token ids.
    """
    if isinstance(hypothesis, str) or isinstance(reference, str):
        raise DataError("gleu", "expected lists of words or token ids, got text; split it first")
    written, wanted = _ngrams(hypothesis, longest), _ngrams(reference, longest)
    most = max(written.total(), wanted.total())
    return (written & wanted).total() / most if most else 1.0


def _corpus(metric: BLEU | CHRF | TER, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    check_counts(hypotheses, references)
    score = metric.corpus_score(hypotheses, references)
    return Score(score.name, score.score, str(metric.get_signature()))


def _ngrams(tokens: Sequence[Hashable], longest: int) -> Counter[tuple[Hashable, ...]]:
    sizes = range(1, longest + 1)
    return Counter(tuple(tokens[at : at + size]) for size in sizes for at in range(len(tokens) - size + 1))
