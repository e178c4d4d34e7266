"""Whole runs of summarisation: trained, tested, resumed, used, compared."""

import json
import math
import random
from pathlib import Path

import pytest
import torch
from rouge_score.rouge_scorer import RougeScorer
from small_runs import write_recipe
from typer.testing import CliRunner

from regard import api
from regard.cli import app
from regard.compare.queue import Outcome
from regard.compare.significance import compare_runs
from regard.compare.sweep import read_sweep
from regard.errors import ConfigError
from regard.run.recipe import read_recipe, resolve_recipe
from regard.run.sharded import score_in_parts
from regard.train.log import read_metrics
from regard.train.monitor import Watcher

RECIPES = Path(__file__).parents[2] / "recipes" / "documents"
NAMES, THINGS = ["anna", "ben", "clara", "david", "emma"], ["lamp", "tent", "piano", "boat", "clock", "table"]
TURNS = {
    "kind": "alternating",
    "kinds": [{"kind": "local", "block": 4}, {"kind": "memory-compressed", "stride": 3, "block": 3}],
}
SYSTEMS = {
    "seq2seq-attention": {"kind": "lstm-seq2seq", "width": 32, "depth": 1},
    "T-ED": {"kind": "encoder-decoder", "width": 32, "depth": 1, "heads": 2},
    "T-D": {"kind": "decoder", "width": 32, "depth": 2, "heads": 2},
    "T-DMCA": {"kind": "decoder", "width": 32, "depth": 2, "heads": 2, "attention": TURNS},
    "T-DMCA-MoE": {
        "kind": "decoder", "width": 32, "depth": 2, "heads": 2, "attention": TURNS,
        "feedforward": {"kind": "experts", "experts": 4, "hidden": 32},
    },
}  # fmt: skip


class Quiet(Watcher):
    def __init__(self):
        self.said = []

    def step(self, line, progress): ...

    def measured(self, line): ...

    def say(self, sentence):
        self.said.append(sentence)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder, draw = tmp_path_factory.mktemp("data"), random.Random(1)
    rows = []
    for _ in range(150):
        (a, b), thing = draw.sample(NAMES, 2), draw.choice(THINGS)
        rows.append(
            {"notes": [f"{a} opens .", f"{b} wants a {thing} .", "there is cake ."], "minutes": f"{thing} for {b}"}
        )
    for name, part in (("train", rows[:120]), ("valid", rows[120:])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    return folder


def tree(data: Path, system: str = "T-D", steps: int = 10, task: dict | None = None, **train) -> dict:
    def split(name: str) -> dict:
        return {"file": f"{name}.jsonl", "source": "notes", "target": "minutes"}

    return {
        "task": {"kind": "summarisation", "input_tokens": 11, **(task or {})},
        "data": {"folder": str(data), "train": split("train"), "valid": split("valid")},
        "tokenizer": "word",
        "model": {"dropout": 0.0, **SYSTEMS[system]},
        "search": {"kind": "beam", "size": 2, "max_length": 8},
        "train": {"steps": steps, "tokens_per_batch": 256, "save_every": 5, "log_every": 1, "precision": "float32",
                  "schedule": {"kind": "constant", "lr": 1e-2}, **train},
    }  # fmt: skip


def train(settings: dict, out: Path, **options) -> Quiet:
    watcher = Quiet()
    api.train(resolve_recipe(settings), out=out, watcher=watcher, **options)
    return watcher


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "learnt"
    train(tree(data, steps=60), folder)
    return folder


@pytest.mark.parametrize(
    ("system", "batching"), [*((name, "bucketed") for name in SYSTEMS), ("T-ED", "packed"), ("T-DMCA", "packed")]
)
def test_every_system_trains_and_writes(data: Path, tmp_path: Path, system: str, batching: str):
    settings = tree(data, system, steps=6)
    settings["data"]["batching"] = batching
    said = train(settings, tmp_path / "run").said
    assert any(one.startswith("data.train: 120 pairs cut: source longer than 11 tokens (first at ") for one in said)
    lines = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line.get("split") == "train"]
    assert lines[-1]["loss"] < lines[0]["loss"]
    run = api.load(tmp_path / "run", "cpu")
    assert len(api.translate(run, ["anna opens . ben wants a boat .", ""])) == 2
    assert "regard translate" in (tmp_path / "run" / "README.md").read_text()


