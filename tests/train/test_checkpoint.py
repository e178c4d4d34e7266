import errno
import json
import os
import shutil
import tempfile
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from checkpoint_cases import names, save_step, tensors_of
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import Failure, RunError
from regard.files import atomic as durable
from regard.files import run_folder
from regard.files.run_folder import link_checkpoint, linked_step, list_checkpoints
from regard.train import checkpoint as checkpoint_module
from regard.train.checkpoint import latest, load, prune, save, size_on_disk

DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A place for checkpoints, with a disk that need not be waited for."""
    monkeypatch.setattr(durable.os, "fsync", lambda descriptor: None)
    return tmp_path / "checkpoints"


class TestRoundTrip:
    @given(data=st.data())
    def test_gives_back_every_tensor_bit_for_bit(self, data):
        tensors = {
            name: data.draw(drawn_tensors(), label=name)
            for name in data.draw(st.lists(st.text(min_size=1, max_size=5).filter(is_name), unique=True, max_size=4))
        }
        with tempfile.TemporaryDirectory() as place:
            got = load(save(Path(place), 1, tensors, {}, {}, {"ema": tensors}))
        assert equal(got.model, tensors)
        assert equal(got.extra["ema"], tensors)
        assert got.optimizer == {}

    def test_gives_back_step_and_state_with_nan_and_infinity(self, folder):
        got = load(save_step(folder, 7, best=float("inf"), words="NaN", nested=[1, {"x": float("-inf")}, None, True]))
        assert got.step == 7
        assert got.state == {"best": float("inf"), "words": "NaN", "nested": [1, {"x": float("-inf")}, None, True]}

    def test_files_are_plain_safetensors_and_standard_json_that_others_may_read(self, folder):
        path = save_step(folder, 7, loss=float("nan"))
        for file in path.glob("*.json"):
            json.loads(file.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not standard"))
        assert names(path) == ["manifest.json", "model.safetensors", "optimizer.safetensors", "state.json"]
        assert {file.stat().st_mode for file in path.iterdir()} == {(path / "state.json").stat().st_mode}

    def test_reads_only_the_parts_that_are_asked_for(self, folder):
        got = load(save(folder, 1, tensors_of(1), tensors_of(2), {}, {"ema": tensors_of(3)}), parts=("model",))
        assert (set(got.model), got.optimizer, got.extra) == ({"layer.weight", "layer.bias"}, {}, {})

    def test_loaded_tensors_outlive_their_checkpoint_and_may_be_changed(self, folder):
        path = save_step(folder, 1)
        before = sha256((path / "model.safetensors").read_bytes()).digest()
        got = load(path)
        got.model["layer.weight"].add_(1)
        assert sha256((path / "model.safetensors").read_bytes()).digest() == before
        shutil.rmtree(path)
        assert torch.equal(got.model["layer.weight"], torch.full((3, 4), 2.0))

    def test_estimates_at_least_the_room_it_takes(self, folder):
        parts = {"model": tensors_of(1), "optimizer": {f"long.name.of.tensor.{i}": torch.zeros(1) for i in range(300)}}
        path = save(folder, 1, parts["model"], parts["optimizer"], {})
        taken = sum(file.stat().st_blocks * 512 for file in path.iterdir())
        assert taken <= size_on_disk(parts) <= taken + 200_000

    @pytest.mark.parametrize("name", ["model", "../up", "a/b", "", ".hidden"])
    def test_refuses_names_that_are_no_file_of_tensors(self, folder, name):
        with pytest.raises(ValueError, match="cannot name a file"):
            save(folder, 1, {}, {}, {}, {name: {}})

    @pytest.mark.parametrize(
        ("state", "place"), [({"a": {1: 2}}, "value.state.a"), ({"a": [torch.ones(1)]}, r"value.state.a\[0\]")]
    )
    def test_refuses_a_state_that_would_come_back_changed(self, folder, state, place):
        with pytest.raises(TypeError, match=place):
            save(folder, 1, {}, {}, state)
        assert not folder.exists()


def is_name(text: str) -> bool:
    return text.isprintable() and text != "__metadata__"


@st.composite
def drawn_tensors(draw: st.DrawFn) -> torch.Tensor:
    """Any dtype and shape, also empty or without dimensions, bits at random, contiguous or not."""
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    dtype = draw(st.sampled_from(DTYPES))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    if dtype == torch.bool:
        tensor = torch.randint(0, 2, shape, generator=generator).bool()
    else:
        size = torch.Size(shape).numel() * dtype.itemsize
        tensor = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator).view(dtype).view(shape)
    return tensor.transpose(0, -1) if shape and draw(st.booleans()) else tensor


def equal(got: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> bool:
    return got.keys() == wanted.keys() and all(
        (got[name].dtype, got[name].shape) == (tensor.dtype, tensor.shape) and bits(got[name]) == bits(tensor)
        for name, tensor in wanted.items()
    )


def bits(tensor: torch.Tensor) -> list[int]:
    return tensor.contiguous().flatten().view(torch.uint8).tolist()


class TestLinks:
    def test_last_follows_each_save_and_best_is_set_by_hand(self, folder):
        for step in (1, 2, 3):
            save_step(folder, step)
        link_checkpoint(folder, "best", 2)
        assert os.readlink(folder / "last") == "step-3"
        assert (linked_step(folder, "best"), load(folder / "best").step) == (2, 2)

    def test_a_file_stands_for_a_link_where_there_are_none(self, folder, monkeypatch):
        def refuse(*_: object) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(run_folder.Path, "symlink_to", refuse)
        save_step(folder, 1)
        save_step(folder, 2)
        assert (folder / "last").read_text() == "step-2\n"
        assert load(folder / "last").step == 2
        prune(folder)
        assert names(folder) == ["last", "step-1", "step-2"]

    def test_a_copy_without_links_goes_on(self, folder, tmp_path):
        save_step(folder, 1)
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy, symlinks=False)
        assert load(copy / "last").step == 1
        save_step(copy, 2)
        assert os.readlink(copy / "last") == "step-2"
        assert names(copy) == ["last", "step-1", "step-2"]

    def test_pointing_to_nothing_is_refused(self, folder):
        save_step(folder, 1)
        with pytest.raises(RunError, match="no such checkpoint, so 'best' cannot point to it"):
            link_checkpoint(folder, "best", 5)

    def test_text_that_names_another_place_is_not_followed(self, folder):
        save_step(folder, 1)
        (folder / "best").write_text("../../etc")
        assert linked_step(folder, "best") is None


class TestPrune:
    @given(
        steps=st.sets(st.integers(0, 30), min_size=1, max_size=6),
        keep=st.integers(0, 4),
        best=st.integers(0, 5),
    )
    def test_keeps_best_last_and_the_newest(self, steps, keep, best):
        ordered = sorted(steps)
        with tempfile.TemporaryDirectory() as place:
            for step in ordered:
                (Path(place) / f"step-{step}").mkdir()
            chosen = ordered[best % len(ordered)]
            link_checkpoint(Path(place), "best", chosen)
            link_checkpoint(Path(place), "last", ordered[-1])
            prune(Path(place), keep)
            left = {step for step, _ in list_checkpoints(Path(place))}
        assert left == {chosen, *ordered[-max(keep, 2) :]}

    def test_leaves_strange_names_alone(self, folder):
        strange = ["notes", "step-01", "step-1.old.bak", "step-99999999999999999999", "step-x"]
        for name in strange:
            (folder / name).mkdir(parents=True)
        save_step(folder, 5)
        prune(folder)
        assert names(folder) == sorted(["last", "step-5", *strange])


class TestSameStepAgain:
    def test_replaces_the_one_before(self, folder):
        save_step(folder, 1, version=1)
        save_step(folder, 1, version=2)
        assert load(folder / "step-1").state == {"version": 2}
        assert names(folder) == ["last", "step-1"]

    def test_one_that_was_being_replaced_is_found(self, folder):
        save_step(folder, 1).rename(folder / "step-1.old")
        assert latest(folder) == (folder / "step-1.old", [])
        assert load(folder / "step-1.old").step == 1

    def test_a_disk_that_gives_back_other_bytes_is_noticed_before_anything_older_goes(self, folder, monkeypatch):
        save_step(folder, 1, version=1)
        save_step(folder, 2, version=1)
        rename = Path.rename

        def rename_and_spoil(path: Path, target: Path) -> Path:
            moved = rename(path, target)
            if path.name.endswith(".saving"):
                (moved / "model.safetensors").write_bytes(b"spoiled")
            return moved

        monkeypatch.setattr(checkpoint_module.Path, "rename", rename_and_spoil)
        for step in (2, 3):
            with pytest.raises(Failure, match=f"step-{step}/model.safetensors: .*the disk gave back something else"):
                save_step(folder, step, version=2)
        assert names(folder) == ["last", "step-1", "step-2"]
        assert load(folder / "step-2").state == {"version": 1}
