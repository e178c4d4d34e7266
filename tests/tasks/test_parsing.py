"""Parsers that write: what `regard evaluate` says about brackets, and about other texts of a treebank."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from regard.data.source_reader import read_pairs
from regard.data.sources import SourceConfig
from regard.decode import GreedyConfig
from regard.run.scoring import Report, ScoringRequest
from regard.run.scoring.scorers import score_texts
from regard.tasks import TranslationConfig

TREEBANK = Path(__file__).parents[2] / "examples" / "syntax" / "test.conllu"


def scored(source: SourceConfig, change: tuple[str, str] = ("", "")) -> Report:
    """The scores of a model that writes the references with something changed."""
    references = {pair.source: pair.target for pair in read_pairs(source)}

    @dataclass
    class Changed:
        watch: Callable[[], None] = lambda: None

        def translate(self, texts: list[str], _search: Any, cut: bool) -> list[list[Any]]:
            return [[SimpleNamespace(text=references[text].replace(*change))] for text in texts]

    task: Any = SimpleNamespace(generator=lambda *_: Changed(), config=TranslationConfig())
    preparation: Any = SimpleNamespace(base=Path())
    return score_texts(
        ScoringRequest(
            task, nn.Module(), source, preparation, torch.device("cpu"), GreedyConfig(), tokens_per_batch=100
        )
    )


def test_brackets_are_scored_by_attachment():
    source = SourceConfig(file=str(TREEBANK), source="words", target="brackets")
    trees = [pair.target for pair in read_pairs(source)]
    words = sum(len(pair.source.split()) for pair in read_pairs(source))
    same, other = scored(source).metrics, scored(source, ("(amod ", "(nmod ")).metrics
    assert (same["uas"], same["las"], same["exact_match"]) == (1.0, 1.0, 1.0)
    assert other["uas"] == 1.0
    assert other["las"] == pytest.approx(1 - sum(tree.count("(amod ") for tree in trees) / words)
    assert other["exact_match"] == sum("(amod " not in tree for tree in trees) / len(trees)


def test_other_texts_of_a_treebank_have_no_attachment():
    source = SourceConfig(file=str(TREEBANK), source="words", target="upos")
    assert scored(source).metrics["exact_match"] == 1.0
    assert "uas" not in scored(source).metrics
