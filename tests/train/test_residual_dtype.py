"""The data type of the residual stream: which stacks get which, and what it changes."""

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.models import DecoderConfig
from regard.models.transformer import Decoder
from regard.nn.layout import Sequences
from regard.train.precision import Precision, set_residual_dtype

HALF, SINGLE = torch.bfloat16, torch.float32
TEXT = torch.arange(12).view(2, 6) % 9


def decoder(**settings: Any) -> Decoder:
    torch.manual_seed(0)
    return DecoderConfig.from_tree({"width": 16, "depth": 3, "heads": 2, "dropout": 0.0, **settings}).build(9)


def precision(dtype: torch.dtype, device: str = "cpu") -> Precision:
    return Precision(torch.device(device), dtype, "as set")


def formats(model: Decoder) -> list[torch.dtype]:
    """What each block is given."""
    seen: list[torch.dtype] = []
    for block in model.stack.blocks:
        block.register_forward_pre_hook(lambda _, given: seen.append(given[0].dtype))
    with precision(HALF).autocast():
        model(Sequences.full(TEXT))
    return seen


@pytest.mark.parametrize(
    ("setting", "dtype", "device", "place", "expected"),
    [
        ("auto", HALF, "cuda", "before", HALF),
        ("auto", HALF, "cuda", "after", None),
        ("auto", SINGLE, "cuda", "before", None),
        ("auto", HALF, "cpu", "before", None),
        ("bfloat16", HALF, "cpu", "before", HALF),
        ("float32", HALF, "cuda", "before", SINGLE),
        ("float32", SINGLE, "cpu", "after", SINGLE),
    ],
)
def test_who_carries_what(setting, dtype, device, place, expected):
    model = decoder(norm_place=place)
    assert set_residual_dtype(model, setting, precision(dtype, device)) is (expected is HALF)
    assert model.stack.residual_dtype is expected


def test_bfloat16_needs_products_in_bfloat16():
    with pytest.raises(ConfigError, match=r"train\.residual_dtype: bfloat16 is for Transformers .*, got float32"):
        set_residual_dtype(decoder(), "bfloat16", precision(SINGLE))


def test_bfloat16_needs_blocks_whose_sums_are_handed_on():
    for model in (decoder(norm_place="after"), torch.nn.Linear(2, 2)):
        with pytest.raises(ConfigError, match=r"train\.residual_dtype: bfloat16 is for Transformers .*output float32"):
            set_residual_dtype(model, "bfloat16", precision(HALF))


def test_a_run_that_goes_on_does_what_it_did_before():
    model = decoder()
    for device, before in (("cuda", False), ("cpu", True)):
        assert set_residual_dtype(model, "auto", precision(HALF, device), before) is before
    assert not set_residual_dtype(model, "auto", precision(SINGLE, "cuda"), True)


def test_float32_is_float32_also_where_a_product_makes_the_inputs():
    model = decoder(embedding={"factor": 8}).train()
    assert formats(model) == [HALF] * 3
    set_residual_dtype(model, "float32", precision(HALF))
    assert formats(model) == [SINGLE] * 3


@pytest.mark.parametrize(
    "settings",
    [
        {"norm": "layer"},
        {"norm": "rms"},
        {"norm": "none"},
        {"norm": {"kind": "layer", "epsilon_inside": False}},
        {"norm": "rms", "feedforward": {"kind": "experts", "experts": 2}},
    ],
    ids=str,
)
def test_blocks_hand_on_bfloat16_while_training_and_float32_otherwise(settings: dict[str, Any]):
    model = decoder(**settings)
    set_residual_dtype(model, "bfloat16", precision(HALF))
    assert formats(model.train()) == [HALF] * 3
    assert formats(model.eval()) == [SINGLE] * 3


def test_losses_and_gradients_are_those_of_float32_within_rounding():
    def learnt(setting: Any) -> tuple[Tensor, Tensor]:
        model = decoder(dropout=0.0).train()
        set_residual_dtype(model, setting, precision(HALF))
        with precision(HALF).autocast():
            loss = model(Sequences.full(TEXT)).float().logsumexp(-1).mean()
        loss.backward()
        return loss.detach(), torch.cat([part.grad.flatten() for part in model.parameters() if part.grad is not None])

    (short, short_slope), (exact, slope) = learnt("bfloat16"), learnt("float32")
    assert short != exact
    torch.testing.assert_close(short, exact, atol=1e-2, rtol=1e-2)
    assert torch.cosine_similarity(short_slope, slope, dim=0) > 0.999
