"""Every public name has an example in its documentation, and it runs."""

import doctest
import inspect
from pathlib import Path

import pytest

import regard
from regard.api import inside, runs, training

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
EXAMPLES = [
    test for module in (inside, runs, training) for test in doctest.DocTestFinder().find(module) if test.examples
]
METHODS = ["translate", "generate", "classify", "evaluate", "export", "attention", "logits", "hidden", "patch", "look"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name.removeprefix("regard.api."))
def test_examples_run(example: doctest.DocTest, in_tour: Path):
    assert doctest.DocTestRunner(optionflags=FLAGS).run(example).failed == 0


def test_every_public_name_has_an_example():
    named = {name.rpartition(".")[2] for name in (example.name for example in EXAMPLES)}
    public = {name for name in regard.__all__ if name != "RegardError"}
    assert public <= named
    assert {*METHODS, "metrics"} <= named
    documented = {name for name, _ in inspect.getmembers(regard.Run, inspect.isfunction) if not name.startswith("_")}
    assert documented == {*METHODS}
