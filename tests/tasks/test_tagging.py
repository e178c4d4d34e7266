"""Tagging: the loss over words, trees that reach the model, and a run from recipe to tags."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from regard import api
from regard.cli import app
from regard.data.batches import BucketedConfig, PackedConfig
from regard.data.examples import SourceLocation, Tagged
from regard.data.settings import DataConfig
from regard.data.store import Store, open_store
from regard.errors import ConfigError, DataError, InputError, RegardError
from regard.look import trace
from regard.models import EncoderConfig, RecurrentEncoderConfig, WindowEncoderConfig
from regard.nn.loss import IGNORED
from regard.run.recipe import Recipe, read_recipe, resolve_recipe
from regard.tasks import Tagging, TaggingConfig, Vocabularies
from regard.tasks.tensors import to_sequences, with_heads
from regard.tasks.trained import Trained
from regard.text.tokenizer import BpeConfig, CharConfig, Tokenizer
from regard.web import ServeConfig, make_app

EXAMPLES = Path(__file__).parents[2] / "examples" / "syntax"
TAGS = ["DET", "NOUN", "VERB"]
SMALL: dict[str, Any] = {"width": 16, "depth": 2, "heads": 2, "dropout": 0.0}
HERE = SourceLocation("some.conllu", 1)
SENTENCES = [
    Tagged(("the", "dog", "sleeps"), ("DET", "NOUN", "VERB"), (2, 3, 0), HERE),
    Tagged(("a", "cat", "sees", "the", "dog"), ("DET", "NOUN", "VERB", "DET", "NOUN"), (2, 3, 0, 5, 3), HERE),
    Tagged(("dogs", "see"), ("NOUN", "VERB"), (2, 0), HERE),
]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def task() -> Tagging:
    tokenizer = Tokenizer.train([sentence.text for sentence in SENTENCES], CharConfig())
    return TaggingConfig().task(Vocabularies({"text": tokenizer}, TAGS))


def store_of(task: Tagging, folder: Path, sentences: list[Tagged] = SENTENCES) -> Store:
    fields = task.fields(DataConfig(), CharConfig(), training=True)
    return open_store(lambda: map(task.row, sentences), fields, cache=folder)


def built(task: Tagging, config: Any) -> Any:
    torch.manual_seed(1)
    return task.build(config).eval()


@pytest.mark.parametrize("position", ["sinusoidal", "tree"])
def test_the_loss_is_that_of_the_words(task: Tagging, tmp_path: Path, position: str):
    config = EncoderConfig(**SMALL, position=position)
    model = built(task, config)
    batches = BucketedConfig().build(store_of(task, tmp_path), tokens_per_batch=200)
    inputs = task.inputs(batches.batch(0, 0), model.config, CPU)
    words = [len(SENTENCES[example].words) for example in batches.batch(0, 0).examples]
    assert inputs.count == sum(words) == int((inputs.targets != IGNORED).sum())
    logits = model(*inputs.arguments).detach()
    expected = 0.0
    for row, example in enumerate(batches.batch(0, 0).examples):
        place = 0
        for number, word in enumerate(SENTENCES[example].words):
            tag = torch.tensor(TAGS.index(SENTENCES[example].tags[number]))
            expected += float(F.cross_entropy(logits[row, place], tag))
            place += len(word) + (number > 0)  # each but the first has a space before it
    assert task.loss(model, inputs).item() == pytest.approx(expected, rel=1e-5)
    with torch.no_grad():
        sums = task.measure(model, inputs)
    assert sums["nll"] == pytest.approx(expected, rel=1e-5)
    assert task.summarise(sums)["accuracy"] == sums["right"] / sum(words)


@pytest.mark.parametrize("position", ["sinusoidal", "tree"])
def test_packed_sentences_are_tagged_as_padded_ones(task: Tagging, tmp_path: Path, position: str):
    model = built(task, EncoderConfig(**SMALL, position=position))
    store = store_of(task, tmp_path)
    found = []
    for batching in (BucketedConfig(), PackedConfig()):
        batch = batching.build(store, tokens_per_batch=200).batch(0, 0)
        inputs = task.inputs(batch, model.config, CPU)
        counted = inputs.targets != IGNORED
        rows = model(*inputs.arguments)[counted].split([len(SENTENCES[i].words) for i in batch.examples])
        found.append(dict(zip(batch.examples.tolist(), rows, strict=True)))
    for example, logits in found[0].items():
        torch.testing.assert_close(logits, found[1][example], atol=1e-5, rtol=1e-4)


def test_the_tree_decides_where_it_is_followed_and_nowhere_else(task: Tagging):
    other = Tagged(SENTENCES[1].words, (), (3, 1, 0, 2, 4), HERE)
    for position, moves in (("tree", True), ("rotary", False)):
        model = built(task, EncoderConfig(**SMALL, position=position))
        first, second = task.tag(model, [SENTENCES[1], other], CPU)
        assert (first != second) is moves


def test_heads_count_from_the_start_of_their_own_sentence(task: Tagging, tmp_path: Path):
    for batching in (BucketedConfig(), PackedConfig()):
        batch = batching.build(store_of(task, tmp_path), tokens_per_batch=200).batch(0, 0)
        text, heads = batch.fields["text"], batch.fields["heads"]
        layout = with_heads(to_sequences(text, CPU), heads).layout
        assert layout.tree is not None
        assert torch.equal(layout.segment.gather(1, layout.tree), layout.segment)  # nobody's head is elsewhere
        within = layout.index.gather(1, layout.tree)[layout.valid]
        assert torch.equal(within, torch.from_numpy(heads.tokens)[layout.valid])


@pytest.mark.parametrize("config", [RecurrentEncoderConfig(width=16, depth=1), WindowEncoderConfig(width=16, depth=2)])
def test_encoders_of_any_kind_can_tag(task: Tagging, config: Any):
    model = built(task, config)
    assert sum(weight.numel() for weight in model.parameters()) == task.num_params(config)
    assert [len(tags) for tags in task.tag(model, SENTENCES, CPU)] == [3, 5, 2]


def test_neighbours_in_a_batch_do_not_matter(task: Tagging):
    model = built(task, EncoderConfig(**SMALL, position="tree"))
    together = task.tag(model, SENTENCES, CPU)
    for sentence, tags in zip(SENTENCES, together, strict=True):
        alone = task.tag(model, [sentence], CPU)[0]
        assert [tag for tag, _ in alone] == [tag for tag, _ in tags]
        assert [p for _, p in alone] == pytest.approx([p for _, p in tags], abs=1e-5)


def test_lines_get_a_tag_a_word_and_blank_ones_none(task: Tagging):
    model = built(task, EncoderConfig(**SMALL))
    found = task.classify(model, ["the  dog sleeps ", " ", "dogs"], CPU)
    assert found[1] is None
    label, probability = next(iter((found[0] or {}).items()))
    expected = task.tag(model, SENTENCES[:1], CPU)[0]
    assert label == " ".join(tag for tag, _ in expected)
    assert probability == pytest.approx(torch.tensor([p for _, p in expected]).prod().item())


def test_what_has_no_tree_is_refused_where_one_is_needed(task: Tagging, tmp_path: Path):
    model = built(task, EncoderConfig(**SMALL, position="tree"))
    with pytest.raises(InputError, match=r"input 2: this model follows the dependency tree .* give a CoNLL-U file"):
        task.classify(model, ["", "the dog"], CPU)
    flat = [Tagged(("dogs",), ("NOUN",), None, HERE)]
    batch = BucketedConfig().build(store_of(task, tmp_path, flat), tokens_per_batch=200).batch(0, 0)
    with pytest.raises(ConfigError, match=r"model\.position: 1 of 1 sentences have no dependency tree .* a parser"):
        task.inputs(batch, model.config, CPU)
    task.inputs(batch, EncoderConfig(**SMALL), CPU)


def test_tags_and_lengths_that_are_unknown_are_refused(task: Tagging):
    with pytest.raises(DataError, match=r"some\.conllu:1: tag 'NOUM' is unknown in the training data; did you mean 'N"):
        task.row(Tagged(("dog",), ("NOUM",), (0,), HERE))
    with pytest.raises(RegardError, match="input 1: 15 tokens, the model takes at most 8"):
        task.tag(built(task, EncoderConfig(**SMALL)), SENTENCES[:1], CPU, longest=8)
    with pytest.raises(ConfigError, match="tokenizer: words with tags are cut in one way only"):
        task.fields(DataConfig(), BpeConfig(dropout=0.1), training=True)


def recipe(**changes: Any) -> dict[str, Any]:
    tree = {
        "task": "tagging",
        "data": {"train": {"file": str(EXAMPLES / "train.conllu")}, "test": {"file": str(EXAMPLES / "test.conllu")}},
        "tokenizer": "word",
        "model": {"kind": "encoder", "width": 32, "depth": 1, "heads": 2, "dropout": 0.0, "position": "tree"},
        "train": {"steps": 60, "tokens_per_batch": 256, "save_every": 30, "precision": "float32", "compile": "off",
                  "schedule": {"kind": "constant", "lr": 5e-3}},
    }  # fmt: skip
    for path, value in changes.items():
        section, _, key = path.partition("__")
        tree[section] = {**tree[section], key: value} if key else value
    return tree


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model": {"kind": "decoder"}}, "model.kind: tagging needs one of encoder,"),
        ({"model__head": "pooled"}, "model.head: a tag for each word needs 'token', got 'pooled'"),
        ({"data__batching": "stream"}, "data.batching: sentences with tags need 'bucketed' or 'packed' batches"),
        ({"data__overlong": "cut"}, "data.overlong: a sentence with its tree cannot be cut"),
        ({"data__train": {"file": "a.txt"}}, "data.train: expected tagged sentences: a .conllu file"),
        (
            {"task": "classification", "data": {"train": {"file": "a.tsv", "text": 0, "label": 1}}},
            "model.position: only tagging reads sentences with their trees; choose another kind",
        ),
    ],
)
def test_recipes_that_cannot_be_are_refused(changes: dict[str, Any], sentence: str):
    with pytest.raises(ConfigError) as refused:
        resolve_recipe(recipe(**changes)).check()
    assert str(refused.value).startswith(sentence)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tagging") / "run"
    api.train(resolve_recipe(recipe()), out=folder)
    return folder


def test_a_run_learns_tags_and_is_tested_on_words(run: Path):
    report = api.evaluate(run, "test")
    words = [line for line in (EXAMPLES / "test.conllu").read_text().splitlines() if line[:1].isdigit()]
    assert report.examples == len(words) == len(report.evidence["right"])
    assert report.metrics["accuracy"] == pytest.approx(sum(report.evidence["right"]) / len(words))
    assert report.metrics["accuracy"] > 0.9
    assert set(report.details["labels"]) == {"ADJ", "ADP", "DET", "NOUN", "PUNCT", "VERB"}


def test_the_command_line_tags_treebanks_and_refuses_bare_text(run: Path):
    tagged = CliRunner().invoke(app, ["classify", str(run), str(EXAMPLES / "test.conllu"), "--json"])
    lines = [json.loads(line) for line in tagged.stdout.splitlines()]
    assert len(lines) == 80
    assert all(len(line["text"].split()) == len(line["label"].split()) for line in lines)
    with pytest.raises(DataError, match=r"standard input:1: .* give a CoNLL-U file"):
        CliRunner().invoke(app, ["classify", str(run)], input="the dog sleeps .\n", catch_exceptions=False)


def test_a_run_goes_on_where_it_stopped_and_starts_others(run: Path, tmp_path: Path):
    longer = resolve_recipe(recipe(train={**recipe()["train"], "steps": 62}))
    api.train(longer, out=run, resume=True)
    assert api.load(run, which="last").step == 62
    begun = resolve_recipe({"model": {"from": str(run)}, **{key: recipe()[key] for key in ("task", "data")},
                            "train": {**recipe()["train"], "steps": 2}})  # fmt: skip
    assert api.train(begun, out=tmp_path / "second").task.vocabularies.labels == api.load(run).task.vocabularies.labels


@pytest.mark.gpu
def test_a_gpu_tags_as_a_processor_does(task: Tagging):
    model = built(task, EncoderConfig(**SMALL, position="tree"))
    here = task.tag(model, SENTENCES, CPU)
    there = task.tag(model.cuda(), SENTENCES, torch.device("cuda"))
    for one, other in zip(here, there, strict=True):
        assert [tag for tag, _ in one] == [tag for tag, _ in other]
        assert [p for _, p in one] == pytest.approx([p for _, p in other], abs=1e-4)


@pytest.mark.parametrize("name", ["upos", "parse"])
def test_the_recipes_of_syntax_are_valid(name: str):
    read_recipe(EXAMPLES.parents[1] / "recipes" / "syntax" / f"{name}.toml").check()


@pytest.mark.parametrize("name", ["syntax", "questions", "data-to-text"])
def test_the_examples_are_what_their_scripts_write(name: str, tmp_path: Path):
    folder = EXAMPLES.parent / name
    scope: dict[str, Any] = {"__name__": "make", "__file__": str(folder / "make.py")}
    exec(compile((folder / "make.py").read_text(encoding="utf-8"), "make.py", "exec"), scope)
    scope["main"](tmp_path)
    made = sorted(tmp_path.iterdir())
    assert len(made) >= 2
    seen: set[str] = set()
    for file in made:
        assert file.read_bytes() == (folder / file.name).read_bytes()
        keys = {line.split("\t")[0] for line in file.read_text().splitlines()[1:]} if file.suffix == ".tsv" else {
            line for line in file.read_text().splitlines() if line.startswith("# text")
        }  # fmt: skip
        assert not keys & seen
        seen |= keys


def test_a_server_tags_words_and_says_what_it_cannot(run: Path):
    app = make_app({"trees": run}, ServeConfig(), device="cpu")
    with TestClient(app, base_url="http://127.0.0.1") as client:
        refused = client.post("/classify", json={"text": "the dog sleeps ."})
        assert refused.status_code == 400
        assert "give a CoNLL-U file" in refused.json()["error"]
        assert client.post("/classify", json={"text": ""}).json() == {"label": None, "probabilities": None}
        page = client.get("/")  # asks for another input, and says why this run cannot take a plain sentence
        assert page.status_code == 200


def test_a_page_tells_all_tags_and_each(task: Tagging):
    model = built(task, EncoderConfig(**SMALL))
    trained = Trained(model, task, Recipe(task=task.config, model=model.config), CPU, "", 0)
    tree = trace(trained, "the dog sleeps", shuffles=1)
    whole, *words = tree["generation"]["classes"]
    tagged = task.tag(model, SENTENCES[:1], CPU)[0]
    assert whole[0] == " ".join(tag for tag, _ in tagged)
    pairs = zip(SENTENCES[0].words, tagged, strict=True)
    assert [label for label, _ in words] == [f"{word}: {tag}" for word, (tag, _) in pairs]
    assert [p for _, p in words] == pytest.approx([p for _, p in tagged], abs=1e-5)
