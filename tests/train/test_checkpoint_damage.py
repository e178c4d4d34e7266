"""Damaged and hostile files of checkpoints: noticed before anything is read, named, and passed over."""

import json
import os
import random
from pathlib import Path

import pytest
import torch
from checkpoint_cases import names, save_step
from safetensors.torch import save_file

from regard.errors import RunError
from regard.files import atomic as durable
from regard.files.manifest import write_manifest
from regard.files.run_folder import link_checkpoint
from regard.train.checkpoint import broken, latest, load


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A place for checkpoints, with a disk that need not be waited for."""
    monkeypatch.setattr(durable.os, "fsync", lambda descriptor: None)
    return tmp_path / "checkpoints"


class TestDamage:
    """Every byte of every file counts, and a damaged checkpoint is passed over by name."""

    def test_any_changed_byte_is_noticed_and_its_file_named(self, folder):
        save_step(folder, 300)
        path = save_step(folder, 400, note="x")
        chance, flipped = random.Random(1), 0
        for file in sorted(path.iterdir()):
            whole = file.read_bytes()
            for i in range(len(whole)):
                file.write_bytes(whole[:i] + bytes([whole[i] ^ 1 << chance.randrange(8)]) + whole[i + 1 :])
                assert str(file) in str(broken(path)), i
                flipped += 1
            assert latest(folder)[0] == folder / "step-300"
            file.write_bytes(whole)
            assert latest(folder) == (path, [])
        assert flipped > 900

    @pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"])
    def test_a_cut_missing_or_strange_file_is_noticed_and_named(self, folder, name):
        save_step(folder, 300)
        path = save_step(folder, 400)
        file = path / name
        whole = file.read_bytes()
        for length in (0, 1, 8, len(whole) // 2, len(whole) - 1):
            file.write_bytes(whole[:length])
            assert_passed_over(folder, file)
        file.write_bytes(whole + b"\0")
        assert_passed_over(folder, file)
        file.unlink()
        assert_passed_over(folder, file)
        file.mkdir()
        assert_passed_over(folder, file)
        file.rmdir()
        os.mkfifo(file)  # reading it would hang
        assert_passed_over(folder, file)

    def test_says_what_differs_and_what_is_used_instead(self, folder):
        save_step(folder, 300)
        path = save_step(folder, 400)
        (path / "model.safetensors").write_bytes((path / "optimizer.safetensors").read_bytes())
        (path / "optimizer.safetensors").touch()
        _, warnings = latest(folder)
        assert len(warnings) == 1
        assert warnings[0].startswith(f"{path}/model.safetensors: has ")
        assert warnings[0].endswith("; using step-300 instead")

    def test_a_file_that_does_not_belong_is_named_but_the_marks_of_file_browsers_are_let_be(self, folder):
        path = save_step(folder, 400)
        (path / ".DS_Store").touch()
        assert broken(path) is None
        (path / "evil.pt").touch()
        assert str(broken(path)) == f"{path}/evil.pt: is not in the manifest, so it does not belong here"

    def test_nothing_restarts_silently_when_all_are_broken(self, folder):
        for step in (300, 400):
            (save_step(folder, step) / "state.json").unlink()
        with pytest.raises(RunError, match=r"no checkpoint is whole .*step-400/state.json.*step-300/state.json"):
            latest(folder)

    def test_no_checkpoint_at_all_is_no_error(self, folder):
        assert latest(folder) == (None, [])
        folder.mkdir()
        (folder / ".step-1.saving").mkdir()
        assert latest(folder) == (None, [])

    def test_a_renamed_checkpoint_is_not_taken_for_another_step(self, folder):
        save_step(folder, 300).rename(folder / "step-500")
        assert "state.json: is of step 300, not of step-500" in str(broken(folder / "step-500"))

    def test_a_broken_later_one_goes_when_the_run_has_saved_again(self, folder):
        save_step(folder, 300)
        (save_step(folder, 400) / "state.json").unlink()
        link_checkpoint(folder, "best", 400)
        save_step(folder, 350)
        assert names(folder) == ["last", "step-300", "step-350"]
        assert latest(folder) == (folder / "step-350", [])

    def test_a_whole_later_one_is_never_overtaken(self, folder):
        save_step(folder, 400)
        with pytest.raises(RunError, match="step-400: is later than step 300; resume from it"):
            save_step(folder, 300)
        assert names(folder) == ["last", "step-400"]

    def test_a_broken_link_or_place_is_one_sentence(self, folder):
        with pytest.raises(RunError, match="step-9: no checkpoint there"):
            load(folder / "step-9")
        path = save_step(folder, 1)
        (path / "model.safetensors").unlink()
        with pytest.raises(RunError, match=r"step-1/model.safetensors: is missing; restore"):
            load(folder / "last")


def assert_passed_over(folder: Path, file: Path) -> None:
    path, warnings = latest(folder)
    assert path == folder / "step-300"
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{file}: ")


def retouch(path: Path) -> None:
    """A manifest that agrees with the files as they are now: what only a hostile hand does."""
    (path / "manifest.json").unlink()
    write_manifest(path)


class TestHostileFiles:
    """Manifests that agree with files that are not what they should be."""

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\x80\x04\x95" + b"\0" * 40,
            b"PK\x03\x04" + b"\0" * 40,
            b"\xff" * 8 + b"{}",
            (99_000_000).to_bytes(8, "little") + b"{}",
            (2).to_bytes(8, "little") + b"[]",
            (10**5).to_bytes(8, "little") + b'{"a":' * 20_000,
        ],
    )
    def test_what_is_no_safetensors_file_is_refused_by_name(self, folder, content):
        path = save_step(folder, 1)
        (path / "model.safetensors").write_bytes(content)
        retouch(path)
        with pytest.raises(RunError, match=r"model.safetensors: is no sound safetensors file"):
            load(path)

    @pytest.mark.parametrize(
        "entry",
        [
            {"dtype": "F32", "shape": [4], "data_offsets": [0, 8]},
            {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]},
            {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]},
            {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 8]},
            {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]},
            {"dtype": "F32", "shape": [2], "data_offsets": [0, 2**63]},
            {"dtype": "X99", "shape": [2], "data_offsets": [0, 8]},
        ],
    )
    def test_wrong_offsets_and_shapes_are_refused_by_name(self, folder, entry):
        path = save_step(folder, 1)
        header = json.dumps({"w": entry}).encode()
        (path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 8)
        retouch(path)
        with pytest.raises(RunError, match=r"model.safetensors: is no sound safetensors file"):
            load(path)

    @pytest.mark.parametrize(
        "content", [b"[1]", b'{"step": "1", "state": {}}', b"[" * 100_000, b'{"step": 1, "state": NaN}', b"\xff\xfe"]
    )
    def test_a_state_that_is_none_is_refused_by_name(self, folder, content):
        path = save_step(folder, 1)
        (path / "state.json").write_bytes(content)
        retouch(path)
        with pytest.raises(RunError, match=r"step-1/state.json: "):
            load(path)

    @pytest.mark.parametrize(
        "content", ["[" * 100_000, "{}", '{"format": 2, "files": {}}', '{"format": 1, "files": []}']
    )
    def test_a_manifest_that_is_none_is_refused_by_name(self, folder, content):
        path = save_step(folder, 1)
        (path / "manifest.json").write_text(content)
        with pytest.raises(RunError, match=r"step-1/manifest.json: "):
            load(path)

    def test_a_huge_json_file_is_refused_unread(self, folder):
        path = save_step(folder, 1)
        with (path / "manifest.json").open("wb") as stream:
            stream.truncate(2**40)
        with pytest.raises(RunError, match="is no file of at most"):
            load(path)

    def test_names_in_a_manifest_never_lead_out_of_the_folder(self, folder, tmp_path):
        path = save_step(folder, 1)
        outside = path / ".." / "outside.safetensors"
        save_file({"w": torch.ones(1)}, outside)
        manifest = (path / "manifest.json").read_text().replace("model.safetensors", "../outside.safetensors")
        (path / "manifest.json").write_text(manifest)
        assert broken(path) is not None
