"""On a GPU: recurrent models equal what they are on the processor, step as they read, and train in half precision."""

from collections.abc import Iterator

import pytest
import torch
from recurrent_kinds import DECODERS, ENCODERS, TRANSLATORS, VOCAB
from test_combinations import rows, trains_a_step

from regard.nn.layout import Sequences

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(autouse=True)
def exact_products() -> Iterator[None]:
    """cuDNN rounds the inputs of its products to TensorFloat-32 otherwise."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


CASES = {
    **{f"decoder-{name}": (config, False) for name, config in DECODERS.items()},
    **{f"encoder-{name}": (config, False) for name, config in ENCODERS.items()},
    **{name: (config, True) for name, config in TRANSLATORS.items()},
}


def inputs(translates: bool) -> tuple[Sequences, ...]:
    target = Sequences.padded(rows(5, 9, 7))
    return (Sequences.padded(rows(6, 3, 8)), target) if translates else (target,)


@pytest.mark.parametrize("name", CASES)
def test_as_on_the_processor_and_in_half_precision(name: str):
    config, translates = CASES[name]
    torch.manual_seed(0)
    model = config.build(VOCAB).eval()
    for weights, tensor in model.named_parameters():
        if "router" in weights:
            torch.nn.init.normal_(tensor)  # routers that start at zero leave ties, which no two machines break alike
    given = inputs(translates)
    valid = given[-1].layout.valid
    expected = model(*given)[valid]
    model.cuda()
    there = tuple(part.to("cuda") for part in given)
    found = model(*there)
    torch.testing.assert_close(found[valid.cuda()].cpu(), expected, rtol=1e-4, atol=1e-4)
    model.train()
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(*there).float().square().mean()
    trains_a_step(model, loss)


@pytest.mark.parametrize("name", ["dot", "sentence-vector", "gnmt", "deep-att"])
def test_steps_equal_the_whole(name: str):
    torch.manual_seed(0)
    model = TRANSLATORS[name].build(VOCAB).cuda().eval()
    source, targets = Sequences.padded(rows(6, 3, 8), device="cuda"), rows(5, 9, 7)
    with torch.device("cuda"):
        whole = model(source, Sequences.padded(targets, device="cuda"))
        state = model.start(source, rows=3, capacity=9)
        tokens = Sequences.padded(targets, device="cuda").tokens
        logits, state = model.step(tokens[:, :4], state, torch.tensor([2, 4, 3]))
        order = torch.tensor([2, 0, 1, 1])
        state = model.reorder(state, order)
        at = torch.tensor([2, 4, 3])[order]
        logits, _ = model.step(tokens[order].gather(1, at[:, None]), state)
    torch.testing.assert_close(logits[:, 0], whole[order, at], rtol=1e-4, atol=1e-4)
