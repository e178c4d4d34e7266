"""Image classification all the way: trained, stopped and resumed, tested, used, looked at, refused."""

import base64
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from image_sets import Quiet, classification, draw
from PIL import Image
from safetensors.torch import load_file
from typer.testing import CliRunner

from regard import api
from regard.cli import app
from regard.errors import ConfigError, DataError
from regard.run.recipe import resolve_recipe
from regard.run.training import train_run
from regard.train.loop import Trainer


def train(tree: dict, out: Path, **options) -> api.Run:
    return api.train(resolve_recipe(tree), out=out, watcher=Quiet(), **options)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(tmp_path_factory.mktemp("shapes"))


@pytest.fixture(scope="module")
def run(shapes: Path) -> api.Run:
    return train(classification(shapes), shapes / "run")


def test_a_run_knows_its_classes_and_its_size(run: api.Run):
    assert run.task.vocabularies.labels == ["circle", "square", "triangle"]
    assert not list(run.folder.glob("tokenizer*"))
    built = sum(weight.numel() for weight in run.model.parameters())
    assert run.task.num_params(run.recipe.model) == built
    assert "regard classify" in (run.folder / "README.md").read_text()


def test_accuracy_is_what_the_answers_are(run: api.Run, shapes: Path):
    report = api.evaluate(run)
    files = sorted((shapes / "test").rglob("*.png"))
    given = api.classify(run, [str(file) for file in files])
    assert report.examples == len(files) == 9
    assert report.evidence["right"] == [label == file.parent.name for label, file in zip(given, files, strict=True)]
    assert report.metrics["accuracy"] == sum(report.evidence["right"]) / 9
    assert np.sum(report.details["confusion"]) == 9


def test_probabilities_are_the_model_s_own(run: api.Run, shapes: Path):
    file = shapes / "test" / "circle" / "000.png"
    pixels = torch.from_numpy(np.asarray(Image.open(file)).copy()).permute(2, 0, 1)[None]
    with torch.no_grad():
        expected = run.model((pixels / 255 - 0.5) / 0.5).softmax(-1)[0]
    found, blank, again = run.classify([str(file), " ", file.read_bytes()])  # type: ignore[list-item]
    assert found is not None
    assert list(found.values()) == pytest.approx(expected.tolist(), abs=1e-5)
    assert blank is None
    assert again == found


