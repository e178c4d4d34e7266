"""The planner: which path each situation takes, and that it says why.

What it would choose on a GPU is asked with fake tensors, which have a device but no numbers.
"""

from collections.abc import Callable
from typing import get_args

import pytest
import torch
from attention_cases import make_layout, self_context
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import regard.nn.fast.plan as planning
from regard.nn.attention.module import Attention
from regard.nn.fast.plan import FAST_PATHS, SPARSE_FROM, Path, Plan, plan
from regard.nn.pattern import Causal, Global, Pattern, Random, Shifted, Window
from regard.nn.position import Alibi, Bias, Relative

LONG = SPARSE_FROM


def tensors(
    device: str, time: int = 8, dtype: torch.dtype = torch.float32, width: int = 64, keys: int | None = None
) -> tuple[Tensor, Tensor]:
    with FakeTensorMode():
        query = torch.empty(1, 2, time, width, device=device, dtype=dtype)
        return query, torch.empty(1, 2, keys or time, width, device=device, dtype=dtype)


def packed(causal: bool = False) -> Pattern | None:
    return self_context(make_layout("packed", [3, 5], 5), Causal() if causal else None).pattern


def packed_long() -> Pattern | None:
    return make_layout("packed", [500, 524], 524).pattern()


def padded() -> Pattern | None:
    return make_layout("padded", [3, 5], 8).pattern()


def bias() -> Bias:
    return Alibi(2).bias(torch.zeros(1, 2, 8, 4), self_context(make_layout("full", [8], 8), None))


