"""Every meaningful combination of position, heads, norm placement and shape keeps the promises of the design."""

import itertools

import pytest
import torch

from regard.errors import RegardError
from regard.models import DecoderConfig, EncoderConfig, EncoderDecoderConfig
from regard.nn.layout import Layout, Sequences

VOCAB = 19
POSITIONS = {
    "none": {"kind": "none"},
    "sinusoidal": {"kind": "sinusoidal"},
    "sinusoidal-concat-every": {"kind": "sinusoidal", "combine": "concat", "layers": "every"},
    "sinusoidal-from-one": {"kind": "sinusoidal", "exponents_from": 1, "positions_from": 1},
    "sinusoidal-qkv": {"kind": "sinusoidal", "combine": "qkv"},
    "learned-qkv-every": {"kind": "learned", "length": 24, "combine": "qkv", "layers": "every"},
    "learned": {"kind": "learned", "length": 24},
    "learned-every": {"kind": "learned", "length": 24, "layers": "every"},
    "relative": {"kind": "relative", "clip": 4},
    "rotary": {"kind": "rotary"},
    "t5": {"kind": "t5", "buckets": 8, "farthest": 16},
    "alibi": {"kind": "alibi"},
    "tree": {"kind": "tree", "clip": 4},
}
HEADS = {
    "standard": {"shape": "standard"},
    "narrow": {"shape": "narrow"},
    "wide": {"shape": "wide"},
    "grouped": {"kv_heads": 2},
    "multi-query": {"kv_heads": 1},
    "no-maps": {"projections": False},
    "strict": {"strict": True},
    "values": {"value_width": 6},
    "concatenated": {"output_projection": False, "head_width": 3, "value_width": 4},
    "window": {"kind": "window", "reach": 3},
    "bigbird": {"kind": "bigbird", "block": 2, "reach": 1, "global_tokens": 2, "random": 1},
    "memory-compressed": {"kind": "memory-compressed", "stride": 3, "block": 6},
}
PLACES = ["before", "after"]
PLAIN_HEADS = ("standard", "narrow", "no-maps", "strict", "window", "bigbird")


def refused(position: str, heads: str) -> bool:
    """Whether the two do not fit together: see test_long_attention.py and tests/nn/test_readings.py."""
    if "qkv" in position:
        return heads not in PLAIN_HEADS
    odd_widths = heads == "concatenated" and position == "rotary"
    by_distance = heads in ("values", "concatenated") and position in ("relative", "tree")
    return odd_widths or by_distance or (position, heads) == ("tree", "memory-compressed")


CASES = [
    (position, heads, place)
    for position, heads, place in itertools.product(POSITIONS, HEADS, PLACES)
    if not refused(position, heads)
]


def settings(position: str, heads: str, place: str) -> dict:
    return {
        "width": 16,
        "depth": 2,
        "heads": 4,
        "position": POSITIONS[position],
        "attention": {"kind": "full", **HEADS[heads]},
        "norm_place": place,
        "feedforward": {"hidden": 24, "kind": "plain"},
        "dropout": 0.0,
    }


def rows(*lengths: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(1, VOCAB, (length,), generator=generator).tolist() for length in lengths]


def with_trees(sequences: Sequences) -> Sequences:
    """Each token hangs from the one in the middle of what is before it; the first is the root."""
    layout = sequences.layout
    start = torch.arange(layout.index.shape[1])[None] - layout.index
    tree = start + layout.index // 2
    tree = torch.where(layout.valid, tree, torch.arange(layout.index.shape[1])[None].expand_as(tree))
    return Sequences(sequences.tokens, layout.with_tree(tree))


def close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def unpack(packed: torch.Tensor, lengths: list[int]) -> list[torch.Tensor]:
    return list(packed[0].split(lengths))


