"""ByteNet and ConvS2S against their papers' equations, written out here in loops over places and windows."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.models.convolutional import ByteNetConfig, ConvS2SConfig
from regard.models.convolutional.convs2s import GatedNormalConfig, MultiStepAttention, SourceKV, scale_gradient
from regard.nn.convolution import NormedLinear
from regard.nn.layout import Sequences

VOCAB = 19
SOURCE, TARGET = [3, 1, 4, 1, 5], [9, 2, 6, 5, 3, 5, 8, 9]
ROOT_HALF = 0.5**0.5


def made(config):
    torch.manual_seed(0)
    model = config.build(VOCAB).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    return model


def window_sum(convolution, x: list[Tensor], causal: bool, dilation: int) -> list[Tensor]:
    """b + Σ_k W_k x_{t + offset_k}, zero outside the sequence."""
    weight, bias = matrix(convolution.linear), convolution.linear.bias
    kernel = weight.shape[1] // len(x[0])
    parts, outputs = weight.split(len(x[0]), dim=1), []
    for place in range(len(x)):
        total = bias
        for number in range(kernel):
            seen = place + dilation * (number - (kernel - 1 if causal else (kernel - 1) // 2))
            if 0 <= seen < len(x):
                total = total + parts[number] @ x[seen]
        outputs.append(total)
    return outputs


def matrix(linear) -> Tensor:
    """W, with its rows' lengths where they are learned apart."""
    if not isinstance(linear, NormedLinear):
        return linear.weight
    return torch.stack([g * v / v.dot(v).sqrt() for g, v in zip(linear.gain, linear.weight, strict=True)])


def apply(linear, x: Tensor) -> Tensor:
    return matrix(linear) @ x + linear.bias


def norm_relu(norm, x: Tensor) -> Tensor:
    deviation = (x.var(unbiased=False) + 1e-5).sqrt()
    return ((x - x.mean()) / deviation * norm.gain + norm.shift).clamp(min=0)


def bytenet_block(block, x: list[Tensor], causal: bool, dilation: int) -> list[Tensor]:
    narrow = [apply(block.down, norm_relu(block.norm_down, vector)) for vector in x]
    seen = window_sum(block.convolution, [norm_relu(block.norm_around, h) for h in narrow], causal, dilation)
    wide = [apply(block.up, norm_relu(block.norm_up, h)) for h in seen]
    return [vector + change for vector, change in zip(x, wide, strict=True)]


@pytest.mark.parametrize("join", ["concat", "add"])
@pytest.mark.parametrize(("stretch", "extra", "columns"), [(1.0, 0, 5), (1.2, 0, 6), (1.5, 2, 9)])
def test_bytenet(join: str, stretch: float, extra: int, columns: int):
    config = ByteNetConfig(width=8, depth=3, dilation=2, stretch=stretch, extra=extra, join=join, dropout=0.0)
    assert config.columns(len(SOURCE)) == columns
    model = made(config)
    scale = math.sqrt(8)
    x = [model.source_embedding.table.weight[token] * scale for token in SOURCE]
    x += [torch.zeros(8, dtype=torch.double)] * (columns - len(SOURCE))
    for block, dilation in zip(model.encoder, [1, 2, 1], strict=True):
        x = bytenet_block(block, x, False, dilation)
    x += [torch.zeros(8, dtype=torch.double)] * len(TARGET)
    y = []
    for place, token in enumerate(TARGET):
        own = model.target_embedding.table.weight[token] * scale
        y.append(own + x[place] if join == "add" else apply(model.join, torch.cat([own, x[place]])))
    for block, dilation in zip(model.decoder, [1, 2, 1], strict=True):
        y = bytenet_block(block, y, True, dilation)
    source, target = Sequences.padded([SOURCE, SOURCE[:2]]), Sequences.padded([TARGET, TARGET[:3]])
    torch.testing.assert_close(model.hidden(source, target)[0], torch.stack(y))
    bent = apply(model.head.transform, y[0]).clamp(min=0)
    normed = F.layer_norm(bent, (8,), model.head.transform_norm.gain, model.head.transform_norm.shift)
    torch.testing.assert_close(model(source, target)[0, 0], model.head.linear.weight @ normed + model.head.bias)


def test_dynamic_unfolding_lets_each_place_see_its_part_of_the_source():
    """Column t knows the source's tokens within the encoder's reach; places beyond |t̂| hear only through the past."""
    config = ByteNetConfig(
        width=16, depth=2, decoder_depth=1, dilation=1, stretch=1.2, extra=1, dropout=0.0, decoder_kernel=1
    )
    model = made(config)
    tokens = torch.arange(10)[None]  # |s| = 10, |t̂| = 13; two blocks of three: a column reaches two places each way
    target = torch.full((1, 16), 18)
    y = model.hidden(Sequences.full(tokens), Sequences.full(target))
    for place in range(16):
        (slope,) = torch.autograd.grad(y[0, place].sum(), model.source_embedding.table.weight, retain_graph=True)
        source_kv = slope.abs().sum(-1).nonzero().flatten().tolist()
        expected = [token for token in range(place - 2, place + 3) if 0 <= token < 10] if place < 13 else []
        assert source_kv == expected, place


def glu(x: Tensor) -> Tensor:
    a, b = x.chunk(2)
    return a / (1 + torch.exp(-b))


def gated(layer, x: list[Tensor], causal: bool) -> list[Tensor]:
    return [glu(h) for h in window_sum(layer.convolution, x, causal, 1)]


def shortcut(layer, x: Tensor) -> Tensor:
    return x if isinstance(layer.shortcut, torch.nn.Identity) else apply(layer.shortcut, x)