def test_one_stack_learns_what_to_pick(trained: Path):
    report = api.evaluate(api.load(trained, "cpu"), "valid")
    assert report.metrics["rouge_1"] > 75, "a summary by chance has one word of three"
    assert report.metrics["perplexity"] < 3
    assert report.metrics["cut"] == 1.0


def test_in_parts_the_scores_are_the_same(trained: Path, tmp_path: Path):
    run = api.load(trained, "cpu")
    whole, parts = api.evaluate(run, "valid"), score_in_parts(run, run.recipe.data.split("valid"), tmp_path)
    assert parts.metrics == {name: whole.metrics[name] for name in ("rouge_1", "rouge_2", "rouge_l")}
    assert parts.fingerprint == whole.fingerprint


def test_scores_are_those_of_their_definitions(trained: Path, data: Path):
    run = api.load(trained, "cpu")
    report = api.evaluate(run, "valid")
    rows = [json.loads(line) for line in (data / "valid.jsonl").read_text().splitlines()]
    texts, wanted = [" ".join(row["notes"]) for row in rows], [row["minutes"] for row in rows]
    written = api.translate(run, texts)
    assert report.evidence["written"] == written
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    found = [scorer.score(reference, summary) for reference, summary in zip(wanted, written, strict=True)]
    for kind, name in (("rouge1", "rouge_1"), ("rouge2", "rouge_2"), ("rougeL", "rouge_l")):
        each = [100 * one[kind].fmeasure for one in found]
        assert report.evidence[name] == pytest.approx(each)
        assert report.metrics[name] == pytest.approx(sum(each) / len(each))
        assert "rouge-score" in report.signatures[name] or "version" in report.signatures[name]
    logprobs = [one for row in run.generator().score(texts, wanted) for one in row]
    assert report.metrics["loss"] == pytest.approx(-sum(logprobs) / len(logprobs), rel=1e-4)
    assert report.metrics["perplexity"] == pytest.approx(math.exp(report.metrics["loss"]))


