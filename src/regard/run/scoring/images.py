"""Scores of models that describe images: sentences beside sentences."""

import time
from dataclasses import replace
from typing import Any

from regard import metrics
from regard.data.examples import DescribedPicture
from regard.decode import Ensemble
from regard.run.scoring.report import Asked, Report, content_of, fingerprint


def score_image_description(asked: Asked) -> Report:
    """BLEU, chrF and exact match of what is written about the images."""
    began = time.perf_counter()
    examples = [example for example in asked.read() if isinstance(example, DescribedPicture)]
    together: list[Any] = [asked.model, *asked.others]
    writer: Any = asked.task.writer(Ensemble(together) if asked.others else asked.model, asked.device)
    writer = replace(writer, watch=asked.watch)
    found = writer.translate([example.picture for example in examples], asked.search)
    written, references = [outputs[0].text for outputs in found], [example.target for example in examples]
    scores = {"bleu": metrics.bleu(written, references), "chrf": metrics.chrf(written, references)}
    values = {name: score.value for name, score in scores.items()}
    values["exact_match"] = metrics.exact_match(written, references)
    return Report(
        values,
        len(examples),
        time.perf_counter() - began,
        {name: score.signature for name, score in scores.items()},
        {"written": written},
        {"written": written, "references": references},
        fingerprint(map(content_of, examples)),
    )
