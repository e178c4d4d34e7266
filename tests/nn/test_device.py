"""What goes to a device and comes back is what was sent, however its memory lies."""

import pytest
import torch

from regard.nn.device import HostCopy, to_device

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "tensor",
    [torch.arange(6).view(2, 3), torch.arange(3).expand(4, 3), torch.arange(6).view(2, 3).T, torch.zeros(0, 2)],
    ids=["plain", "expanded", "turned", "empty"],
)
def test_there_and_back(device: str, tensor: torch.Tensor):
    there = to_device(tensor, device)
    assert there.device.type == device
    first, second = HostCopy(there, there + 1).wait()
    assert torch.equal(first, tensor)
    assert torch.equal(second, tensor + 1)
    assert to_device(there, device) is there
