"""A matrix laid the other way round gives the same product, for every number of rows."""

import pytest
import torch
import torch.nn.functional as F

from regard.nn.laid import FEW, MANY, Laid


@pytest.mark.parametrize("rows", [1, FEW - 1, FEW, 17, MANY - 1, MANY, MANY + 9])
@pytest.mark.parametrize("biased", [False, True])
def test_the_same_product(rows: int, biased: bool):
    torch.manual_seed(rows)
    weight, bias, x = torch.randn(30, 20), torch.randn(30) if biased else None, torch.randn(rows, 1, 20)
    torch.testing.assert_close(Laid(weight, bias)(x), F.linear(x, weight, bias))


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="without MKL no copy is made")
def test_the_copy_is_made_once_and_only_where_it_pays():
    map_ = Laid(torch.randn(30, 20), None)
    map_(torch.randn(1, 1, 20))
    assert map_._by_input is None
    map_(torch.randn(FEW, 1, 20))
    copy = map_._by_input
    assert copy is not None
    assert copy.stride() == (1, 30)
    map_(torch.randn(FEW + 1, 1, 20))
    assert map_._by_input is copy


def test_other_formats_stay_as_they_are():
    map_ = Laid(torch.randn(30, 20, dtype=torch.float64), None)
    map_(torch.randn(FEW, 1, 20, dtype=torch.float64))
    assert map_._by_input is None
