"""The verbs from Python: one text or several, runs or their folders, and one sentence for a wrong argument."""

from pathlib import Path
from typing import Any

import pytest

from regard import api
from regard.data.sources import SourceConfig
from regard.decode import GreedyConfig
from regard.errors import ConfigError, DataError, InputError, RegardError
from regard.run.recipe import resolve_recipe

TRAIN = {"steps": 2, "tokens_per_batch": 256, "precision": "float32", "compile": "off", "device": "cpu"}
TINY = {"width": 16, "depth": 1, "heads": 2}
SEARCH = GreedyConfig(max_length=6)


class Silent(api.Watcher):
    """Says nothing."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, api.Run]:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text("the dog sees the cat\n" * 60)
    rows = [f"a {word} film {i}\t{label}" for i in range(20) for word, label in [("good", "pos"), ("bad", "neg")]]
    (folder / "films.tsv").write_text("\n".join(rows) + "\n")
    films = {"file": str(folder / "films.tsv"), "text": 0, "label": 1}
    trees: dict[str, dict[str, Any]] = {
        "translation": {"data": {"train": {"street": "train", "limit": 60}}, "tokenizer": {"kind": "bpe", "size": 300}},
        "language_model": {"data": {"train": {"file": str(folder / "text.txt")}}, "tokenizer": "char"},
        "classification": {"data": {"train": films, "test": films}, "tokenizer": "word"},
    }
    models = {"translation": "encoder-decoder", "language_model": "decoder", "classification": "encoder"}
    trees["language_model"]["data"]["batching"] = {"kind": "stream", "context": 16}
    return {
        task: api.train(
            resolve_recipe({"task": task, **tree, "model": {"kind": models[task], **TINY}, "train": TRAIN}),
            out=folder / task,
            watcher=Silent(),
        )
        for task, tree in trees.items()
    }


def test_one_text_gives_one_result_and_a_list_gives_a_list(runs):
    one, several = "The dog sleeps.", ["The dog sleeps.", "A cat."]
    assert api.translate(runs["translation"], one, SEARCH) == api.translate(runs["translation"], several, SEARCH)[0]
    assert (
        api.generate(runs["language_model"], "the", SEARCH) == api.generate(runs["language_model"], ["the"], SEARCH)[0]
    )
    assert (
        api.classify(runs["classification"], "a good film") == api.classify(runs["classification"], ("a good film",))[0]
    )
    assert api.translate(runs["translation"], [], SEARCH) == []
    assert api.translate(runs["translation"], "  ", SEARCH) == ""
    assert api.classify(runs["classification"], " ") is None


def test_runs_are_given_as_such_or_by_their_folders(runs):
    run = runs["classification"]
    expected = api.classify(run, "a good film")
    assert api.classify(run.folder, "a good film") == expected
    assert api.classify(str(run.folder), "a good film") == expected
    assert api.evaluate(str(run.folder)).metrics == api.evaluate(run).metrics


@pytest.mark.parametrize(("given", "said"), [
    (5, "texts: expected a list of texts, got a value of type int"),
    (None, "texts: expected a list of texts, got a value of type NoneType"),
    (b"bytes", "texts: expected a list of texts, got a value of type bytes"),
    ({"a": "b"}, "texts: expected a list of texts, got a value of type dict"),
    (["a", 5], "input 2: expected a text, got a value of type int"),
    (["a", None], "input 2: expected a text, got a value of type NoneType"),
    (["a", "\ud800"], "input 2: holds half a surrogate pair"),
    ([["a"]], "input 1: expected a text, got a value of type list"),
])  # fmt: skip
def test_what_is_no_text_is_refused_in_one_sentence(runs, given, said):
    for verb, task in (
        (api.translate, "translation"),
        (api.generate, "language_model"),
        (api.classify, "classification"),
    ):
        with pytest.raises(RegardError, match=f"^{said}"):
            verb(runs[task], given)


def test_methods_of_a_run_take_lists(runs):
    with pytest.raises(ConfigError, match="texts: expected a list of texts, got one text"):
        runs["translation"].translate("The dog sleeps.")
    with pytest.raises(ConfigError, match="texts: expected a list of texts, got one text"):
        runs["classification"].classify("a good film")
    with pytest.raises(InputError, match="expected a text, got a value of type list"):
        runs["language_model"].stream(["the"])


def test_a_byte_order_mark_is_no_part_of_a_text(runs):
    given = [api.translate(runs["translation"], mark + "The dog sleeps.", SEARCH) for mark in ("", "\ufeff")]
    assert given[0] == given[1]


@pytest.mark.parametrize("search", ["greedy", {"kind": "greedy"}, 5])
def test_a_search_is_a_config(runs, search):
    with pytest.raises(ConfigError, match="search: expected a GreedyConfig, BeamConfig or SampleConfig"):
        api.translate(runs["translation"], "The dog sleeps.", search)


@pytest.mark.parametrize("run", [None, 5, [], ""])
def test_what_is_no_run_is_refused(run):
    with pytest.raises(ConfigError, match="run: expected the name of a file or folder, got"):
        api.translate(run, "The dog sleeps.")


def test_data_of_an_evaluation(runs, tmp_path, monkeypatch):
    run = runs["translation"]
    (tmp_path / "a.en").write_text("The dog sleeps.\n")
    (tmp_path / "a.de").write_text("Der Hund schläft.\n")
    monkeypatch.chdir(tmp_path)
    reports = [
        api.evaluate(run, "a.en,a.de", SEARCH),
        api.evaluate(run, SourceConfig(source=str(tmp_path / "a.en"), target=str(tmp_path / "a.de")), SEARCH),
    ]
    assert reports[0].metrics == reports[1].metrics
    (tmp_path / "more.txt").write_text("the dog sees the cat\nthe cat\n")
    for file in ("more.txt", tmp_path / "more.txt"):
        report = api.evaluate(runs["language_model"], file)
        assert report.unit == "token"
        assert report.tree()["tokens"] == 29
        assert "examples" not in report.tree()
    with pytest.raises(ConfigError, match="data: expected"):
        api.evaluate(run, "a.en")
    with pytest.raises(DataError, match="no such file"):
        api.evaluate(runs["language_model"], "none.txt")
    with pytest.raises(ConfigError, match=r"data\.test: say where the test data lies"):
        api.evaluate(run)
    with pytest.raises(ConfigError, match="data: expected the name of a file or folder, got None"):
        api.evaluate(run, None)
    with pytest.raises(ConfigError, match="others: expected a list of runs, got one"):
        api.evaluate(run, "valid", SEARCH, run)
    with pytest.raises(ConfigError, match="data: expected one of train, valid, test, got 'tset'"):
        run.recipe.data.split("tset")


def test_settings_beside_a_recipe_that_has_them_are_refused(runs, tmp_path):
    with pytest.raises(ConfigError, match="settings: a Recipe has its settings already"):
        api.train(runs["translation"].recipe, "train.steps=3", out=tmp_path / "run")
    with pytest.raises(ConfigError, match=r"settings: expected texts such as .*, got \['train.steps=3'\]"):
        api.train(tmp_path / "recipe.toml", ["train.steps=3"], out=tmp_path / "run")
    with pytest.raises(ConfigError, match=r"recipe: expected the name of a file or folder, got \{\}"):
        api.train({}, out=tmp_path / "run")
    with pytest.raises(ConfigError, match="out: expected the name of a file or folder, got None"):
        api.train(runs["translation"].recipe, out=None)


def test_other_verbs_refuse_in_one_sentence(runs, tmp_path):
    with pytest.raises(RegardError, match=r"expected one of .*, got 'tpu'"):
        api.export(runs["translation"], "tpu", tmp_path / "out")
    with pytest.raises(ConfigError, match="examples: expected a whole number above 0, got 0"):
        api.export(runs["translation"], "onnx", tmp_path / "out", examples=0)
    with pytest.raises(ConfigError, match="unknown claim 'f99'"):
        api.claims("f99", out=tmp_path / "claims")
    with pytest.raises(InputError, match="expected a text, got a value of type int"):
        api.attention(runs["translation"], 5)
    with pytest.raises(ConfigError, match="nothing"):
        api.attention(runs["translation"], "The dog sleeps.", nothing=3)
    with pytest.raises(RegardError, match=r"none\.toml"):
        api.compare(str(tmp_path / "none.toml"), out=tmp_path / "compared")


def test_tokens_are_not_called_examples(runs, capsys):
    from typer.testing import CliRunner

    from regard.cli import app

    folder: Path = runs["language_model"].folder
    told = CliRunner().invoke(app, ["evaluate", str(folder), "--data", "valid", "--device", "cpu"]).stdout
    assert " valid: 63 tokens in " in told
    said: list[str] = []

    class Watching(Silent):
        def say(self, sentence: str) -> None:
            said.append(sentence)

    api.train(runs["language_model"].recipe, out=folder.parent / "again", watcher=Watching())
    assert any(sentence.startswith("1,197 tokens in 57 lines, ") for sentence in said)
