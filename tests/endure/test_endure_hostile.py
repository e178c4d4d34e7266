"""Files made to harm: refused with a sentence before anything is allocated or executed; a canary never fires."""

import gzip
import io
import json
import pickle
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from endured import TINY, tiny_recipe, tiny_tree, train

from regard import api
from regard.config import dump_toml
from regard.data.source_reader import read_examples
from regard.data.sources import SourceConfig
from regard.decode import GreedyConfig
from regard.errors import ConfigError, DataError, RegardError, RunError
from regard.export.huggingface.import_model import read_folder
from regard.files.manifest import write_manifest
from regard.files.run_folder import MANIFEST_FILE
from regard.run.recipe import read_recipe
from regard.run.trained import Run

DEEP = 10_000


class Canary:
    """Whoever unpickles it writes a file: the file must never be there."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return exec, (f"open({str(self.file)!r}, 'w').write('sung')",)


@pytest.fixture
def canary(tmp_path: Path):
    file = tmp_path / "canary"
    yield Canary(file)
    assert not file.exists(), "something was executed"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(tiny_recipe(2), folder)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of a trained run, to be harmed."""
    subprocess.run(["cp", "-r", str(trained), str(tmp_path / "run")], check=True)
    return tmp_path / "run"


def as_pickle(canary: Canary) -> bytes:
    return pickle.dumps({"model": canary})


def as_torch(canary: Canary) -> bytes:
    stream = io.BytesIO()
    torch.save({"model": canary}, stream)
    return stream.getvalue()


