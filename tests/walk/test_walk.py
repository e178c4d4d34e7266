"""Every setting acts or is refused: the walk over the recipe's tree, and the cases that it must find."""

from pathlib import Path
from typing import Any

import pytest
from walk_corpus import write_corpus
from walk_hints import EXCEPTIONS, HINTS, exempt, hints_for
from walk_leaves import SEARCH, leaves
from walk_outcome import train
from walk_report import page, verdicts
from walk_situations import Situation, situations

from regard.errors import ConfigError
from regard.run.recipe import resolve_recipe
from regard.run.unused_settings import refuse_unused
from walk import Step, Walk, lay, walk_all

LEAVES = [leaf for leaf in leaves() if leaf.section != SEARCH]
LINES, DOCUMENTS = "language_model/lines/decoder", "language_model/documents/decoder"
MASKED, TAGGING = "masked_language_model/documents/encoder", "tagging/conllu/encoder"
TRANSLATION, CLASSIFICATION = "translation/files/encoder-decoder", "classification/tsv/encoder"
IMAGES = "image_classification/folders/vision"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("walk") / "corpus"
    folder.mkdir()
    write_corpus(folder)
    return folder


def in_situation(name: str, *changes: dict[str, Any]) -> dict[str, Any]:
    tree = Situation(*name.split("/")).tree()
    for change in changes:
        tree = lay(tree, change)
    return tree


def test_every_setting_is_walked_over():
    everywhere = list(situations())
    missed = [leaf.name for leaf in LEAVES if not any(each.walks(leaf) for each in everywhere)]
    assert len(LEAVES) > 1200
    assert not missed, f"no situation of walk_situations.py tries {missed[:5]}"


def test_every_hint_and_every_exception_is_for_some_setting():
    used = {hint.pattern for leaf in LEAVES for hint in hints_for(leaf)}
    assert not [hint.pattern for hint in HINTS if hint.pattern not in used]
    excepted = {exception.pattern for leaf in LEAVES if (exception := exempt(leaf))}
    assert {exception.pattern for exception in EXCEPTIONS} == excepted


def test_a_recipe_that_is_trained_twice_gives_the_same(corpus: Path):
    for name in (TRANSLATION, CLASSIFICATION):
        first, second = (train(in_situation(name), corpus)[0] for _ in range(2))
        assert first.refusal is None
        assert first.same(second), first.differences(second)


@pytest.mark.parametrize(
    ("situation", "change", "path"),
    [
        (LINES, {"tokenizer": {"kind": "bpe", "size": 290, "dropout": 0.1}}, "tokenizer.dropout"),
        (DOCUMENTS, {"tokenizer": {"kind": "bpe", "size": 290, "dropout": 0.1}}, "tokenizer.dropout"),
        (DOCUMENTS, {"tokenizer": {"kind": "unigram", "size": 290, "alpha": 0.2}}, "tokenizer.alpha"),
        (DOCUMENTS, {"data": {"overlong": "cut"}}, "data.overlong"),
        (DOCUMENTS, {"data": {"max_length": 100}}, "data.max_length"),
        (DOCUMENTS, {"data": {"max_length": 100, "batching": {"kind": "packed"}}}, "data.max_length"),
        (MASKED, {"data": {"max_length": 100}}, "data.max_length"),
        (MASKED, {"tokenizer": {"joint": False}}, "tokenizer.joint"),
        (TAGGING, {"tokenizer": {"kind": "bpe", "size": 290, "dropout": 0.1}}, "tokenizer"),
        (TRANSLATION, {"tokenizer": {"kind": "byte", "joint": False}}, "tokenizer.joint"),
        (TRANSLATION, {"train": {"expert_parallel": "auto"}}, "train.expert_parallel"),
        (CLASSIFICATION, {"model": {"embedding": {"share": "none"}}}, "model.embedding.share"),
        (CLASSIFICATION, {"model": {"attention": "linformer", "position": "alibi"}}, "model.position"),
        (CLASSIFICATION, {"model": {"head": "token"}}, "model.head"),
        (TRANSLATION, {"data": {"batching": {"kind": "stream", "context": 8, "field": "source"}}}, "data.batching"),
        (
            "classification/tsv/encoder",
            {"model": {"attention": {"kind": "memory-compressed", "block": 8}}},
            "model.attention.block",
        ),
        (IMAGES, {"data": {"batching": {"kind": "bucketed", "pool": 3}}}, "data.batching.pool"),
        (IMAGES, {"tokenizer": {"kind": "word"}}, "tokenizer"),
        (IMAGES, {"data": {"max_length": 9}}, "data.max_length"),
        ("language_model/lines/recurrent", {"model": {"dropout": {"attention": 0.1}}}, "model.dropout.attention"),
        ("translation/files/convs2s", {"train": {"residual_dtype": "float32"}}, "train.residual_dtype"),
        (
            "translation/files/bytenet",
            {"model": {"initialise": {"kind": "normal", "shrink": False}}},
            "model.initialise.shrink",
        ),
    ],
)
def test_a_setting_that_task_or_model_does_not_know_is_refused(
    situation: str, change: dict[str, Any], path: str, corpus: Path
):
    refusal = train(in_situation(situation, change), corpus)[0].refusal
    assert refusal is not None
    assert refusal.startswith(f"{path}: ")
    assert "\n" not in refusal


