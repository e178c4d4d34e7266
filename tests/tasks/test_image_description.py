"""Image description all the way: trained, tested, used, looked at, refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from image_sets import Quiet, classification, description, draw
from typer.testing import CliRunner

from regard import api
from regard.cli import app
from regard.errors import ConfigError, DataError
from regard.models import Patches
from regard.nn.layout import Sequences
from regard.nn.loss import cross_entropy
from regard.run.recipe import resolve_recipe


def train(tree: dict, out: Path, **options) -> api.Run:
    return api.train(resolve_recipe(tree), out=out, watcher=Quiet(), **options)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(tmp_path_factory.mktemp("scenes"))


@pytest.fixture(scope="module")
def run(scenes: Path) -> api.Run:
    return train(description(scenes, smoothing=0.0), scenes / "run")


def test_the_loss_is_minus_the_log_probability_of_each_token(run: api.Run, scenes: Path):
    from regard.tasks.evaluation import measure, measuring_batches
    from regard.tasks.prepare import Preparation

    recipe = run.recipe
    preparation = Preparation(recipe.task, recipe.data, recipe.tokenizer, scenes / "cache", model=recipe.model)
    batches = measuring_batches(preparation.open(run.task, "test"), recipe.task.batching(recipe.data), 512)
    found = measure(run.task, run.model, batches, torch.device("cpu"))["loss"]
    rows = [line.split("\t") for line in (scenes / "test.tsv").read_text().splitlines()[1:]]
    writer = run.generator()
    logprobs = writer.score([str(scenes / name) for name, _ in rows], [caption for _, caption in rows])
    assert found == pytest.approx(-np.concatenate(logprobs).mean(), abs=1e-5)


def test_captions_are_shifted_and_patches_normalised(run: api.Run, scenes: Path):
    from regard.data.batches import BucketedConfig
    from regard.tasks.prepare import Preparation

    recipe = run.recipe
    preparation = Preparation(recipe.task, recipe.data, recipe.tokenizer, scenes / "cache", model=recipe.model)
    batch = BucketedConfig().build(preparation.open(run.task, "test"), tokens_per_batch=512).batch(0, 0)
    inputs = run.task.inputs(batch, recipe.model, torch.device("cpu"))
    patches, written = inputs.arguments
    assert isinstance(patches, Patches)
    assert isinstance(written, Sequences)
    torch.testing.assert_close(patches.images, torch.from_numpy(batch.images["image"]).permute(0, 3, 1, 2) / 127.5 - 1)
    assert inputs.tokens == inputs.count + 9 * len(batch.examples)
    loss = cross_entropy(run.model(*inputs.arguments), inputs.targets)
    torch.testing.assert_close(run.task.loss(run.model, inputs), loss)


def test_scores_are_of_what_is_written(run: api.Run, scenes: Path):
    report = api.evaluate(run)
    rows = [line.split("\t") for line in (scenes / "test.tsv").read_text().splitlines()[1:]]
    assert report.evidence["references"] == [caption for _, caption in rows]
    assert report.details["written"] == api.translate(run, [str(scenes / name) for name, _ in rows])
    assert set(report.metrics) == {"bleu", "chrf", "exact_match"}
    assert "13a" in report.signatures["bleu"]


def test_writing_takes_names_bytes_and_blank_lines(run: api.Run, scenes: Path):
    file = scenes / "scenes" / "test-0000.png"
    first, blank, second = run.translate([str(file), "", file.read_bytes()])  # type: ignore[list-item]
    assert first[0].text == second[0].text
    assert blank[0].text == ""
    forced = run.generator().translate([str(file)], run.recipe.usual_search, ["a red"])
    assert forced[0][0].text.startswith("a red")


def test_the_command_line(run: api.Run, scenes: Path):
    files = [str(file) for file in sorted((scenes / "scenes").glob("test-*.png"))[:2]]
    expected = api.translate(run, files)
    lines = CliRunner().invoke(app, ["translate", str(run.folder), "--engine", "torch"], input="\n".join(files) + "\n")
    assert lines.stdout.splitlines() == expected
    one = CliRunner().invoke(app, ["translate", str(run.folder), files[1], "--engine", "torch", "--json"])
    assert json.loads(one.stdout)["outputs"][0]["text"] == expected[1]


def test_runs_of_one_vocabulary_write_together(run: api.Run, scenes: Path, tmp_path: Path):
    tree = description(scenes, steps=2)
    tree["model"] = {"from": str(run.folder)}
    other = train(tree, tmp_path / "other")
    assert api.evaluate(run, others=[other]).examples == 8


def test_a_page_shows_patches_and_what_looks_at_them(run: api.Run, scenes: Path):
    file = str(scenes / "scenes" / "test-0001.png")
    tree = api.attention(run, file, "a red circle")
    assert [group["name"] for group in tree["groups"]] == ["encoder", "decoder", "cross"]
    across = tree["groups"][2]["layers"][0]
    assert (across["queries"], across["keys"]) == (4, 9)
    assert tree["output"] == "a red circle"
    assert tree["sentences"]["source"]["tokens"][0] == "1,1"
    assert tree["image"]["class_token"] is False
    own = api.attention(run, file)
    assert own["output"] == run.translate([file])[0][0].text  # by the run's own search
    assert own["generation"]["beam"]["branches"]


def test_it_is_refused_where_it_makes_no_sense(run: api.Run, scenes: Path, tmp_path: Path):
    tree = description(scenes)
    tree["model"]["kind"] = "vision"
    with pytest.raises(ConfigError, match="image_description needs one of vision-encoder-decoder; got vision"):
        resolve_recipe(tree).check()
    tree = description(scenes)
    tree["data"]["train"] = classification(scenes)["data"]["train"]
    with pytest.raises(ConfigError, match=r"data.train: expected described images: .*; got labelled images"):
        resolve_recipe(tree).check()
    with pytest.raises(ConfigError, match="cannot classify"):
        run.classify(["x.png"])
    (scenes / "wrong.tsv").write_text("image\tcaption\nscenes/none.png\ta\n")
    with pytest.raises(DataError, match=r"wrong\.tsv:2: no such image"):
        api.evaluate(run, api.SourceConfig(file=str(scenes / "wrong.tsv"), image="image", target="caption"))


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_a_limit_per_patch_holds_in_every_search(run: api.Run, scenes: Path, kind: str):
    file = str(scenes / "scenes" / "test-0001.png")
    search = run.search_with({"kind": kind, "max_length_ratio": 0.1, "max_length_offset": 1, "min_length": 0})
    assert all(len(one.tokens) <= 1 for one in run.translate([file], search)[0])
