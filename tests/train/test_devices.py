"""Which device is at hand, and what is said of those that are not there."""

import pytest
import torch

from regard.errors import ConfigError
from regard.train.parallel.processes import parse_device, set_current_device


@pytest.mark.parametrize(("name", "taken"), [("cpu", []), ("cuda", []), ("cuda:1", [1])])
def test_a_gpu_is_taken_in_hand_where_it_has_a_number(name: str, taken: list[int], monkeypatch: pytest.MonkeyPatch):
    found: list[int] = []
    monkeypatch.setattr(torch._C, "_cuda_setDevice", found.append, raising=False)
    set_current_device(torch.device(name))
    assert found == taken


@pytest.mark.gpu
def test_the_usual_device_can_be_taken_in_hand():
    set_current_device(parse_device("auto"))
    assert torch.cuda.current_device() == 0


@pytest.mark.parametrize("name", ["tpu", "cuda:99", "cuda:x"])
def test_a_device_that_is_not_there_is_refused(name: str):
    with pytest.raises(ConfigError, match="--device: "):
        parse_device(name)
