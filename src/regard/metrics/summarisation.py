"""ROUGE-1, ROUGE-2 and ROUGE-L by rouge-score."""

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Literal

from regard.errors import DataError
from regard.metrics.registry import Metric, Score, check_counts, register

KINDS = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
NAMES = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}
Words = Literal["ascii", "unicode"]


class UnicodeWords:
    """Lower-cased runs of letters and digits of any script; the usual tokeniser cuts words at every ä, ß or ж."""

    def tokenize(self, text: str) -> list[str]:
        return re.findall(r"[^\W_]+", text.lower())


def rouge(
    hypotheses: Sequence[str],
    *references: Sequence[str],
    words: Words = "ascii",
    stem: bool | None = None,
    kinds: Sequence[str] = tuple(KINDS),
) -> dict[str, Score]:
    """Mean F-scores over the corpus, 0 to 100, as rouge1, rouge2 and rougeL; the best of several references counts.

    `ascii` and stemming (its default) are what papers on English report. Other languages need `unicode`, which does not
    stem: the stemmer is English.
    """
    from rouge_score.rouge_scorer import RougeScorer  # here, as it loads nltk, which takes most of a second

    check_counts(hypotheses, references)
    stem = words == "ascii" if stem is None else stem
    if stem and words == "unicode":
        raise DataError("rouge", "stemming is for English only; use words='ascii' or stem=False")
    scorer = RougeScorer(list(kinds), use_stemmer=stem, tokenizer=UnicodeWords() if words == "unicode" else None)
    rows = [scorer.score_multi(wordings, text) for text, *wordings in zip(hypotheses, *references, strict=True)]
    signature = f"nrefs:{len(references)}|words:{words}|stem:{'yes' if stem else 'no'}|version:{version('rouge-score')}"
    means = {kind: sum(row[kind].fmeasure for row in rows) / len(rows) for kind in kinds}
    return {kind: Score(KINDS[kind], 100 * float(mean), signature) for kind, mean in means.items()}


def _rouge(name: str, kind: str) -> Metric:
    return Metric(
        name, KINDS[kind], True, test="sign_flips_of_examples", tasks=("summarisation",),
        compute=lambda texts: rouge(texts.hypotheses, texts.references, kinds=[kind])[kind],
    )  # fmt: skip


for _name, _kind in NAMES.items():
    register(_rouge(_name, _kind))
register(Metric("cut", "inputs cut", False, percent=True, is_quality=False))
