"""Masked language models: the objective by hand, whole runs, what is measured, and masks filled in."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from regard import api
from regard.data.batches import Batch, BucketedConfig, PackedConfig
from regard.data.collate import Ragged, pack, pad
from regard.data.settings import DataConfig
from regard.errors import ConfigError, RegardError
from regard.models import EncoderConfig, RecurrentEncoderConfig, WindowEncoderConfig
from regard.nn.layout import Sequences
from regard.run.recipe import resolve_recipe
from regard.run.scoring.scorers import spread_tokens
from regard.tasks import MaskedLanguageModelConfig, Vocabularies
from regard.tasks.evaluation import measuring_batches
from regard.tasks.masked_language_model import MaskedLanguageModel, head_flops, masked_ids, masked_nlls
from regard.tasks.prepare import Preparation
from regard.text.special_tokens import EOS, MASK
from regard.text.tokenizer import BpeConfig, CharConfig, Tokenizer, WordConfig
from regard.train.log import read_metrics
from regard.train.monitor import Watcher

CPU = torch.device("cpu")
ANIMALS = ["dog", "cat", "cow", "hen", "fox"]
LINES = [f"the {animal} sees the {other}" for animal in ANIMALS for other in ANIMALS]
WORDS = Tokenizer.train(LINES, WordConfig())


class Quiet(Watcher):
    def __init__(self):
        self.said = []

    def step(self, line, progress): ...

    def measured(self, line): ...

    def say(self, sentence):
        self.said.append(sentence)


def recipe(folder: Path, batching: dict[str, Any] | None = None, steps: int = 12, **task: Any) -> dict[str, Any]:
    (folder / "text.txt").write_text("\n".join(LINES * 4) + "\n")
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in LINES * 4))
    stream = batching is None or batching["kind"] == "stream"
    source = {"file": str(folder / "text.txt")} if stream else {"file": str(folder / "texts.jsonl"), "text": "text"}
    return {
        "task": {"kind": "masked_language_model", **task},
        "data": {"train": source, "batching": batching or {"kind": "stream", "context": 16}},
        "tokenizer": "word",
        "model": {"kind": "encoder", "width": 32, "depth": 1, "heads": 2, "dropout": 0.1},
        "train": {"steps": steps, "tokens_per_batch": 256, "save_every": 4, "log_every": 1, "precision": "float32",
                  "schedule": {"kind": "constant", "lr": 3e-3}},
    }  # fmt: skip


def train(tree: dict[str, Any], out: Path, **options: Any):
    return api.train(resolve_recipe(tree), out=out, watcher=Quiet(), **options)


def masked_task(tokenizer: Tokenizer = WORDS, **settings: Any) -> MaskedLanguageModel:
    return MaskedLanguageModelConfig(**settings).task(Vocabularies({"text": tokenizer}))


def some_batch(lay: Any, seed: int = 0, epoch: int = 0) -> Batch:
    rows = Ragged.of([[*WORDS.encode(line), EOS] for line in ("the dog sees the cat", "the hen", "the fox sees")])
    return Batch({"text": lay(rows)}, {}, np.arange(3), seed, epoch)


@pytest.mark.parametrize("lay", [pad, pack])
def test_the_loss_is_that_of_the_hidden_tokens_given_what_is_seen(lay):
    torch.manual_seed(1)
    config, task, batch = EncoderConfig(width=16, depth=1, heads=2), masked_task(), some_batch(lay)
    model = task.build(config).eval()
    inputs = task.inputs(batch, config, CPU)
    seen, tokens = inputs.arguments[0], batch.fields["text"].tokens
    logprobs = model(seen).log_softmax(-1)  # of every token at every place
    changed = map(tuple, np.argwhere(seen.tokens.numpy() != tokens).tolist())
    chosen = [divmod(int(place), tokens.shape[1]) for place in inputs.positions]
    assert set(changed) <= set(chosen)
    by_hand = -torch.stack([logprobs[row, place, tokens[row, place]] for row, place in chosen]).sum()
    torch.testing.assert_close(task.loss(model, inputs), by_hand)
    best = sum(int(logprobs[row, place].argmax()) == tokens[row, place] for row, place in chosen)
    with torch.no_grad():
        sums = task.measure(model, inputs)
    assert sums == {"nll": pytest.approx(by_hand.item(), rel=1e-5), "right": best, "count": len(chosen)}
    assert task.summarise(sums)["accuracy"] == best / len(chosen)
    assert inputs.tokens == 13


@pytest.mark.parametrize("lay", [pad, pack])
def test_read_twice_without_dropout_the_loss_is_the_same(lay):
    torch.manual_seed(1)
    config = EncoderConfig(width=16, depth=1, heads=2, dropout=0.0)
    once, twice = masked_task(smoothing=0.1), masked_task(smoothing=0.1, consistency=1.0)
    model, batch = once.build(config), some_batch(lay)
    losses = [task.loss(model, task.inputs(batch, config, CPU)) for task in (once, twice)]
    torch.testing.assert_close(losses[0], losses[1])
    assert twice.inputs(batch, config, CPU).flops == 2 * once.inputs(batch, config, CPU).flops


def test_texts_without_a_token_to_hide_cost_nothing():
    config, task = EncoderConfig(width=16, depth=1, heads=2), masked_task()
    model = task.build(config)
    inputs = task.inputs(Batch({"text": pad(Ragged.of([[EOS], [EOS]]))}, {}, np.arange(2)), config, CPU)
    loss = task.loss(model, inputs)
    loss.backward()
    assert (float(loss.detach()), inputs.count, len(inputs.targets)) == (0.0, 1, 0)


def test_each_epoch_hides_anew_and_the_same_key_hides_the_same():
    config, task = EncoderConfig(width=16, depth=1, heads=2), masked_task(masking={"share": 0.5})

    def seen(seed: int, epoch: int) -> list[int]:
        return task.inputs(some_batch(pad, seed, epoch), config, CPU).arguments[0].tokens.flatten().tolist()

    assert seen(1, 0) == seen(1, 0)
    assert len({tuple(seen(*key)) for key in ((1, 0), (1, 1), (2, 0))}) == 3


@pytest.mark.parametrize("config", [EncoderConfig(), RecurrentEncoderConfig(), WindowEncoderConfig()])
def test_the_output_layer_costs_only_at_the_hidden_tokens(config):
    rest = {config.flops(3, 5, vocab) - head_flops(config, vocab, 15) for vocab in (40, 1000)}
    assert len(rest) == 1
    task, batch = masked_task(), some_batch(pad)
    inputs = task.inputs(batch, config, CPU)
    rows, time = batch.fields["text"].tokens.shape
    stack = config.flops(rows, time, WORDS.vocab_size) - head_flops(config, WORDS.vocab_size, rows * time)
    assert inputs.flops == 3 * (stack + head_flops(config, WORDS.vocab_size, len(inputs.targets)))


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("masked")
    train(recipe(folder, steps=60), folder / "run")
    return folder / "run"


def test_it_learns_and_says_so(trained: Path):
    lines = [line for line in read_metrics(trained / "metrics.jsonl") if line.get("split") == "valid"]
    told = [line["loss"] for line in read_metrics(trained / "metrics.jsonl") if line.get("split") == "train"]
    assert np.mean(told[-10:]) < 0.75 * np.mean(told[:3])
    assert 0 <= lines[-1]["accuracy"] <= 1
    report = api.evaluate(trained, "valid")
    assert {"loss", "accuracy", "perplexity", "pseudo_perplexity"} <= report.metrics.keys()
    assert report.metrics["perplexity"] == pytest.approx(np.exp(report.metrics["loss"]))
    assert np.mean(report.evidence["losses"]) == pytest.approx(report.metrics["loss"], rel=0.2)
    assert "model.from" in (trained / "README.md").read_text()


def test_pseudo_perplexity_hides_each_token_alone(trained: Path):
    run = api.load(trained)
    rows = [WORDS.encode(line) for line in LINES[:3]]
    asked = [(row, place) for row in rows for place in range(len(row))]
    found = masked_nlls(run.model, asked, CPU)
    for (row, place), surprise in zip(asked, found, strict=True):
        hidden = torch.tensor([[*row[:place], MASK, *row[place + 1 :]]])
        logprobs = run.model(Sequences.full(hidden))[0, place].log_softmax(-1)
        assert surprise == pytest.approx(-logprobs[row[place]].item(), abs=1e-4)


def test_what_is_measured_does_not_depend_on_seed_or_batch_size(trained: Path, tmp_path: Path):
    run = api.load(trained)
    source = run.recipe.data.split("valid")
    found = []
    for per_batch in (32, 4096):
        changed = run.recipe.but(seed=per_batch, train=run.recipe.train.but(tokens_per_batch=per_batch))
        other = replace(run, recipe=changed)
        found.append(api.evaluate(other, source).metrics)
    assert found[0] == pytest.approx(found[1], rel=1e-4)


def test_tokens_for_the_pseudo_perplexity_are_spread_evenly(trained: Path):
    run = api.load(trained)
    preparation = Preparation(run.recipe.task, run.recipe.data, run.recipe.tokenizer, trained / "cache")
    batches = measuring_batches(preparation.open(run.task, "valid"), run.recipe.task.batching(run.recipe.data), 64)
    every = spread_tokens(batches, 10**6)
    some = spread_tokens(batches, 10)
    assert len(some) == 10
    assert some[0] == every[0]
    assert some[-1] == every[-1]
    assert len({(tuple(row), place) for row, place in some}) <= len(some)


@pytest.mark.parametrize("batching", [None, {"kind": "packed"}], ids=["stream", "packed"])
def test_stopped_and_resumed_equals_undisturbed_to_the_bit(tmp_path: Path, batching):
    tree = {**recipe(tmp_path, batching, steps=8, masking={"whole_words": True}), "tokenizer": "char"}
    train(tree, tmp_path / "whole")
    train({**tree, "train": {**tree["train"], "steps": 3}}, tmp_path / "resumed")
    train(tree, tmp_path / "resumed", resume=True)
    one, other = (
        load_file((tmp_path / name / "checkpoints" / "last").resolve() / "model.safetensors")
        for name in ("whole", "resumed")
    )
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_parts_of_a_batch_hide_what_the_whole_batch_hides(tmp_path: Path):
    resolved = resolve_recipe(recipe(tmp_path, {"kind": "packed"}))
    preparation = Preparation(resolved.task, resolved.data, resolved.tokenizer, tmp_path / "cache")
    task = resolved.task.task(preparation.learn())
    store = preparation.open(task, "train", training=True)
    batches = resolved.task.batching(resolved.data).build(store, tokens_per_batch=256, seed=3)

    def seen(rank: int = 0, world: int = 1) -> list[int]:
        inputs = task.inputs(batches.batch(2, 1, rank, world), resolved.model, CPU)
        return [*inputs.arguments[0].tokens[0].tolist(), *(-inputs.targets).tolist()]

    assert sorted(seen()) == sorted(token for rank in range(3) for token in seen(rank, 3))


def test_a_row_of_a_stream_has_as_many_tokens_as_its_context(tmp_path: Path):
    resolved = resolve_recipe(recipe(tmp_path, {"kind": "stream", "context": 16}))
    preparation = Preparation(resolved.task, resolved.data, resolved.tokenizer, tmp_path / "cache")
    task = resolved.task.task(preparation.learn())
    batching = resolved.task.batching(resolved.data)
    store = preparation.open(task, "train", training=True)
    batch = batching.build(store, tokens_per_batch=64, seed=1).batch(0, 0)
    assert batch.fields["text"].tokens.shape[1] == 16
    assert EOS not in batch.fields["text"].tokens
    limited = DataConfig(batching=BucketedConfig(), max_length=9, overlong="cut")
    assert task.fields(limited, resolved.tokenizer, True)["text"].max_length == 9
    assert MaskedLanguageModelConfig().batching(DataConfig(batching=PackedConfig())) == PackedConfig()


def test_masks_are_filled_in(trained: Path):
    run = api.load(trained)
    (filled,) = run.task.fill(run.model, ["the dog <mask> the cat"], CPU, top=3)
    assert filled.text.split() == ["the", "dog", filled.guesses[0][0][0], "the", "cat"]
    assert len(filled.guesses[0]) == 3
    chances = [chance for _, chance in filled.guesses[0]]
    assert chances == sorted(chances, reverse=True)
    assert not any(token.startswith("<") for token, _ in filled.guesses[0])
    both, alone = run.task.fill(run.model, ["<mask> dog sees the <mask>", "the <mask>"], CPU)
    assert (len(both.guesses), len(alone.guesses)) == (2, 1)
    with pytest.raises(RegardError, match=r"input 2: expected a <mask> to fill in, got none"):
        run.task.fill(run.model, ["the <mask>", "the dog"], CPU)


def test_a_mask_takes_the_space_before_it_only_where_tokens_do():
    bpe = Tokenizer.train(LINES, BpeConfig(size=300))
    assert masked_ids(bpe, "the dog <mask> the cat") == [*bpe.encode("the dog"), MASK, *bpe.encode(" the cat")]
    chars = Tokenizer.train(LINES, CharConfig())
    assert masked_ids(chars, "the <mask>og") == [*chars.encode("the "), MASK, *chars.encode("og")]


def test_what_makes_no_sense_is_refused_in_a_sentence(trained: Path, tmp_path: Path):
    tree = recipe(tmp_path)
    with pytest.raises(ConfigError, match=r"model.kind: masked_language_model needs one of encoder.*; got decoder"):
        resolve_recipe(tree, ["model.kind=decoder"]).check()
    with pytest.raises(ConfigError, match=r"data.train: expected plain text: .*; got pairs"):
        resolve_recipe({**tree, "data": {"train": {"street": "train"}}}).check()
    with pytest.raises(ConfigError, match=r"data.batching.context: .*expected at least 2, got 1"):
        resolve_recipe(tree, ["data.batching.context=1"]).check()
    run = api.load(trained)
    for verb in ("translate", "generate", "classify"):
        with pytest.raises(ConfigError, match=rf"a run of masked_language_model and cannot {verb}; start another run"):
            getattr(run, verb)(["the dog"])


def test_the_page_shows_what_is_guessed_at_each_mask(trained: Path):
    tree = api.attention(trained, "the dog <mask> the cat", shuffles=1, paths=False)
    assert tree["sentences"]["source"]["tokens"] == ["the", "dog", "<mask>", "the", "cat"]
    (filled,) = api.load(trained).task.fill(api.load(trained).model, ["the dog <mask> the cat"], CPU)
    best, chance = tree["generation"]["classes"][0]
    assert best == f"<mask> 3: {filled.guesses[0][0][0]}"
    assert chance == pytest.approx(filled.guesses[0][0][1], abs=1e-5)
    assert tree["shuffles"][0]["output"].startswith("<mask> ")
    seen = api.attention(trained, "the dog sees", shuffles=0, paths=False)["generation"]["classes"]
    assert [label.split(":")[0] for label, _ in seen] == ["the 1", "dog 2", "sees 3"]
