"""A weight in another memory layout gives the same output, for every number of rows."""

import pytest
import torch
import torch.nn.functional as F

from regard.files import machine
from regard.nn.fast import linear
from regard.nn.fast.linear import COLUMN_MAJOR_ROWS, MIN_PACKED_SIZE, PrepackedLinear

FEW, MANY = COLUMN_MAJOR_ROWS.start, COLUMN_MAJOR_ROWS.stop
WAYS = [
    pytest.param(True, marks=pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="needs MKL")),
    pytest.param(False, marks=pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")),
]


@pytest.fixture(params=WAYS, ids=["column-major", "packed"])
def intel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(linear, "is_intel", lambda: request.param)
    return request.param


@pytest.mark.usefixtures("intel")
@pytest.mark.parametrize("rows", [1, 2, FEW - 1, FEW, 17, MANY - 1, MANY, MANY + 9])
@pytest.mark.parametrize("biased", [False, True])
def test_the_same_product(rows: int, biased: bool):
    torch.manual_seed(rows)
    weight, bias, x = (
        torch.randn(MIN_PACKED_SIZE // 128, 128),
        torch.randn(MIN_PACKED_SIZE // 128) if biased else None,
        torch.randn(rows, 1, 128),
    )
    for some in (weight, weight[:30]):
        offset = bias if bias is None else bias[: len(some)]
        torch.testing.assert_close(PrepackedLinear(some, offset)(x), F.linear(x, some, offset), atol=1e-4, rtol=1e-5)


def test_the_copy_is_made_once_and_only_where_it_pays(intel: bool):
    layer = PrepackedLinear(torch.randn(MIN_PACKED_SIZE // 128, 128), None)
    layer(torch.randn(1, 1, 128))
    assert (layer._copy is None) == intel
    layer(torch.randn(FEW, 1, 128))
    copy = layer._copy
    assert copy is not None
    assert copy.is_mkldnn != intel
    layer(torch.randn(FEW + 1, 1, 128))
    assert layer._copy is copy


def test_small_matrices_are_not_packed(intel: bool):
    layer = PrepackedLinear(torch.randn(MIN_PACKED_SIZE // 128 - 1, 128), None)
    layer(torch.randn(FEW, 1, 128))
    assert (layer._copy is not None) == intel


@pytest.mark.usefixtures("intel")
def test_other_dtypes_stay_as_they_are():
    layer = PrepackedLinear(torch.randn(30, 20, dtype=torch.float64), None)
    layer(torch.randn(FEW, 1, 20, dtype=torch.float64))
    assert layer._copy is None


def test_a_processor_says_whose_it_is(tmp_path, monkeypatch):
    vendors = {"vendor_id\t: GenuineIntel\n": True, "vendor_id\t: AuthenticAMD\nmodel name\t: x\n": False, "": True}
    for text, expected in vendors.items():
        (tmp_path / "cpuinfo").write_text(text)
        monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
        assert machine.is_intel.__wrapped__() == expected
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "none")
    assert machine.is_intel.__wrapped__()