def test_it_stops_and_goes_on_to_the_same_weights(shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = train(classification(shapes), tmp_path / "whole")
    step = Trainer.step

    def interrupted(self: Trainer):
        if self.spent.steps == 6:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(Trainer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_run(resolve_recipe(classification(shapes)), tmp_path / "cut", Quiet())
    monkeypatch.undo()
    train(classification(shapes), tmp_path / "cut", resume=True)
    one, other = (
        load_file((folder / "checkpoints" / "last").resolve() / "model.safetensors")
        for folder in (whole.folder, tmp_path / "cut")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_it_starts_from_another_run(run: api.Run, shapes: Path, tmp_path: Path):
    tree = classification(shapes, steps=1, consistency=0.5)
    tree["model"] = {"from": str(run.folder)}
    tree["train"]["schedule"]["lr"] = 1e-9
    started = train(tree, tmp_path / "started")
    assert started.recipe.model.width == 16
    weight = run.model.get_parameter("embedding.weight")
    torch.testing.assert_close(started.model.get_parameter("embedding.weight"), weight, atol=1e-6, rtol=0)


def test_it_learns_shapes(shapes: Path, tmp_path: Path):
    """Big squares and big triangles are told apart in a few dozen steps."""
    folder = draw(tmp_path, single=90)
    for file in [*(folder / "train").rglob("circle/*"), *(folder / "test").rglob("circle/*")]:
        file.unlink()
    tree = classification(folder, steps=70)
    tree["model"] |= {"width": 32, "patch": 4, "position": {"kind": "learned", "length": 37}}
    tree["train"] |= {"save_every": 70, "tokens_per_batch": 1184, "best": "loss"}
    assert api.evaluate(train(tree, tmp_path / "run")).metrics["accuracy"] >= 0.8


# The command line


def test_the_command_line(run: api.Run, shapes: Path, tmp_path: Path):
    files = [str(file) for file in sorted((shapes / "test").rglob("*.png"))[:2]]
    labels = [label or "" for label in api.classify(run, files)]
    done = CliRunner().invoke(app, ["classify", str(run.folder), *files])
    assert done.output.split() == labels
    lines = CliRunner().invoke(app, ["classify", str(run.folder), "--json"], input=f"{files[0]}\n\n{files[1]}\n")
    assert [json.loads(line)["label"] for line in lines.output.splitlines()] == [labels[0], None, labels[1]]
    scored = CliRunner().invoke(app, ["evaluate", str(run.folder), "--json"])
    assert json.loads(scored.output)["metrics"] == pytest.approx(api.evaluate(run).metrics)


def test_a_page_shows_the_image_and_its_patches(run: api.Run, shapes: Path, tmp_path: Path):
    file = shapes / "test" / "square" / "001.png"
    tree = api.attention(run, str(file))
    assert tree["sentences"]["source"]["tokens"] == ["<class>", *(f"{i},{j}" for i in "123" for j in "123")]
    assert base64.b64decode(tree["image"]["pixels"]) == np.asarray(Image.open(file)).tobytes()
    found = run.classify([str(file)])[0]
    assert found is not None
    assert dict(tree["generation"]["classes"]) == pytest.approx(found, abs=1e-5)
    assert len(tree["groups"][0]["layers"]) == 1
    api.look(run, str(file), out=tmp_path / "page.html")
    assert "regard-data" in (tmp_path / "page.html").read_text()


# What is refused


def test_settings_that_do_not_go_together(shapes: Path):
    def refused(match: str, **changes) -> None:
        tree = classification(shapes)
        for name, change in changes.items():
            tree[name] = {**tree[name], **change}
        with pytest.raises(ConfigError, match=match):
            resolve_recipe(tree).check()

    refused("task.mean: expected 1 or 3 numbers, got 2", task={"mean": [0.5, 0.5]})
    refused("task.deviation: expected numbers above 0", task={"deviation": [0.0]})
    refused("model.channels: images are read in grey", model={"channels": 2})
    refused("data.batching: images need 'bucketed' batches", data={"batching": "packed"})
    refused("data.train: expected labelled images", data={"train": {"file": "x.tsv", "text": 0, "label": 1}})
    with pytest.raises(ConfigError, match=r"model\.kind: image_classification needs one of vision; got encoder"):
        resolve_recipe({**classification(shapes), "model": {"kind": "encoder"}}).check()


def test_data_that_does_not_fit(run: api.Run, shapes: Path, tmp_path: Path):
    tree = classification(shapes)
    tree["model"] |= {"image": 32, "position": {"kind": "learned", "length": 17}}
    with pytest.raises(
        DataError, match=r"\.png: an image of 24 × 24 pixels, the model takes 32 × 32; set task\.resize"
    ):
        train(tree, tmp_path / "larger")
    broken = draw(tmp_path / "broken")
    file = broken / "train" / "square" / "001.png"
    file.write_bytes(file.read_bytes()[:70])
    with pytest.raises(DataError, match=r"square/001\.png: a damaged image"):
        train(classification(broken), tmp_path / "damaged")
    (broken / "test" / "oval").mkdir()
    (broken / "test" / "oval" / "1.png").write_bytes((shapes / "test" / "circle" / "000.png").read_bytes())
    with pytest.raises(DataError, match=r"oval/1\.png: label 'oval' is unknown in the training data"):
        api.evaluate(run, api.SourceConfig(images=str(broken / "test")))


def test_resizing_is_a_setting(shapes: Path, tmp_path: Path):
    tree = classification(shapes, steps=1, resize="stretch")
    tree["model"] |= {"image": 16, "position": {"kind": "learned", "length": 5}}
    run = train(tree, tmp_path / "small")
    stream = io.BytesIO()
    Image.new("L", (7, 50)).save(stream, "PNG")
    assert run.classify([stream.getvalue()])[0] is not None  # type: ignore[list-item]


def test_an_image_that_is_none_is_named(run: api.Run, tmp_path: Path):
    done = CliRunner().invoke(app, ["classify", str(run.folder), str(tmp_path / "nowhere.png")])
    assert isinstance(done.exception, DataError)


def test_a_run_leaves_for_transformers(run: api.Run, tmp_path: Path):
    pytest.importorskip("transformers")
    found = api.export(run, "huggingface", tmp_path / "out", data="test")
    assert found.layout == "ViT"
    assert not found.problems()
    assert (tmp_path / "out" / "preprocessor_config.json").is_file()
