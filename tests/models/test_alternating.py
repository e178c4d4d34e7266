"""Kinds of attention that take turns: what each layer sees, what they cost, and T-DMCA of Liu 2018."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_combinations import VOCAB, cached_equals_uncached, close, rows, trains_a_step, unpack
from test_flops import counted, tokens

from regard.errors import ConfigError
from regard.models import DecoderConfig, EncoderConfig, EncoderDecoderConfig
from regard.nn.attention.kinds import AlternatingConfig, LocalConfig, MemoryCompressedConfig
from regard.nn.attention.reference import record_attention
from regard.nn.fast.plan import SPARSE_FROM
from regard.nn.layout import Sequences

LOCAL, COMPRESSED = {"kind": "local", "block": 4}, {"kind": "memory-compressed", "stride": 3, "block": 3}
TURNS = {"kind": "alternating", "kinds": [LOCAL, COMPRESSED]}


def settings(attention: object = TURNS, depth: int = 3, position: str = "sinusoidal") -> dict:
    return {"width": 16, "depth": depth, "heads": 4, "attention": attention, "position": position, "dropout": 0.0}


def built(config):
    torch.manual_seed(0)
    return config.build(VOCAB).eval()


def test_as_it_stands_it_is_that_of_the_paper():
    local, compressed = AlternatingConfig().kinds
    assert (local, compressed) == (LocalConfig(block=256), MemoryCompressedConfig(stride=3, block=3))
    kinds = [type(block.attention).__name__ for block in built(DecoderConfig(**settings(depth=5))).stack.blocks]
    assert kinds == ["Attention", "MemoryCompressed", "Attention", "MemoryCompressed", "Attention"]


@pytest.mark.parametrize("position", ["none", "sinusoidal", "rotary", "alibi", "t5", "relative"])
def test_a_sequence_never_depends_on_its_batch_and_cached_equals_uncached(position: str):
    model = built(DecoderConfig(**settings(position=position)))
    assert sum(weight.numel() for weight in model.parameters()) == model.config.num_params(VOCAB)
    source_rows = rows(11, 5, 9)
    padded, packed = model(Sequences.padded(source_rows)), unpack(model(Sequences.packed(source_rows)), [11, 5, 9])
    for row, sentence in enumerate(source_rows):
        alone = model(Sequences.padded([sentence]))[0]
        close(padded[row, : len(sentence)], alone)
        close(packed[row], alone)
    cached_equals_uncached(model, None, source_rows, padded)
    trains_a_step(model.train(), model(Sequences.padded(source_rows)).square().mean())


def test_in_both_stacks_of_an_encoder_decoder():
    config = EncoderDecoderConfig(**settings())
    model = built(config)
    assert sum(weight.numel() for weight in model.parameters()) == config.num_params(VOCAB)
    source, target = rows(13, 8, 4), rows(9, 6, 7)
    padded = model(Sequences.padded(source), Sequences.padded(target))
    packed = unpack(model(Sequences.packed(source), Sequences.packed(target)), [9, 6, 7])
    for row, sentence in enumerate(target):
        close(padded[row, : len(sentence)], packed[row])
    cached_equals_uncached(model, Sequences.padded(source), target, padded)


def test_a_kind_in_turn_with_itself_is_that_kind():
    model = built(DecoderConfig(**settings({"kind": "alternating", "kinds": ["full", "full"], "kv_heads": 2})))
    plain = built(DecoderConfig(**settings({"kind": "full", "kv_heads": 2})))
    plain.load_state_dict(model.state_dict())
    source_rows = Sequences.padded(rows(9, 6))
    assert torch.equal(model(source_rows), plain(source_rows))


@pytest.mark.parametrize("time", [11, SPARSE_FROM + 100])
def test_local_attention_is_attention_in_each_block_alone(time: int):
    """Against a plain encoder, which is given the blocks one a row."""
    block = 4 if time < SPARSE_FROM else 256
    local = built(EncoderConfig(**settings({"kind": "local", "block": block}, depth=1, position="none")))
    full = built(EncoderConfig(**settings("full", depth=1, position="none")))
    full.load_state_dict(local.state_dict())
    ids = rows(time)[0]
    blocks = [ids[start : start + block] for start in range(0, time, block)]
    alone = full(Sequences.padded(blocks))
    wanted = torch.cat([alone[row, : len(part)] for row, part in enumerate(blocks)])
    close(local(Sequences.padded([ids]))[0], wanted)


def test_a_local_layer_sees_its_block_and_the_next_layer_all_of_the_past():
    model, ids = built(DecoderConfig(**settings(depth=2))), Sequences.padded(rows(12))
    with record_attention(model) as seen:
        model(ids)
    local = seen["stack.blocks.0.attention"][0].weights[0, 0] > 0
    place = torch.arange(12)
    assert torch.equal(local, (place[:, None] // 4 == place // 4) & (place <= place[:, None]))
    x = model.embedding(ids.tokens).detach().requires_grad_()
    y = model.stack(x, model.stack.context(ids.layout))
    for query in range(12):
        (slope,) = torch.autograd.grad(y[0, query].square().sum(), x, retain_graph=True)
        reached = slope[0].abs().sum(-1) > 0
        assert reached[: query + 1].all()
        assert not reached[query + 1 :].any()


@given(st.integers(1, 40), st.integers(1, 9), st.booleans())
def test_pairs_of_local_attention_are_those_of_its_pattern(time: int, block: int, causal: bool):
    config = LocalConfig(block=block)
    both_ways = config.pattern(2, time, False, "cpu").dense(1, 2, time, time)
    assert config.pairs(2, time) == 2 * int(both_ways.sum())
    pattern = config.pattern(2, time, causal, "cpu").dense(1, 2, time, time)[0, 0]
    assert pattern.diagonal().all()


@given(st.integers(1, 20), st.integers(1, 4), st.sampled_from([3, 5, 6]))
def test_flops_are_those_of_the_paper(blocks: int, heads: int, depth: int):
    """Maps 8nd²; local layers 4nbd for blocks of b; compressed ones 4nd·n/3, and a convolution of stride 3."""
    b, n, d_h = 6, 6 * blocks, 8
    d = heads * d_h
    local, compressed = 8 * n * d**2 + 4 * n * b * d, 8 * n * d**2 + 4 * n * (n // 3) * d + 4 * n * d * d_h
    kinds = [{"kind": "local", "block": b}, COMPRESSED]
    config = DecoderConfig(
        width=d, depth=depth, heads=heads, attention={"kind": "alternating", "kinds": kinds}, feedforward="none"
    )  # type: ignore[arg-type]
    assert config.flops(1, n, vocab=0) == (depth + 1) // 2 * local + depth // 2 * compressed


def test_full_attention_has_three_times_the_pairs():
    full, compressed = (
        DecoderConfig(width=64, depth=1, heads=4, attention=kind, feedforward="none")  # type: ignore[arg-type]
        for kind in ("full", COMPRESSED)
    )
    for n in (3_000, 11_001):
        maps, convolution = 8 * n * 64**2, 4 * n * 64 * 16
        assert full.flops(1, n, vocab=0) - maps == 3 * (compressed.flops(1, n, vocab=0) - maps - convolution)


def test_compressed_layers_cost_what_torch_counts():
    config = EncoderConfig(
        **settings({"kind": "alternating", "kinds": [COMPRESSED, {**COMPRESSED, "stride": 2, "block": 2}]})
    )
    assert counted(built(config), tokens(2, 24)) == pytest.approx(config.flops(2, 24, VOCAB), rel=0.02)


@pytest.mark.parametrize(
    ("attention", "problem"),
    [
        ({"kinds": [LOCAL]}, r"attention\.alternating\.kinds|attention\.kinds"),
        ({"kinds": [LOCAL, {**COMPRESSED, "kv_heads": 2}]}, "how heads are shaped is set beside the list"),
        ({"kinds": [LOCAL, {"kind": "bigbird", "added": True}]}, "bigbird here adds or shares what all layers"),
        ({"kinds": [LOCAL, {"kind": "linformer", "share": "layerwise"}]}, "linformer here adds or shares"),
        ({"kinds": [LOCAL, "linformer"]}, r"kinds\.1\.kind: linformer mixes all tokens"),
        ({"strict": True}, "masking the token itself"),
        ({"kinds": [LOCAL, {**COMPRESSED, "block": 4}]}, "expected a multiple of stride = 3, got 4"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_take_turns_is_refused(attention: dict, problem: str):
    with pytest.raises(ConfigError, match=problem):
        DecoderConfig.from_tree(settings({"kind": "alternating", **attention}))


def test_a_tree_has_no_slots():
    with pytest.raises(ConfigError, match="a slot of compressed memory holds several tokens"):
        EncoderConfig(**settings(position="tree"))


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch's compiler looks at it (2.11)
def test_on_a_gpu_as_on_a_cpu():
    """Long enough that the GPU skips empty blocks in a generated kernel."""
    kinds = [{"kind": "local", "block": 128}, {"kind": "memory-compressed", "stride": 3, "block": 3}]
    chosen = {**settings({"kind": "alternating", "kinds": kinds}, position="rotary"), "width": 64}
    model = built(DecoderConfig(**chosen))
    source_rows = Sequences.padded(rows(SPARSE_FROM + 300, SPARSE_FROM - 200))
    wanted = model(source_rows)
    found = model.cuda()(source_rows.to("cuda")).cpu()
    for row, length in enumerate(source_rows.layout.lengths.tolist()):
        close(found[row, :length], wanted[row, :length], 2e-3)
    trains_a_step(model.train(), model(source_rows.to("cuda")).square().mean())
