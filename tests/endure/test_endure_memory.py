"""Out of memory: the micro-batch is halved with the same result, and what cannot be helped is a sentence."""

from pathlib import Path

import pytest
import torch
from endured import losses as logged_losses
from endured import tiny_recipe, train

from regard.errors import ConfigError, Failure
from regard.nn.loss import Losses
from regard.run.recipe import resolve_recipe
from regard.tasks import Translation
from regard.tasks.base import Inputs
from regard.train.checkpoint import load
from regard.train.memory import is_out_of_memory, report_out_of_memory

MESSAGE = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.00 GiB"


@pytest.fixture
def short_of_memory(monkeypatch):
    """A device on which only so many sequences at once find room; the parts that were tried."""

    def planted(sequences: int) -> list[int]:
        original, tried = Translation.losses, []

        def losses(self: Translation, model: torch.nn.Module, inputs: Inputs) -> Losses:
            number = len(inputs.arguments[0].layout.lengths)
            tried.append(number)
            if number > sequences:
                raise torch.OutOfMemoryError(MESSAGE)
            return original(self, model, inputs)

        monkeypatch.setattr(Translation, "losses", losses)
        return tried

    return planted


def recipe(kind: str, **train):
    made = tiny_recipe(4, dropout=0.0, **train)
    return made.but(data=made.data.but(batching={"kind": kind}))


@pytest.mark.parametrize("kind", ["bucketed", "packed"])
def test_halving_gives_the_same_result(tmp_path: Path, short_of_memory, kind: str):
    train(recipe(kind), tmp_path / "whole")
    tried = short_of_memory(4)
    watching = train(recipe(kind), tmp_path / "halved")
    assert max(tried) > 4
    assert any("out of memory; batches are computed in 2 parts from here on" in said for said in watching.said)
    assert logged_losses(tmp_path / "halved") == pytest.approx(logged_losses(tmp_path / "whole"), rel=1e-5)


def test_what_a_part_has_added_to_the_gradient_before_it_failed_is_forgotten(tmp_path: Path, monkeypatch):
    train(recipe("bucketed", accumulate=2), tmp_path / "whole")
    original, calls = Translation.losses, []

    def losses(self: Translation, model: torch.nn.Module, inputs: Inputs) -> Losses:
        calls.append(len(inputs.targets))
        if len(calls) == 4:  # the second part of the second step
            raise torch.OutOfMemoryError(MESSAGE)
        return original(self, model, inputs)

    monkeypatch.setattr(Translation, "losses", losses)
    train(recipe("bucketed", accumulate=2), tmp_path / "halved")
    assert logged_losses(tmp_path / "halved") == pytest.approx(logged_losses(tmp_path / "whole"), rel=1e-5)


def test_a_resumed_run_keeps_the_size_of_its_parts(tmp_path: Path, short_of_memory):
    short_of_memory(4)
    made = recipe("bucketed")
    train(made.but(train=made.train.but(steps=2)), tmp_path / "run")
    assert load(tmp_path / "run" / "checkpoints" / "last").state["splits"] > 1
    assert not any("out of memory" in said for said in train(made, tmp_path / "run", resume=True).said)


def test_one_example_that_does_not_fit_is_a_sentence_that_names_the_settings(tmp_path: Path, short_of_memory):
    short_of_memory(0)
    with pytest.raises(Failure) as caught:
        train(recipe("bucketed"), tmp_path / "run")
    said = str(caught.value)
    assert "CUDA out of memory. Tried to allocate 2.00 GiB" in said
    for setting in ("train.tokens_per_batch", "data.max_length", "model.width", "model.depth", "train.precision"):
        assert setting in said


def test_a_processor_without_memory_says_so_in_the_same_way():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**58, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    with pytest.raises(Failure, match="out of memory while training"), report_out_of_memory():
        torch.empty(2**58, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="something else"), report_out_of_memory():
        raise RuntimeError("something else")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"depth": 10**9}, "model.depth: expected at most 10,000 blocks, got 1,000,000,000"),
        ({"decoder_depth": 10**18}, "model.decoder_depth: expected at most 10,000 blocks"),
        ({"width": 10**9, "heads": 1}, "GiB of memory"),
        ({"feedforward": {"hidden": 10**15}}, "GiB of memory"),
        ({"position": {"kind": "learned", "length": 10**12}}, "GiB of memory"),
        ({"kind": "lstm-seq2seq", "width": 10**9}, "GiB of memory"),
    ],
)
def test_a_model_that_cannot_fit_is_refused_before_anything_of_it_is_made(tmp_path: Path, model: dict, words: str):
    usual = {"width": 16, "depth": 1} | ({} if "kind" in model else {"kind": "encoder-decoder", "heads": 2})
    made = resolve_recipe({**tiny_recipe(2).tree(), "model": {**usual, **model}})
    with pytest.raises(ConfigError) as caught:
        train(made, tmp_path / "run")
    assert words in str(caught.value)
    assert caught.value.path.startswith("model")


@pytest.mark.gpu
def test_a_gpu_that_is_really_full_halves_until_it_fits(tmp_path: Path):
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.02)
    try:
        made = resolve_recipe({**tiny_recipe(2).tree(), "model": {"width": 512, "depth": 6, "heads": 8, "dropout": 0.0},
                               "data": {"train": {"street": "train", "limit": 20_000}}})  # fmt: skip
        made = made.but(train=made.train.but(device="cuda", tokens_per_batch=200_000, save_every=2))
        watching = train(made, tmp_path / "run")
        assert any("out of memory" in said for said in watching.said)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
