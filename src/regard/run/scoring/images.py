"""Scores of models that describe images: sentences beside sentences."""

import time
from dataclasses import replace
from typing import Any

from regard import metrics
from regard.data.examples import DescribedPicture
from regard.decode import Ensemble
from regard.run.scoring.report import Report, ScoringRequest, content_of, fingerprint


def score_image_description(request: ScoringRequest) -> Report:
    """BLEU, chrF and exact match of what is written about the images."""
    began = time.perf_counter()
    examples = [example for example in request.read() if isinstance(example, DescribedPicture)]
    together: list[Any] = [request.model, *request.others]
    generator: Any = request.task.generator(Ensemble(together) if request.others else request.model, request.device)
    generator = replace(generator, watch=request.watch)
    found = generator.translate([example.picture for example in examples], request.search)
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