def trains_a_step(model: torch.nn.Module, loss: torch.Tensor) -> None:
    loss.backward()
    missing = [name for name, weight in model.named_parameters() if weight.grad is None]
    assert not missing, f"no gradient reaches {missing}"
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters())
    before = [weight.detach().clone() for weight in model.parameters()]
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert any((old != new).any() for old, new in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize(("position", "heads", "place"), CASES)
def test_encoder(position: str, heads: str, place: str):
    if heads == "strict":
        with pytest.raises(RegardError, match=r"attention\.strict: an encoder hides no token"):
            EncoderConfig(**settings(position, heads, place))
        return
    config = EncoderConfig(**settings(position, heads, place))
    torch.manual_seed(0)
    model = config.build(VOCAB).eval()
    assert sum(weight.numel() for weight in model.parameters()) == config.num_params(VOCAB)
    source_rows = rows(5, 9, 7)
    padded = model(with_trees(Sequences.padded(source_rows)))
    packed = unpack(model(with_trees(Sequences.packed(source_rows))), [5, 9, 7])
    for row, sentence in enumerate(source_rows):
        alone = model(with_trees(Sequences.padded([sentence])))[0]
        close(padded[row, : len(sentence)], alone)
        close(packed[row], alone)
    trains_a_step(model.train(), model(with_trees(Sequences.padded(source_rows))).square().mean())


@pytest.mark.parametrize(("position", "heads", "place"), CASES)
def test_decoder(position: str, heads: str, place: str):
    if position == "tree":
        with pytest.raises(RegardError, match="position: a decoder writes its sentence token by token"):
            DecoderConfig(**settings(position, heads, place))
        return
    config = DecoderConfig(**settings(position, heads, place))
    torch.manual_seed(0)
    model = config.build(VOCAB).eval()
    assert sum(weight.numel() for weight in model.parameters()) == config.num_params(VOCAB)
    source_rows = rows(5, 9, 7)
    padded = model(Sequences.padded(source_rows))
    packed = unpack(model(Sequences.packed(source_rows)), [5, 9, 7])
    for row, sentence in enumerate(source_rows):
        alone = model(Sequences.padded([sentence]))[0]
        close(padded[row, : len(sentence)], alone)
        close(packed[row], alone)
    cached_equals_uncached(model, None, source_rows, padded)
    nothing_from_the_future(model, source_rows[1])
    trains_a_step(model.train(), model(Sequences.padded(source_rows)).square().mean())


@pytest.mark.parametrize(("position", "heads", "place"), CASES)
def test_encoder_decoder(position: str, heads: str, place: str):
    chosen = settings(position, heads, place)
    if position == "tree":
        with pytest.raises(RegardError, match="decoder_position: a decoder writes its sentence token by token"):
            EncoderDecoderConfig(**chosen)
        chosen["decoder_position"] = {"kind": "sinusoidal"}
    config = EncoderDecoderConfig(**chosen)
    torch.manual_seed(0)
    model = config.build(VOCAB).eval()
    assert sum(weight.numel() for weight in model.parameters()) == config.num_params(VOCAB)
    sources, targets = rows(6, 3, 8), rows(5, 9, 7)
    source = with_trees(Sequences.padded(sources))
    padded = model(source, Sequences.padded(targets))
    packed = unpack(model(with_trees(Sequences.packed(sources)), Sequences.packed(targets)), [5, 9, 7])
    for row, (one, other) in enumerate(zip(sources, targets, strict=True)):
        alone = model(with_trees(Sequences.padded([one])), Sequences.padded([other]))[0]
        close(padded[row, : len(other)], alone)
        close(packed[row], alone)
    cached_equals_uncached(model, source, targets, padded)
    trains_a_step(model.train(), model(source, Sequences.padded(targets)).square().mean())


def cached_equals_uncached(model, source, source_rows, uncached) -> None:
    """Token by token, and from prompts of different lengths, after rows were shuffled."""
    longest = max(map(len, source_rows))
    tokens = Sequences.padded(source_rows).tokens
    state = model.start(source, rows=len(source_rows), capacity=longest)
    for place in range(longest):
        logits, state = model.step(tokens[:, place : place + 1], state)
        for row, sentence in enumerate(source_rows):
            if place < len(sentence):
                close(logits[row, 0], uncached[row, place])

    state = model.start(source, rows=len(source_rows), capacity=longest)
    prompts = torch.tensor([2, 4, 3])
    logits, state = model.step(tokens[:, :4], state, prompts)
    order = torch.tensor([2, 0, 1, 1])
    state, tokens, uncached = model.reorder(state, order), tokens[order], uncached[order]
    prompts = prompts[order]
    for place in range(3):
        at = prompts + place
        logits, state = model.step(tokens.gather(1, at[:, None]), state)
        close(logits[:, 0], uncached[torch.arange(4), at])


def nothing_from_the_future(model, sentence) -> None:
    """The gradient of an output by later inputs is zero."""
    sequences = Sequences.padded([sentence])
    x = model.embedding(sequences.tokens).detach().requires_grad_()
    y = model.stack(x, model.stack.context(sequences.layout))
    middle = len(sentence) // 2
    direction = torch.randn(y.shape[-1], generator=torch.Generator().manual_seed(2))
    (slope,) = torch.autograd.grad(y[0, middle] @ direction, x)
    assert slope[0, middle + 1 :].abs().max() == 0
    assert slope[0, : middle + 1].abs().max() > 0


@pytest.mark.parametrize("heads", ["standard", "narrow", "wide", "grouped", "no-maps"])
@pytest.mark.parametrize("place", PLACES)
def test_permutation_equivariant_without_positions_only(heads: str, place: str):
    tokens = torch.tensor(rows(9))
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    for position in (one for one in POSITIONS if not refused(one, heads)):
        torch.manual_seed(0)
        model = EncoderConfig(**settings(position, heads, place)).build(VOCAB).eval()
        sequences, shuffled = Sequences.full(tokens), Sequences.full(tokens[:, order])
        if position == "tree":
            sequences, shuffled = with_trees(sequences), with_trees(shuffled)
        difference = (model(shuffled) - model(sequences)[:, order]).abs().max()
        if position == "none":
            assert difference < 1e-5
        else:
            assert difference > 1e-4, position


@pytest.mark.parametrize("feedforward", ["none", "gated", "experts"])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("norm", ["layer", "rms", "none"])
def test_other_parts(feedforward: str, residual: bool, norm: str):
    chosen = {**settings("rotary", "standard", "before"), "residual": residual, "norm": norm}
    chosen["feedforward"] = {"kind": "experts", "experts": 4, "hidden": 8} if feedforward == "experts" else feedforward
    config = DecoderConfig(**chosen)
    torch.manual_seed(0)
    model = config.build(VOCAB).eval()
    assert sum(weight.numel() for weight in model.parameters()) == config.num_params(VOCAB)
    source_rows = rows(5, 9, 7)
    padded = model(Sequences.padded(source_rows))
    for row, sentence in enumerate(source_rows):
        close(padded[row, : len(sentence)], model(Sequences.padded([sentence]))[0])
    cached_equals_uncached(model, None, source_rows, padded)


def test_a_layout_longer_than_a_learned_table_is_refused():
    model = EncoderConfig(**settings("learned", "standard", "before")).build(VOCAB)
    with pytest.raises(RegardError, match=r"model\.position\.length: learned positions reach 24 tokens, got .* of 25"):
        model(Sequences.full(torch.ones(1, 25, dtype=torch.long)))
    decoder = DecoderConfig(**settings("learned", "standard", "before")).build(VOCAB)
    with pytest.raises(RegardError, match="got capacity 25"):
        decoder.start(None, rows=1, capacity=25)


def test_packed_rows_may_be_longer_than_a_learned_table():
    model = EncoderConfig(**settings("learned", "standard", "before")).build(VOCAB)
    layout = Layout.packing(torch.tensor([20, 20]))
    assert model(Sequences(torch.ones(1, 40, dtype=torch.long), layout)).shape == (1, 40, VOCAB)
