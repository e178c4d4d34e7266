"""The model that writes about images: sizes, costs, cached writing, and what it refuses."""

import pytest
import torch
from test_flops import counted
from torch import Tensor

from regard.decode import BeamConfig, Ensemble, GreedyConfig, search
from regard.errors import ConfigError, ShapeError
from regard.models import EncoderDecoder, Patches, VisionEncoderDecoderConfig
from regard.nn.layout import Sequences

PAD, BOS, EOS, VOCAB = 0, 1, 2, 20
SMALL = {"width": 16, "depth": 2, "heads": 2, "image": 12, "patch": 4, "channels": 1, "dropout": 0.0}


def images(count: int = 3) -> Tensor:
    return torch.randn(count, 1, 12, 12, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def model() -> EncoderDecoder:
    torch.manual_seed(0)
    built = VisionEncoderDecoderConfig(**SMALL).build(VOCAB).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter *= 2  # more decided than a fresh model
    return built


@pytest.mark.parametrize("share", ["all", "output", "none"])
def test_parameters_and_flops(share: str):
    config = VisionEncoderDecoderConfig(**SMALL, decoder_depth=1, embedding={"share": share})
    model = config.build(VOCAB)
    assert sum(weight.numel() for weight in model.parameters()) == config.num_params(VOCAB)
    target = Sequences.full(torch.ones(3, 5, dtype=torch.long))
    assert counted(model, Patches.of(images(), 4), target) == pytest.approx(config.flops(3, 5, VOCAB), rel=0.02)


@torch.no_grad()
def test_cached_equals_uncached(model: EncoderDecoder):
    tokens = torch.randint(3, VOCAB, (3, 6), generator=torch.Generator().manual_seed(2))
    whole = model(Patches.of(images(), 4), Sequences.full(tokens))
    state = model.start(Patches.of(images(), 4), rows=3, capacity=6)
    for place in range(6):
        logits, state = model.step(tokens[:, place : place + 1], state)
        torch.testing.assert_close(logits[:, 0], whole[:, place], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("config", [GreedyConfig(max_length=8), BeamConfig(size=3, n_best=2, max_length=8)])
def test_a_description_does_not_depend_on_its_neighbours(model: EncoderDecoder, config):
    def write(chosen: Tensor):
        return search(model, Patches.of(chosen, 4), None, config, eos=EOS, bos=BOS, pad=PAD)

    together = write(images())
    for place in range(3):
        alone = write(images()[place : place + 1])[0]
        assert [one.tokens for one in alone] == [one.tokens for one in together[place]]


def test_an_ensemble_of_one_writes_the_same(model: EncoderDecoder):
    config, patches = GreedyConfig(max_length=8), Patches.of(images(), 4)
    alone = search(model, patches, None, config, eos=EOS, bos=BOS, pad=PAD)
    twice = search(Ensemble([model, model]), patches, None, config, eos=EOS, bos=BOS, pad=PAD)
    assert [row[0].tokens for row in alone] == [row[0].tokens for row in twice]


def test_patches_travel_and_double_with_their_images():
    patches = Patches.of(images(2), 4)
    assert patches.tokens.shape == (2, 9)
    doubled = patches.twice().to("cpu")
    assert isinstance(doubled, Patches)
    torch.testing.assert_close(doubled.images, torch.cat([images(2), images(2)]))
    assert doubled.tokens.shape == (4, 9)


def test_what_does_not_fit_is_refused(model: EncoderDecoder):
    with pytest.raises(ConfigError, match="patch: expected a divisor of image = 12, got 5"):
        VisionEncoderDecoderConfig(**{**SMALL, "patch": 5})
    with pytest.raises(ConfigError, match=r"position\.length: expected at least 9"):
        VisionEncoderDecoderConfig(**SMALL, position={"kind": "learned", "length": 8})
    with pytest.raises(ConfigError, match="decoder_position"):
        VisionEncoderDecoderConfig(**SMALL, decoder_position="tree")
    with pytest.raises(ShapeError, match=r"images: expected \(1, 12, 12\)"):
        model.encode(Patches.of(torch.zeros(1, 3, 12, 12), 4))