class TestCanary:
    """Pickles under every name that a model, a state or data may have."""

    @pytest.mark.parametrize("packed", [as_pickle, as_torch])
    @pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.jsonl", "a.parquet", "a.txt.gz", "a.csv.zst"])
    def test_in_data(self, tmp_path: Path, canary: Canary, packed, name: str):
        (tmp_path / name).write_bytes(packed(canary))
        columns = {} if ".txt" in name else {"text": 0, "label": 1}
        with pytest.raises(DataError, match=rf"{name}"):
            list(read_examples(SourceConfig(file=name, **columns), tmp_path))

    @pytest.mark.parametrize("name", ["a.pt", "a.pth", "a.pkl", "a.bin", "a.ckpt", "a.zip", "a.npz", "a.joblib"])
    def test_data_by_such_a_name_is_not_even_opened(self, name: str):
        with pytest.raises(ConfigError, match=r"files are not read; convert it to text"):
            SourceConfig(file=name)

    @pytest.mark.parametrize("packed", [as_pickle, as_torch])
    @pytest.mark.parametrize(
        "name", ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json", "evil.pt"]
    )
    def test_in_a_checkpoint_also_where_the_manifest_agrees(self, run: Path, canary: Canary, packed, name: str):
        step = run / "checkpoints" / "step-2"
        (step / name).write_bytes(packed(canary))
        with pytest.raises(RunError, match=name):
            Run.open(run, "cpu")
        if name not in (MANIFEST_FILE, "evil.pt"):
            (step / MANIFEST_FILE).unlink()
            write_manifest(step)
            with pytest.raises(RunError, match=name):
                Run.open(run, "cpu")

    @pytest.mark.parametrize("packed", [as_pickle, as_torch])
    @pytest.mark.parametrize("name", ["recipe.toml", "tokenizer.json"])
    def test_in_a_run_folder(self, run: Path, canary: Canary, packed, name: str):
        (run / name).write_bytes(packed(canary))
        with pytest.raises(RegardError, match=name):
            Run.open(run, "cpu")

    def test_code_beside_a_model_is_never_run(self, run: Path, tmp_path: Path, canary: Canary):
        for name in ("modeling.py", "configuration.py", "sitecustomize.py", "conftest.py", "__init__.py"):
            (run / name).write_text(f"open({str(canary.file)!r}, 'w').write('sung')")
        Run.open(run, "cpu").translate(["The dog sleeps."], GreedyConfig(max_length=2))
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        (theirs / "modeling.py").write_text(f"open({str(canary.file)!r}, 'w').write('sung')")
        settings = {"architectures": ["Evil"], "auto_map": {"AutoModel": "modeling.Evil"}, "trust_remote_code": True}
        (theirs / "config.json").write_text(json.dumps(settings))
        (theirs / "pytorch_model.bin").write_bytes(as_torch(canary))
        with pytest.raises(DataError, match="architectures: expected one of"):
            read_folder(theirs)
        settings["architectures"] = ["GPT2LMHeadModel"]
        settings |= {"n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 8, "vocab_size": 300}
        for name in ("trust_remote_code", "auto_map"):
            (theirs / "config.json").write_text(json.dumps(settings))
            with pytest.raises(DataError, match=name):
                read_folder(theirs)
            del settings[name]
        (theirs / "config.json").write_text(json.dumps(settings))
        with pytest.raises(DataError, match="pickled weights are not read, since they may run any program"):
            api.import_run(theirs, tmp_path / "imported")


class TestBombs:
    """Little that becomes much."""

    def test_a_packed_line_without_end(self, tmp_path: Path):
        zeros = gzip.compress(bytes(80 << 20), compresslevel=1)
        (tmp_path / "a.txt.gz").write_bytes(zeros)
        packed = pa.compress(bytes(80 << 20), codec="zstd", asbytes=True)
        (tmp_path / "b.csv.zst").write_bytes(packed)
        assert len(zeros) < 500_000
        for file, columns in (("a.txt.gz", {}), ("b.csv.zst", {"text": 0, "label": 1})):
            with pytest.raises(DataError, match=rf"{file}.*(a line of more than 67,108,864 bytes|NUL|holds)"):
                list(read_examples(SourceConfig(file=file, **columns), tmp_path))

    def test_a_packed_parquet_file_that_would_fill_the_disk(self, tmp_path: Path, monkeypatch):
        monkeypatch.setattr("regard.data.readers.parquet.MAX_UNPACKED", 1 << 20)
        (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(bytes(8 << 20)))
        with pytest.raises(DataError, match=r"unpacks to more than 1,048,576 bytes, as no Parquet file would"):
            list(read_examples(SourceConfig(file="a.parquet.gz", text=0, label=1), tmp_path))

    def test_a_zip_by_another_name(self, tmp_path: Path):
        with zipfile.ZipFile(tmp_path / "a.txt", "w", zipfile.ZIP_DEFLATED) as bomb:
            bomb.writestr("zeros", bytes(1 << 20))
        with pytest.raises(DataError, match=r"a.txt:1: "):
            list(read_examples(SourceConfig(file="a.txt"), tmp_path))


class TestAbsurdSizes:
    """Numbers that promise more than any machine has."""

    @pytest.mark.parametrize(
        "header",
        [
            {"w": {"dtype": "F32", "shape": [2**40, 2**20], "data_offsets": [0, 2**62]}},
            {"w": {"dtype": "F32", "shape": [2], "data_offsets": [8, 2**63]}},
            {"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 8]}},
        ],
    )
    def test_in_a_safetensors_file_that_its_manifest_agrees_with(self, run: Path, header: dict):
        step, text = run / "checkpoints" / "step-2", json.dumps(header).encode()
        (step / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
        (step / MANIFEST_FILE).unlink()
        write_manifest(step)
        with pytest.raises(RunError, match=r"model.safetensors: is no sound safetensors file"):
            Run.open(run, "cpu")

    @pytest.mark.parametrize("length", [2**63, 2**40, 99_999_999])
    def test_in_the_length_of_a_header(self, tmp_path: Path, length: int):
        (tmp_path / "config.json").write_text(
            json.dumps({"architectures": ["GPT2LMHeadModel"], "n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 8})
        )
        (tmp_path / "model.safetensors").write_bytes(length.to_bytes(8, "little") + b"{}")
        with pytest.raises(DataError, match="not a whole safetensors file"):
            read_folder(tmp_path)

    @pytest.mark.parametrize(
        "change",
        [
            {"model": {"vocab": {"a": 10**18}}},
            {"padding": {"strategy": {"Fixed": 10**15}, "direction": "Right", "pad_id": 0, "pad_type_id": 0,
                         "pad_token": "<pad>", "pad_to_multiple_of": None}},
            {"truncation": {"max_length": 2**63, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}},
            {"added_tokens": [{"id": 2**32 - 1, "content": "x", "special": True}]},
        ],
    )  # fmt: skip
    def test_in_a_tokenizer(self, run: Path, change: dict):
        tree = json.loads((run / "tokenizer.json").read_text())
        change = {"model": {**tree["model"], **change["model"]}} if "model" in change else change
        (run / "tokenizer.json").write_text(json.dumps({**tree, **change}))
        with pytest.raises(DataError, match=r"tokenizer.json: not a tokenizer that regard can use"):
            Run.open(run, "cpu")

    def test_in_a_vocabulary_that_is_asked_for(self, tmp_path: Path):
        with pytest.raises(ConfigError, match=r"tokenizer.size: expected less than or equal to 2097152"):
            api.Recipe.from_tree({"tokenizer": {"kind": "bpe", "size": 10**12}})

    @pytest.mark.parametrize("model", [{"depth": 10**9}, {"width": 2**40}, {"feedforward": {"hidden": 2**40}}])
    def test_in_the_recipe_of_a_run_that_is_opened(self, run: Path, model: dict):
        (run / "recipe.toml").write_text(dump_toml({**tiny_tree(), "model": {**TINY, **model}}))
        with pytest.raises(ConfigError, match=r"^model"):
            Run.open(run, "cpu")

    @pytest.mark.parametrize("settings", [{"n_layer": 10**9}, {"n_embd": 2**40}, {"n_layer": "many"}, {"n_head": 0}])
    def test_in_the_settings_of_a_model_from_elsewhere(self, tmp_path: Path, settings: dict):
        from safetensors.torch import save_file

        usual = {"architectures": ["GPT2LMHeadModel"], "n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 8}
        (tmp_path / "config.json").write_text(json.dumps({**usual, **settings}))
        save_file({"transformer.wte.weight": torch.zeros(300, 8)}, tmp_path / "model.safetensors")
        with pytest.raises(RegardError):
            read_folder(tmp_path)


class TestDepth:
    """Brackets within brackets, ten thousand deep."""

    @pytest.mark.parametrize(
        "text",
        [
            "seed = " + "[" * DEEP + "]" * DEEP,
            "seed = " + "{a = " * DEEP + "1" + "}" * DEEP,
            "a" + ".a" * DEEP + " = 1",
            "model" + ".a" * (DEEP // 4) + " = 1",
            "[" + "a." * (DEEP // 4) + "a]\nb = 1",
            "[model]\npreset = 'vaswani-base'\nposition" + ".a" * (DEEP // 4) + " = 1",
            "seed = " + "9" * DEEP,
            "[[data]]\n" * DEEP,
        ],
    )
    def test_in_a_recipe(self, tmp_path: Path, text: str):
        (tmp_path / "recipe.toml").write_text(text)
        with pytest.raises(RegardError) as caught:
            read_recipe(tmp_path / "recipe.toml")
        assert 0 < len(str(caught.value)) < 500

    @pytest.mark.parametrize("text", ["[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "9" * DEEP])
    def test_in_json(self, run: Path, tmp_path: Path, text: str):
        (tmp_path / "a.jsonl").write_text(text)
        with pytest.raises(DataError, match=r"a.jsonl:1: "):
            list(read_examples(SourceConfig(file="a.jsonl", text="a"), tmp_path))
        for name in ("tokenizer.json", "checkpoints/step-2/state.json"):
            before = (run / name).read_text()
            (run / name).write_text(text)
            with pytest.raises(RegardError, match=r"tokenizer.json|state.json"):
                Run.open(run, "cpu")
            (run / name).write_text(before)
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(DataError, match=r"config.json"):
            read_folder(tmp_path)


class TestNames:
    """Names that lead elsewhere, or nowhere."""

    @pytest.mark.parametrize("name", ["a\0b", "x" * 300, "a/" + "y" * 256 + "/b"])
    @pytest.mark.parametrize(
        "place", ["data.folder", "data.train.file", "start.run", "task.dictionary", "data.train.hub"]
    )
    def test_that_no_system_takes_are_refused_by_their_setting(self, place: str, name: str):
        tree: dict[str, Any] = {"task": {"kind": "translation", "unknown": "replace"}}
        here = tree
        *tables, key = place.split(".")
        for table in tables:
            here = here.setdefault(table, {})
        here[key] = name
        with pytest.raises(ConfigError, match=place):
            api.Recipe.from_tree(tree)

    @pytest.mark.parametrize("name", ["source", "target"])
    def test_of_a_file_that_is_a_column_elsewhere(self, name: str):
        with pytest.raises(ConfigError, match=name):
            SourceConfig.from_tree({"source": "a", "target": "b", name: "a\0"})

    def test_of_a_user_that_is_none(self, tmp_path: Path):
        with pytest.raises(DataError, match="no such file"):
            list(read_examples(SourceConfig(file="~nobody-of-this-name/a.txt"), tmp_path))

    @pytest.mark.parametrize(
        "which", ["../../../etc", "step-2/../../..", "step-2\0", "", ".", "best/../../x", "step-١"]
    )
    def test_of_a_checkpoint_lead_nowhere_else(self, trained: Path, which: str):
        with pytest.raises(RunError, match="expected the checkpoint best, last or step-N"):
            Run.open(trained, "cpu", which)

    @pytest.mark.parametrize("serve", ["../model", "nothing", "", 7, None, ["model"]])
    def test_of_weights_that_a_state_points_to(self, run: Path, serve: object):
        step = run / "checkpoints" / "step-2"
        state = json.loads((step / "state.json").read_text())
        state["state"]["serve"] = serve
        (step / "state.json").write_text(json.dumps(state))
        (step / MANIFEST_FILE).unlink()
        write_manifest(step)
        with pytest.raises(RunError, match="has no weights called"):
            Run.open(run, "cpu")

    def test_a_state_of_another_kind_of_run_is_refused_by_a_run_that_goes_on(self, run: Path):
        step = run / "checkpoints" / "step-2"
        (step / "state.json").write_text(json.dumps({"step": 2, "state": {}}))
        (step / MANIFEST_FILE).unlink()
        write_manifest(step)
        recipe = tiny_recipe(4)
        with pytest.raises(RunError, match=r"step 2 was not saved by a run with these settings"):
            train(recipe, run, resume=True)

    def test_links_in_a_run_folder_do_not_show_other_files(self, run: Path, tmp_path: Path):
        (tmp_path / "secret").write_text("secret")
        (run / "tokenizer.json").unlink()
        (run / "tokenizer.json").symlink_to(tmp_path / "secret")
        with pytest.raises(DataError) as caught:
            Run.open(run, "cpu")
        assert "secret" not in str(caught.value).replace(str(tmp_path), "")
