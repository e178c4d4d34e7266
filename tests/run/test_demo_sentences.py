"""The demo, trained as `regard demo` trains it, translates what people try first; and its own test still succeeds."""

import importlib.util
from pathlib import Path

import pytest

from regard import api
from regard.data import street
from regard.run.recipe import demo_recipe
from regard.text.training_words import TrainingWords

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("simple_sentences", ROOT / "benchmarks" / "simple_sentences.py")
assert SPEC is not None
assert SPEC.loader is not None
simple_sentences = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(simple_sentences)


def test_the_sentences_are_of_the_lexicon():
    """So that a failure is one of grammar, not of an unknown word."""
    asked = simple_sentences.sentences()
    assert len(asked) == len({one.source for one in asked}) == 150
    words = TrainingWords()
    for source, _ in street.pairs("train", 20_000):
        words.add(source)
    assert {word for one in asked for word in words.unseen(one.source)} == set()
    assert simple_sentences.Sentence("", "", ("Warte!", "Wartet!")).accepts("Warte.")


@pytest.mark.slow
def test_the_demo_survives_a_person(tmp_path: Path):
    run = api.train(demo_recipe(), out=tmp_path / "demo")
    scores = api.evaluate(run, "test").metrics
    assert scores["exact_match"] >= 0.95
    assert scores["pronoun"] >= 0.97
    assert simple_sentences.main(str(tmp_path / "demo")) >= 0.92
