"""The run on paper against what torch does: every byte that is counted, counted again."""

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import run_on_paper
import torch
from run_on_paper import Cluster, Share, activation_bytes, estimate, held, on_paper, rows_of, sent_bytes
from torch import nn

from regard.models import DecoderConfig, EncoderDecoderConfig
from regard.nn import head
from regard.nn.fast import plan
from regard.nn.layout import Sequences
from regard.train.optimiser import AdamWConfig
from regard.train.parallel.model import blocks_of, checkpoint_blocks
from regard.train.parallel.state import local_bytes

ROOT = Path(__file__).parents[2]
VOCAB = 128
SHARE = Share(rows=5, target=14, source=9)


def saved_bytes(model: nn.Module, share: Share, half: bool, translates: bool) -> int:
    """Bytes of all tensors that the backward pass will ask for, weights and copies of weights left out."""
    storages, weights = {}, {tuple(p.shape) for p in model.parameters() if p.dim() > 1}
    weights |= {shape[::-1] for shape in weights}
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        copy = half and tensor.dtype is torch.bfloat16 and tuple(tensor.shape) in weights
        if storage.data_ptr() not in own and not copy:
            storages[storage.data_ptr()] = tensor
        return tensor

    def grid(time: int) -> Sequences:
        return Sequences.padded([list(range(time))] * share.rows)

    given = [grid(share.source), grid(share.target)] if translates else [grid(share.target)]
    targets = torch.ones(share.rows, share.target, dtype=torch.long)
    watched = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with watched, torch.autocast("cpu", torch.bfloat16, enabled=half):
        loss = model.head.loss(model.hidden(*given), targets)
    assert loss.requires_grad
    return sum(tensor.untyped_storage().nbytes() for tensor in storages.values())


@pytest.fixture(autouse=True)
def fused_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper is about GPUs: their kernels keep no weights of attention, as plain products on a CPU do."""
    monkeypatch.setattr(plan, "matmul_is_faster", lambda *_: False)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(("depth", "dropout", "place"), [(1, 0.0, "before"), (3, 0.1, "before"), (2, 0.1, "after")])
@pytest.mark.parametrize("kind", [DecoderConfig, EncoderDecoderConfig])
def test_activations_are_those_that_torch_saves(kind: type, depth: int, dropout: float, place: str, half: bool):
    config = kind(width=24, depth=depth, heads=2, dropout=dropout, norm_place=place)
    translates = kind is EncoderDecoderConfig
    share = SHARE if translates else Share(rows=5, target=14)
    found = saved_bytes(config.build(VOCAB).train(), share, half, translates)
    assert activation_bytes(config, VOCAB, share, half) == found


@pytest.mark.parametrize("kind", [DecoderConfig, EncoderDecoderConfig])
def test_blocks_that_are_computed_again_save_what_goes_into_them(kind: type):
    config = kind(width=24, depth=3, heads=2, dropout=0.0)
    translates = kind is EncoderDecoderConfig
    share = SHARE if translates else Share(rows=5, target=14)
    model = config.build(VOCAB).train()
    checkpoint_blocks(model)
    heard = []  # keys and values of the source: kept for the second pass, but not by way of the hooks
    for block in blocks_of(model):
        block.register_forward_pre_hook(lambda _, given: heard.append(given[3]))
    found = saved_bytes(model, share, False, translates)
    found += sum(one.keys.nbytes + one.values.nbytes for one in heard if one is not None)
    assert activation_bytes(config, VOCAB, share, half=False, kept=False) == found


def test_a_loss_in_slices_saves_gradients_and_no_logits(monkeypatch):
    monkeypatch.setattr(head, "LARGE_ON_CPU", 100)
    monkeypatch.setattr(run_on_paper, "LARGE", 100)
    config, share = DecoderConfig(width=24, depth=2, heads=2, dropout=0.0), Share(rows=5, target=14)
    found = saved_bytes(config.build(VOCAB).train(), share, half=False, translates=False)
    assert activation_bytes(config, VOCAB, share, half=False) == found


def test_what_one_process_holds_is_what_its_model_and_optimiser_hold():
    config = DecoderConfig(width=24, depth=2, heads=2, dropout=0.0)
    model = config.build(VOCAB)
    optimiser = AdamWConfig().build(model, 1e-3)
    model.head(model.hidden(Sequences.padded([[1, 2, 3]]))).sum().backward()
    optimiser.step()
    counted = held(on_paper(config, VOCAB), "ddp", 8)
    assert counted.weights == local_bytes(model.parameters())
    assert counted.gradients == local_bytes(p.grad for p in model.parameters() if p.grad is not None)
    assert counted.moments == local_bytes(optimiser.tensors().values())


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 512])
@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_rows_are_cut_as_torch_cuts_them(rows: int, processes: int):
    cut = [len(part) for part in torch.arange(rows).chunk(processes)]
    cut += [0] * (processes - len(cut))
    assert [rows_of(rows, processes, rank) for rank in range(processes)] == cut


def test_the_paper_model_has_the_size_that_its_config_says():
    config = EncoderDecoderConfig(width=512, depth=6, heads=8)
    found = estimate(config, 37_000, Share(100, 30, 30), Cluster(8), "ddp")
    assert found.parameters == config.num_params(37_000)
    assert found.held == pytest.approx(16 * found.parameters, rel=1e-3)


def test_fsdp_holds_less_and_sends_more_than_ddp():
    config = DecoderConfig(width=256, depth=4, heads=4)
    copied, cut = (estimate(config, 1000, Share(8, 128), Cluster(16), kind, half=False) for kind in ("ddp", "fsdp"))
    assert cut.held < copied.held / 15
    assert cut.sent > copied.sent * 1.2
    assert cut.compute == copied.compute
    assert sent_bytes(on_paper(config, 1000), "none", 1, half=True) == 0


def test_far_links_are_slower():
    assert Cluster(8).link > Cluster(16).link


@pytest.fixture(scope="module")
def tables() -> Iterator[ModuleType]:
    """The script that writes the tables of the document."""
    spec = importlib.util.spec_from_file_location("paper_model", ROOT / "benchmarks" / "paper_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["paper_model"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["paper_model"]


def test_no_figure_of_the_document_is_typed_by_hand(tables: ModuleType):
    document = (ROOT / "docs" / "grow.md").read_text(encoding="utf-8")
    assert tables.filled(document) == document, "run python benchmarks/paper_model.py"


def test_the_measured_losses_and_bytes_are_as_promised(tables: ModuleType):
    result = tables.stored("grow-cpu")
    assert {(row["parallel"], row["processes"]) for row in result["rows"]} >= {("ddp", 2), ("fsdp", 2), ("fsdp", 4)}
    for row in result["rows"]:
        assert row["apart"] < 1e-4
        assert row["held"] == row["paper"]


def test_launch_files_name_what_exists():
    launch = ROOT / "docs" / "launch"
    assert subprocess.run(["bash", "-n", str(launch / "train.sbatch")], check=False).returncode == 0
    for name in ("train.sbatch", "pytorchjob.yaml"):
        text = (launch / name).read_text(encoding="utf-8")
        assert "torchrun" in text
        assert "regard train" in re.sub(r'[",]', "", text)
        assert f"launch/{name}" in (ROOT / "docs" / "grow.md").read_text(encoding="utf-8")