def test_a_resumed_run_is_the_undisturbed_one(data: Path, tmp_path: Path):
    settings = tree(data, "T-DMCA", task={"predict_input": True})
    train(settings, tmp_path / "whole")
    train({**settings, "train": {**settings["train"], "steps": 5}}, tmp_path / "parts")
    train(settings, tmp_path / "parts", resume=True)
    course = [
        [(line["step"], line["loss"]) for line in read_metrics(folder / "metrics.jsonl") if "event" not in line]
        for folder in (tmp_path / "whole", tmp_path / "parts")
    ]
    assert set(course[0]) <= set(course[1])
    one, other = (api.load(tmp_path / name, "cpu", "last").model.state_dict() for name in ("whole", "parts"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_best_checkpoint_by_rouge_and_a_start_from_a_run(data: Path, trained: Path, tmp_path: Path):
    settings = tree(data, steps=5, best="rouge_l")
    del settings["tokenizer"], settings["model"]
    settings["model"] = {"from": str(trained)}
    said = train(settings, tmp_path / "run").said
    assert any("weights taken over" in sentence for sentence in said)
    valid = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line.get("split") == "valid"]
    assert valid[0]["rouge_l"] > 50


def test_on_the_command_line(trained: Path, tmp_path: Path):
    page = tmp_path / "page.html"
    asked = CliRunner().invoke(app, ["look", str(trained), "anna opens . ben wants a boat .", "--out", str(page)])
    assert asked.exit_code == 0, asked.output
    assert page.stat().st_size > 100_000
    text = "anna opens . ben wants a boat . there is cake . really"
    (tmp_path / "in.txt").write_text(f"{text}\n\n")
    asked = CliRunner().invoke(
        app, ["translate", str(trained), str(tmp_path / "in.txt"), "--json", "--engine", "torch"]
    )
    assert asked.exit_code == 0, asked.output
    first, second = [json.loads(line) for line in asked.stdout.splitlines() if line.startswith("{")]
    assert first["outputs"][0]["unread"] == 3
    assert "1 of 2 texts cut at task.input_tokens" in asked.stderr
    assert second["outputs"][0]["text"] == ""
    asked = CliRunner().invoke(app, ["evaluate", str(trained), "--json"])
    assert json.loads(asked.stdout)["metrics"]["rouge_l"] > 50


def test_a_page_shows_the_input_the_separator_and_the_output_as_one_text(trained: Path):
    text = "anna opens . ben wants a boat ."
    tree = api.attention(api.load(trained, "cpu"), text, "boat for ben", shuffles=0, paths=False)
    assert tree["shape"] == "text"
    assert tree["prompt_length"] == len(text.split()) + 1
    shown = [token["text"] if isinstance(token, dict) else token for token in tree["sentences"]["target"]["tokens"]]
    assert shown == [*text.split(), "<sep>", "boat", "for", "ben"]
    assert tree["output"] == "boat for ben"


def test_a_server_takes_texts_of_any_length(trained: Path):
    run = api.load(trained, "cpu")
    assert run.longest is None
    assert run.translate(["anna opens . " * 200])[0][0].text


@pytest.mark.parametrize("name", ["aeslc", "scitldr", "qmsum"])
def test_shipped_recipes_are_valid(name: str):
    read_recipe(RECIPES / f"{name}.toml").check()
    sweep = read_sweep([RECIPES / f"{name}-systems.toml"])
    assert sweep.variants[0].recipe.task.default_score == "rouge_l"
    shapes = {variant.name: variant.recipe.model.shape for variant in sweep.variants}
    assert {"seq2seq-attention", "T-ED", "T-D", "T-DMCA", "T-DMCA-MoE", "T-ED-MoE", "T-D-MoE"} == shapes.keys()
    assert [name for name, shape in shapes.items() if shape == "decoder"] == ["T-D", "T-DMCA", "T-DMCA-MoE", "T-D-MoE"]


def test_mistakes_are_one_sentence(data: Path, tmp_path: Path):
    recipe = write_recipe(tmp_path, tree(data))
    for setting, problem in {
        "task.input_tokens=0": "task.input_tokens",
        "model.kind=encoder": "model.kind: summarisation needs one of",
        "tokenizer.joint=false": "tokenizer.joint: a decoder reads input and output as one text",
    }.items():
        asked = CliRunner().invoke(app, ["train", str(recipe), setting, "--out", str(tmp_path / "run")])
        assert asked.exit_code == 2 or isinstance(asked.exception, ConfigError)
        assert problem in asked.output + str(asked.exception)


def test_rouge_is_tested_summary_by_summary():
    worse, better = [float(score) for score in range(30)], [score + 5.0 for score in range(30)]

    def outcome(values: list[float]) -> Outcome:
        texts = ["a"] * len(values)
        evidence = {"written": texts, "references": texts, "rouge_l": values}
        return Outcome(metrics={"rouge_l": sum(values) / len(values)}, evidence=evidence)

    verdict = compare_runs([outcome(worse)], [outcome(better)], "rouge_l")
    assert verdict is not None
    assert verdict.significant
    assert verdict.better
    assert verdict.signature.startswith("test:sign-flips|examples:30")
    assert not compare_runs([outcome(worse)], [outcome(worse)], "rouge_l").significant  # type: ignore[union-attr]