@pytest.fixture(autouse=True)
def with_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is planned for a GPU, wherever this runs."""
    monkeypatch.setattr(planning, "HAS_TRITON", True)


def choose(query_key: tuple[Tensor, Tensor], pattern: Pattern | None = None, **more: object) -> Plan:
    settings = {"bias": None, "needs_weights": False, "dropout": 0.0, **more}
    return plan(*query_key, pattern, **settings)


def sparse() -> Pattern:
    return Window(1, 64) | Global(1) | Random(1, 64, 2, LONG)


def sparse_packed() -> Pattern | None:
    return self_context(make_layout("packed", [LONG // 2, LONG // 2], LONG // 2), sparse()).pattern


PLACES = torch.arange(LONG)[None]


SITUATIONS: dict[str, tuple[str, Callable[[], Plan]]] = {
    "plain": ("sdpa", lambda: choose(tensors("cpu"))),
    "causal": ("sdpa", lambda: choose(tensors("cpu"), Causal())),
    "causal on a GPU": ("sdpa", lambda: choose(tensors("cuda", LONG), Causal())),
    "padded": ("sdpa", lambda: choose(tensors("cpu"), padded())),
    "biased": ("sdpa", lambda: choose(tensors("cuda"), None, bias=bias())),
    "weights needed": ("reference", lambda: choose(tensors("cuda"), Causal(), needs_weights=True)),
    "strict": ("reference", lambda: choose(tensors("cuda"), Causal(strict=True))),
    "random alone": ("reference", lambda: choose(tensors("cuda"), Random(1, 2, 2, 8))),
    "packed": ("unpacked_sdpa", lambda: choose(tensors("cpu"), packed())),
    "packed causal": ("unpacked_sdpa", lambda: choose(tensors("cpu"), packed(causal=True))),
    "packed on a GPU": ("key_range_attention", lambda: choose(tensors("cuda", dtype=torch.bfloat16), packed())),
    "long packed on a GPU": ("varlen_attention", lambda: choose(tensors("cuda", 1024, torch.bfloat16), packed_long())),
    "packed with wide heads": ("varlen_attention", lambda: choose(tensors("cuda", 8, torch.bfloat16, 256), packed())),
    "packed on a GPU in single": ("unpacked_sdpa", lambda: choose(tensors("cuda"), packed())),
    "packed with dropout": ("unpacked_sdpa", lambda: choose(tensors("cpu"), packed(), dropout=0.1)),
    "packed with dropout on a GPU": ("sdpa", lambda: choose(tensors("cuda"), packed(), dropout=0.1)),
    "packed with dropout in half precision": (
        "key_range_attention",
        lambda: choose(tensors("cuda", dtype=torch.bfloat16), packed(), dropout=0.1),
    ),
    "packed with a bias": ("sdpa", lambda: choose(tensors("cpu"), packed(), bias=bias())),
    "packed with a bias on a GPU": ("flex_attention", lambda: choose(tensors("cuda"), packed(), bias=bias())),
    "sparse": ("block_sparse_attention", lambda: choose(tensors("cpu", LONG), sparse())),
    "sparse, short": ("sdpa", lambda: choose(tensors("cpu", LONG - 1), sparse())),
    "sparse, causal": ("block_sparse_attention", lambda: choose(tensors("cpu", LONG), sparse() & Causal())),
    "sparse, biased": ("block_sparse_attention", lambda: choose(tensors("cpu", LONG), sparse(), bias=bias())),
    "sparse with dropout": ("block_sparse_attention", lambda: choose(tensors("cpu", LONG), sparse(), dropout=0.1)),
    "sparse, padded": ("block_sparse_attention", lambda: choose(tensors("cpu", LONG), sparse() & padded())),
    "sparse, packed": ("block_sparse_attention", lambda: choose(tensors("cpu", LONG), sparse_packed())),
    "sparse, composed otherwise": ("sdpa", lambda: choose(tensors("cpu", LONG), padded() & sparse())),
    "sparse over other places": (
        "block_sparse_attention",
        lambda: choose(tensors("cpu", LONG), Shifted(sparse(), PLACES, PLACES)),
    ),
    "sparse, weights needed": ("reference", lambda: choose(tensors("cpu", LONG), sparse(), needs_weights=True)),
    "sparse, one query": ("sdpa", lambda: choose(tensors("cpu", 1, keys=LONG), sparse())),
    "sparse, keys differ in number": ("sdpa", lambda: choose(tensors("cpu", LONG, keys=2 * LONG), sparse())),
    "sparse on a GPU": ("flex_attention", lambda: choose(tensors("cuda", LONG), sparse())),
    "sparse, causal, on a GPU": ("flex_attention", lambda: choose(tensors("cuda", LONG), sparse() & Causal())),
    "sparse on a GPU, short": ("sdpa", lambda: choose(tensors("cuda", LONG - 1), sparse())),
    "sparse on a GPU, odd heads": ("block_sparse_attention", lambda: choose(tensors("cuda", LONG, width=24), sparse())),
    "sparse on a GPU, tiny heads": ("block_sparse_attention", lambda: choose(tensors("cuda", LONG, width=8), sparse())),
    "sparse on a GPU, dropout": (
        "block_sparse_attention",
        lambda: choose(tensors("cuda", LONG), sparse(), dropout=0.1),
    ),
    "sparse on a GPU, long keys": ("flex_attention", lambda: choose(tensors("cuda", 1, keys=LONG), sparse())),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_each_situation_has_its_path_and_a_reason(situation: str):
    path, ask = SITUATIONS[situation]
    chosen = ask()
    assert chosen.path == path
    assert len(chosen.reason.split()) >= 5


def test_the_reason_names_what_decided():
    assert "weights themselves" in choose(tensors("cpu"), needs_weights=True).reason
    assert "no key" in choose(tensors("cpu"), Causal(strict=True)).reason
    assert "flag" in choose(tensors("cpu"), Causal()).reason
    assert (
        "mask" in choose(tensors("cpu", 4, keys=8), Causal()).reason
    )  # not square: the kernel's flag would mean another
    assert "everything" in choose(tensors("cpu")).reason
    assert "bias" in choose(tensors("cpu"), bias=bias()).reason
    assert "gathers" in choose(tensors("cpu", LONG), sparse()).reason
    assert "long sequences only" in choose(tensors("cpu", 8), sparse()).reason
    assert "differ in number" in choose(tensors("cpu", LONG, keys=2 * LONG), sparse()).reason
    assert "its layout" in choose(tensors("cpu", LONG), padded() & sparse()).reason
    assert "dropout" in choose(tensors("cuda"), packed(), dropout=0.1).reason
    assert "fused kernel" in choose(tensors("cuda", dtype=torch.bfloat16), packed()).reason
    assert "one a row" in choose(tensors("cuda", dtype=torch.bfloat16, width=132), packed()).reason
    assert "blocks are skipped" in choose(tensors("cuda", LONG), sparse()).reason


def test_bfloat16_on_a_cpu_goes_by_matmuls_where_it_can(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    half = tensors("cpu", dtype=torch.bfloat16)
    assert choose(half).path == choose(half, padded()).path == "matmul_attention"
    assert choose(half, packed()).path == "unpacked_matmul_attention"
    assert choose(half, bias=bias()).path == choose(half, dropout=0.1).path == "sdpa"
    assert choose(half, packed(), dropout=0.1).path == "unpacked_sdpa"
    assert choose(tensors("cpu", LONG, torch.bfloat16), padded() & sparse()).path == "matmul_attention"


def test_every_path_is_the_function_of_its_name():
    assert set(get_args(Path)) == {"reference", *FAST_PATHS}
    assert all(function.__name__ == path for path, function in FAST_PATHS.items())


def test_a_module_explains_its_own_choice():
    context = self_context(make_layout("packed", [3, 5], 5), Causal())
    q = torch.randn(1, 2, 8, 4)
    assert Attention(8, 2).explain(q, q, context).path == "unpacked_sdpa"
    assert Attention(8, 2, position=Alibi(2)).explain(q, q, context).path == "sdpa"
    assert Attention(8, 2, position=Relative(4)).explain(q, q, context).path == "reference"
    assert Attention(8, 2, position=Relative(4, values=False)).explain(q, q, context).path == "sdpa"


def test_dropout_counts_while_training_only():
    attention = Attention(8, 2, dropout=0.5)
    with FakeTensorMode():
        q = torch.empty(1, 2, 8, 4, device="cuda")
    context = self_context(make_layout("packed", [3, 5], 5), None)
    assert attention.explain(q, q, context).path == "sdpa"
    assert attention.eval().explain(q, q, context).path == "unpacked_sdpa"


def test_a_pattern_over_other_places_has_no_flag():
    places = torch.arange(8)[None]
    assert Shifted(Causal(), places, places).flags() is None
    assert choose(tensors("cpu"), Shifted(Causal(), places, places)).path == "sdpa"