def attention(cross, h: Tensor, g: Tensor, z: list[Tensor], values: list[Tensor]) -> Tensor:
    query = (apply(cross.query, h) + g) * ROOT_HALF
    powers = [torch.exp(query.dot(key)) for key in z]
    context = sum(power / sum(powers) * value for power, value in zip(powers, values, strict=True))
    return apply(cross.output, context * len(z) * math.sqrt(1 / len(z)))


@pytest.mark.parametrize("weight_norm", [True, False])
@pytest.mark.parametrize(
    "stages", [(), [{"layers": 2, "hidden": 6}, {"layers": 1, "hidden": 10, "kernel": 1}]], ids=len
)
def test_convs2s(weight_norm: bool, stages: list):
    config = ConvS2SConfig(width=8, depth=3, stages=stages, weight_norm=weight_norm, dropout=0.0)
    model = made(config)
    e = with_positions(model.source_embedding, model.source_inputs, SOURCE)
    x = [apply(model.encoder.into, vector) for vector in e]
    for layer in model.encoder.layers:
        x = [(h + shortcut(layer, below)) * ROOT_HALF for h, below in zip(gated(layer, x, False), x, strict=True)]
    z = [apply(model.encoder.back, vector) for vector in x]
    values = [(key + own) * ROOT_HALF for key, own in zip(z, e, strict=True)]
    g = with_positions(model.target_embedding, model.target_inputs, TARGET)
    y = [apply(model.decoder.into, vector) for vector in g]
    for layer in model.decoder.layers:
        above = []
        for place, h in enumerate(gated(layer, y, True)):
            h = (h + attention(layer.cross, h, g[place], z, values)) * ROOT_HALF
            above.append((h + shortcut(layer, y[place])) * ROOT_HALF)
        y = above
    y = torch.stack([apply(model.decoder.back, vector) for vector in y])
    source, target = Sequences.padded([SOURCE[:2], SOURCE]), Sequences.padded([TARGET[:3], TARGET])
    torch.testing.assert_close(model.hidden(source, target)[1], y)
    torch.testing.assert_close(model(source, target)[1], y @ model.head.linear.weight.T + model.head.bias)


def with_positions(embedding, inputs, tokens: list[int]) -> list[Tensor]:
    return [embedding.table.weight[token] + inputs.position.table.weight[at] for at, token in enumerate(tokens)]


def test_attention_weights_sum_to_one_over_the_source_alone():
    model = made(ConvS2SConfig(width=8, depth=2, dropout=0.0))
    source, target = Sequences.padded([[1, 2], [3, 4, 5, 6]]), Sequences.padded([TARGET, TARGET])
    plain, seen = model(source, target), []
    for layer in model.decoder.layers:
        layer.cross.recorder = seen.append
    torch.testing.assert_close(model(source, target), plain, rtol=0, atol=0)
    assert len(seen) == 2
    for steps in seen:
        assert steps.weights.shape == (2, 1, len(TARGET), 4)
        assert steps.output.shape == (2, 1, len(TARGET), 8)
        torch.testing.assert_close(steps.weights.sum(-1), torch.ones(2, 1, len(TARGET), dtype=torch.double))
        assert steps.weights[0, 0, :, 2:].abs().max() == 0
        torch.testing.assert_close(steps.masked.softmax(-1), steps.weights)


def test_multi_step_attention_by_hand():
    cross = MultiStepAttention(6, 8)
    keys = torch.randn(1, 3, 8)
    source_kv = SourceKV(keys, keys, torch.tensor([1]))
    found = cross(torch.randn(1, 2, 6), torch.randn(1, 2, 8), source_kv)
    torch.testing.assert_close(found, cross.output(keys[:, :1]).expand(1, 2, 6))  # one token: all weight is its own


def test_gradients_of_the_encoder_are_scaled_and_nothing_else():
    x = torch.randn(2, 3, 4, requires_grad=True)
    y = scale_gradient(x, 0.25)
    assert torch.equal(y, x)
    y.sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 0.25))

    source, target = Sequences.padded([SOURCE]), Sequences.padded([TARGET])
    slopes = {}
    for scaled in (True, False):
        model = made(ConvS2SConfig(width=8, depth=2, decoder_depth=3, scale_gradients=scaled, dropout=0.0))
        model.hidden(source, target).square().sum().backward()
        slopes[scaled] = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    for name, slope in slopes[False].items():
        if name.startswith("encoder"):
            torch.testing.assert_close(slopes[True][name], slope / 6)
        elif not name.startswith("source"):  # tokens of the source also reach the values past the encoder
            torch.testing.assert_close(slopes[True][name], slope)


def test_gated_weights_are_drawn_so_that_variance_is_kept():
    config = ConvS2SConfig(width=64, depth=2, kernel=3, dropout=0.2, position="none")
    torch.manual_seed(0)
    model = config.build(300).requires_grad_(False)
    assert isinstance(config.initialise, GatedNormalConfig)
    into = model.encoder.layers[0].convolution.linear
    assert float(into.weight.std()) == pytest.approx(math.sqrt(4 * 0.8 / (3 * 64)), rel=0.05)
    assert float(model.encoder.back.weight.std()) == pytest.approx(1 / 8, rel=0.05)
    assert float(model.source_embedding.table.weight.std()) == pytest.approx(0.1, rel=0.05)
    torch.testing.assert_close(into.gain, into.weight.norm(dim=1))
    x = torch.randn(1, 500, 64)
    layer = model.eval().encoder.layers[0]
    kept = F.dropout(x, 0.2)
    assert 0.8 < float(layer.gated(kept).var()) < 1.6  # the paper takes the gate's square for a quarter; it is more
