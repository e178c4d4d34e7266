"""Models with the kinds of attention for long sequences that not every shape and layout can have."""

import pytest
import torch
from test_combinations import VOCAB, cached_equals_uncached, close, rows, settings, trains_a_step, unpack
from test_flops import counted, tokens

from regard.errors import ConfigError
from regard.models import DecoderConfig, EncoderConfig, EncoderDecoderConfig
from regard.nn.attention.kinds import BigBirdConfig, WindowConfig
from regard.nn.fast.plan import SPARSE_FROM
from regard.nn.layout import Sequences

POSITIONS = ["none", "sinusoidal", "sinusoidal-concat-every", "learned", "rotary"]
LINFORMER = {"kind": "linformer", "length": 24, "projected": 5}
ADDED = {"kind": "bigbird", "block": 2, "global_tokens": 2, "random": 1, "added": True}


def chosen(position: str, attention: dict) -> dict:
    return {**settings(position, "standard", "before"), "attention": attention}


@pytest.mark.parametrize("share", ["none", "headwise", "keyvalue", "layerwise"])
@pytest.mark.parametrize("position", POSITIONS)
def test_linformer(position: str, share: str):
    config = EncoderConfig(**chosen(position, {**LINFORMER, "share": share}))
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
    trains_a_step(model.train(), model(Sequences.padded(source_rows)).square().mean())
    assert counted(model, tokens(2, 20)) == pytest.approx(config.flops(batch=2, time=20, vocab=VOCAB), rel=0.02)


@pytest.mark.parametrize("position", ["relative", "t5", "alibi", "tree"])
def test_linformer_refuses_positions_on_scores(position: str):
    with pytest.raises(ConfigError, match=f"position: {position} weighs keys by their position"):
        EncoderConfig(**chosen(position, LINFORMER))


def test_linformer_is_for_encoders():
    with pytest.raises(ConfigError, match=r"attention\.kind: linformer mixes all tokens .* cannot hide the future"):
        DecoderConfig(**chosen("sinusoidal", LINFORMER))
    with pytest.raises(ConfigError, match=r"^attention\.kind: linformer"):
        EncoderDecoderConfig(**chosen("sinusoidal", LINFORMER))
    with pytest.raises(ConfigError, match=r"decoder_attention\.kind: linformer"):
        EncoderDecoderConfig(**chosen("sinusoidal", {"kind": "full"}), decoder_attention=LINFORMER)


@pytest.mark.parametrize("attention", [LINFORMER, ADDED, {"kind": "window", "reach": 2}], ids=lambda a: a["kind"])
def test_a_decoder_may_have_an_attention_of_its_own(attention: dict):
    config = EncoderDecoderConfig(**chosen("sinusoidal", attention), decoder_attention="full")
    torch.manual_seed(0)
    model = config.build(VOCAB).eval()
    assert sum(weight.numel() for weight in model.parameters()) == config.num_params(VOCAB)
    source, targets = Sequences.padded(rows(6, 3, 8)), rows(5, 9, 7)
    cached_equals_uncached(model, source, targets, model(source, Sequences.padded(targets)))
    trains_a_step(model.train(), model(source, Sequences.padded(targets)).square().mean())


def test_a_decoder_attention_that_does_not_fit_is_refused():
    full = chosen("sinusoidal", {"kind": "full"})
    with pytest.raises(ConfigError, match=r"decoder_attention\.head_width: expected the encoder's 4, got 6"):
        EncoderDecoderConfig(**full, decoder_attention={"kind": "full", "head_width": 6})
    with pytest.raises(ConfigError, match=r"decoder_attention\.kv_heads: expected a divisor of heads = 4, got 3"):
        EncoderDecoderConfig(**full, decoder_attention={"kind": "full", "kv_heads": 3})


@pytest.mark.parametrize("position", [*POSITIONS, "relative", "t5", "alibi"])
def test_added_global_tokens(position: str):
    config = EncoderConfig(**chosen(position, ADDED))
    torch.manual_seed(0)
    model = config.build(VOCAB).eval()
    assert sum(weight.numel() for weight in model.parameters()) == config.num_params(VOCAB)
    source_rows = rows(5, 24, 7)  # as long as the learned table: added tokens need no place in it
    padded = model(Sequences.padded(source_rows))
    assert padded.shape == (3, 24, VOCAB)
    for row, sentence in enumerate(source_rows):
        close(padded[row, : len(sentence)], model(Sequences.padded([sentence]))[0])
    trains_a_step(model.train(), model(Sequences.padded(source_rows)).square().mean())


def test_added_global_tokens_carry_news_across_the_sequence():
    config = EncoderConfig(**chosen("none", {**ADDED, "reach": 0, "random": 0}))
    torch.manual_seed(0)
    model = config.build(VOCAB)
    x = torch.randn(1, 20, 16, requires_grad=True)
    y = model.stack(x, model.stack.context(Sequences.full(torch.ones(1, 20, dtype=torch.long)).layout))
    (slope,) = torch.autograd.grad(y[0, 19].square().sum(), x)
    assert slope[0, 0].abs().max() > 0, "from the first block to the last in two layers"


def test_added_global_tokens_are_refused_where_they_cannot_be():
    with pytest.raises(ConfigError, match=r"attention\.added: an added token that sees all would tell .* the future"):
        DecoderConfig(**chosen("sinusoidal", ADDED))
    with pytest.raises(ConfigError, match="position: added global tokens hang in no tree"):
        EncoderConfig(**chosen("tree", ADDED))
    model = EncoderConfig(**chosen("sinusoidal", ADDED)).build(VOCAB)
    with pytest.raises(ConfigError, match=r"data\.batching: added global tokens need padded batches"):
        model(Sequences.packed(rows(3, 4)))


def test_memory_compressed_refuses_trees():
    with pytest.raises(ConfigError, match="position: a slot of compressed memory holds several tokens"):
        EncoderConfig(**chosen("tree", {"kind": "memory-compressed"}))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("attention", [WindowConfig(reach=40), BigBirdConfig(global_tokens=10)], ids=lambda a: a.kind)
def test_long_sequences_in_any_layout_are_what_they_are_alone(attention: WindowConfig | BigBirdConfig, causal: bool):
    lengths, shape = [SPARSE_FROM + 7, SPARSE_FROM - 300], DecoderConfig if causal else EncoderConfig
    config = shape(width=8, heads=2, depth=1, position="rotary", attention=attention, dropout=0.0)
    torch.manual_seed(0)
    model = config.build(VOCAB).eval()
    source_rows = rows(*lengths)
    padded = model(Sequences.padded(source_rows))
    packed = unpack(model(Sequences.packed(source_rows)), lengths)
    for row, sentence in enumerate(source_rows):
        alone = model(Sequences.padded([sentence]))[0]
        close(padded[row, : len(sentence)], alone)
        close(packed[row], alone)