@pytest.mark.parametrize(
    ("situation", "path", "beside", "value"),
    [
        (TRANSLATION, "model.norm_place", {"model": {"norm": "none"}}, "after"),
        (TRANSLATION, "model.final_norm", {"model": {"norm": "none"}}, True),
        (TRANSLATION, "model.embedding.norm", {"model": {"norm": "none"}}, True),
        (TRANSLATION, "model.dropout.feedforward", {"model": {"feedforward": "none"}}, 0.1),
        (TRANSLATION, "model.head.transform_epsilon", {}, 0.5),
        (TRANSLATION, "train.average", {}, 1),
        (TRANSLATION, "train.optimiser.decay_on", {"train": {"optimiser": {"weight_decay": 0.0}}}, "all"),
        (TRANSLATION, "train.optimiser.decoupled", {"train": {"optimiser": {"weight_decay": 0.0}}}, False),
        (TRANSLATION, "task.consistency", {"model": {"dropout": 0.0}}, 1.0),
        (MASKED, "task.masking.whole_words", {}, True),
        ("translation/files/convs2s", "model.kernel", {"model": {"stages": [{"layers": 2, "hidden": 6}]}}, 5),
        ("translation/files/lstm-seq2seq", "model.readout", {"model": {"attention": "none"}}, "tanh"),
        ("language_model/lines/recurrent", "model.dropout.between", {"model": {"depth": 1}}, 0.4),
        ("language_model/lines/recurrent", "model.dropout.locked", {}, True),
        ("language_model/lines/recurrent", "model.initialise.forget", {"model": {"cell": "gru"}}, 0.5),
    ],
)
def test_a_setting_that_another_leaves_nothing_to_do_is_refused(
    situation: str, path: str, beside: dict[str, Any], value: object
):
    change: Any = value
    for key in reversed(path.split(".")):
        change = {key: change}
    recipes = [resolve_recipe(in_situation(situation, *changes)) for changes in ([beside], [beside, change], [change])]
    refuse_unused(recipes[0])
    with pytest.raises(ConfigError, match=rf"^{path}: has no effect .*; leave it out$"):
        refuse_unused(recipes[1])
    if beside:
        refuse_unused(recipes[2])


def test_what_a_run_had_before_is_accepted():
    old = resolve_recipe(in_situation(DOCUMENTS, {"data": {"max_length": 100}}))
    refuse_unused(old, before=old)
    with pytest.raises(ConfigError, match=r"data\.max_length: has no effect"):
        refuse_unused(old.but(data=old.data.but(max_length=50)), before=old)


@pytest.mark.parametrize("batching", ["bucketed", "packed"])
@pytest.mark.parametrize("sampling", [{"kind": "bpe", "dropout": 0.3}, {"kind": "unigram", "alpha": 0.2}])
def test_documents_of_a_language_model_are_cut_in_many_ways(batching: str, sampling: dict[str, Any], corpus: Path):
    whole = {"data": {"batching": {"kind": batching}}, "tokenizer": {"kind": sampling["kind"], "size": 290}}
    plain, drawn = (train(in_situation(DOCUMENTS, whole, {"tokenizer": each}), corpus)[0] for each in ({}, sampling))
    assert (plain.refusal, drawn.refusal) == (None, None)
    assert "lines" in plain.differences(drawn)


def findings(steps: list[Step]) -> str:
    return "\n".join(step.sentence for step in steps if step.is_finding)


def test_a_sample_of_the_settings(tmp_path: Path):
    number = iter(range(10**6))

    def chosen(leaf: Any, situation: Situation) -> bool:
        return next(number) % (12 if leaf.section == "model" else 40) == 7

    steps = list(walk_all(tmp_path, chosen))
    assert len(steps) > 100
    assert not findings(steps), findings(steps)
    assert sum(step.result == "acts" for step in steps) > len(steps) / 3


@pytest.mark.slow
def test_all_settings(tmp_path: Path):
    steps = list(walk_all(tmp_path))
    print(page(steps))  # noqa: T201
    assert set(verdicts(steps)) == set(LEAVES)
    assert not findings(steps), findings(steps)


def test_a_setting_that_nothing_reads_is_a_finding(corpus: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("walk_outcome.refuse_unused", lambda *_: None)
    monkeypatch.setattr("regard.run.training.refuse_unused", lambda *_: None)
    leaf = next(leaf for leaf in LEAVES if leaf.name == "tokenizer:bpe.dropout")
    assert Walk(corpus).step(leaf, Situation(*DOCUMENTS.split("/"))).result == "silent"
