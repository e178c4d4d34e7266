"""Losses and gradients that are no numbers: stopped before the step, batch and examples named; or passed over."""

from pathlib import Path

import pytest
import torch
from endured import course, tiny_recipe, train, weights

from regard.cli import main
from regard.errors import Failure
from regard.nn.loss import Losses
from regard.tasks import Translation
from regard.tasks.base import Inputs
from regard.train.log import read_metrics
from regard.train.loop import Trainer
from regard.train.optimiser import Optimiser


@pytest.fixture(autouse=True, params=[False, True], ids=["looked at first", "by the kernel itself"])
def checks_on_device(request, monkeypatch) -> None:
    """Both ways to leave a step out; a processor's kernels can do what only a GPU is asked for otherwise."""
    monkeypatch.setattr(Optimiser, "checks_on_device", property(lambda self: request.param))


@pytest.fixture
def plant(monkeypatch):
    """Lets the loss or a gradient of some steps be another number."""

    def planted(steps: set[int], number: float, where: str) -> None:
        losses, next_inputs = Translation.losses, Trainer._next_inputs
        now = {"step": 0}

        def noted(self: Trainer) -> list:
            now["step"] = self.spent.steps + 1
            return next_inputs(self)

        def bad_losses(self: Translation, model: torch.nn.Module, inputs: Inputs) -> Losses:
            found = losses(self, model, inputs)
            if now["step"] not in steps:
                return found
            if where == "loss":
                return Losses(found.objective * number, found.cross_entropy)
            found.objective.register_hook(lambda gradient: gradient * number)
            return found

        monkeypatch.setattr(Trainer, "_next_inputs", noted)
        monkeypatch.setattr(Translation, "losses", bad_losses)

    return planted


@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_stopped_before_the_step_with_batch_and_examples_named(tmp_path: Path, plant, where: str, number: float):
    train(tiny_recipe(4), tmp_path / "whole")
    plant({5}, number, where)
    with pytest.raises(Failure) as caught:
        train(tiny_recipe(8, save_every=4), tmp_path / "run")
    said = str(caught.value)
    assert said.startswith("step 5: the loss is ")
    assert "; batch 4 of epoch 0 (examples " in said
    assert "the weights were not changed" in said
    assert "--skip-bad" in said
    kept, whole = weights(tmp_path / "run"), weights(tmp_path / "whole")
    assert all(torch.equal(kept[name], whole[name]) for name in whole)


def test_the_examples_are_named_by_their_texts(tmp_path: Path, plant, monkeypatch):
    read = []
    original = Trainer._next_inputs

    def noted(self: Trainer) -> list:
        batch = self.prefetcher.batch()
        source = batch.fields["source"]
        read.append((batch.origins[1][0], self.task.source.decode(source.tokens[0][: source.lengths[0]].tolist())))
        return original(self)

    monkeypatch.setattr(Trainer, "_next_inputs", noted)
    plant({3}, float("nan"), "loss")
    with pytest.raises(Failure) as caught:
        train(tiny_recipe(4), tmp_path / "run")
    line, text = read[2]
    assert f"(examples street/train:{line} '{text[:30]}" in str(caught.value)


def test_skip_bad_goes_on_counts_and_changes_no_weight_on_the_way(tmp_path: Path, plant, monkeypatch):
    seen: dict[int, torch.Tensor] = {}
    step = Trainer.step

    def noted(self: Trainer) -> dict:
        line = step(self)
        seen[self.spent.steps] = self.model.target_embedding.table.weight.detach().clone()
        return line

    monkeypatch.setattr(Trainer, "step", noted)
    plant({3, 6}, float("nan"), "loss")
    watching = train(tiny_recipe(8, skip_bad=True), tmp_path / "run")
    assert torch.equal(seen[2], seen[3])
    assert torch.equal(seen[5], seen[6])
    assert not torch.equal(seen[6], seen[7])
    lines = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line.get("split") == "train"]
    assert [line.get("skipped", 0) for line in lines] == [0, 0, 1, 1, 1, 2, 2, 2]
    told = [sentence for sentence in watching.said if "; skipped" in sentence]
    assert [sentence[:7] for sentence in told] == ["step 3:", "step 6:"]
    assert torch.stack([weight.isfinite().all() for weight in weights(tmp_path / "run").values()]).all()


def test_a_resumed_run_goes_on_counting(tmp_path: Path, plant):
    plant({3, 7}, float("nan"), "loss")
    recipe = tiny_recipe(8, skip_bad=True)
    train(recipe, tmp_path / "whole")
    train(recipe.but(train=recipe.train.but(steps=4)), tmp_path / "run")
    train(recipe, tmp_path / "run", resume=True)
    assert str(course(tmp_path / "run")[-1]) == str(course(tmp_path / "whole")[-1])
    assert dict(course(tmp_path / "run")[-2])["skipped"] == 2


def test_where_nothing_but_bad_batches_comes_it_stops_all_the_same(tmp_path: Path, plant):
    plant(set(range(5, 100)), float("nan"), "loss")
    with pytest.raises(Failure, match=r"step 15: .* so were the 10 batches before it: the weights are at fault"):
        train(tiny_recipe(50, skip_bad=True, save_every=50), tmp_path / "run")


def test_the_command_has_a_flag_for_it(tmp_path: Path, monkeypatch):
    asked = []
    monkeypatch.setattr("regard.api.train", lambda *settings, **_: asked.extend(settings[1:]))
    monkeypatch.setattr("regard.run.conclusion.next_commands", lambda run: [])
    monkeypatch.setattr("sys.argv", ["regard", "train", "x.toml", "seed=2", "--skip-bad"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    assert asked == ["seed=2", "train.skip_bad=true"]
