"""The step over a static KV cache equals the model's own step over caches that grow, for all kinds that allow it."""

import gc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decode import BeamConfig, Ensemble, GreedyConfig, SampleConfig, search
from regard.errors import ShapeError
from regard.models import DecoderConfig, EncoderDecoderConfig, Stepper
from regard.models.decoding.cuda_graph import MAX_IDLE_GRAPHS, CUDAGraphDecoder, next_power_of_two
from regard.models.decoding.static_blocks import fusable, fused_head, static_block
from regard.models.decoding.step import DecodingStep, obstacle
from regard.models.stepper import PrefixDecoder
from regard.models.transformer import DecoderState
from regard.nn.layout import Sequences

PAD, BOS, EOS, VOCAB = 0, 1, 2, 30
SHAPE = {"width": 16, "depth": 2, "heads": 4}
POSITIONS = [
    {"kind": "none"},
    {"kind": "sinusoidal"},
    {"kind": "sinusoidal", "layers": "every", "combine": "concat"},
    {"kind": "sinusoidal", "combine": "qkv"},
    {"kind": "learned", "length": 40},
    {"kind": "learned", "length": 40, "combine": "qkv", "layers": "every"},
    {"kind": "rotary"},
    {"kind": "rotary", "interleaved": True, "share": 0.5},
    {"kind": "alibi"},
    {"kind": "t5", "buckets": 8, "farthest": 16},
    {"kind": "t5", "buckets": 8, "farthest": 16, "shared": False},
    {"kind": "relative", "clip": 3},
    {"kind": "relative", "clip": 3, "values": False},
]
VARIANTS = [
    {"attention": {"kind": "full", "kv_heads": 2}},
    {"attention": {"kind": "full", "shape": "narrow"}},
    {"attention": {"kind": "full", "value_width": 6, "kv_heads": 2}},
    {"attention": {"kind": "full", "output_projection": False, "head_width": 6, "value_width": 4}},
    {"norm": {"kind": "layer", "epsilon": 0}},
    {"norm": {"kind": "layer", "epsilon_inside": False, "root_deviation": True}},
    {"attention": {"kind": "full", "shape": "wide", "bias": False}},
    {"attention": {"kind": "full", "projections": False, "scaled": False}},
    {"norm": {"kind": "rms"}, "norm_place": "after", "feedforward": {"kind": "gated"}},
    {"residual": False, "feedforward": {"kind": "none"}},
    {"embedding": {"factor": 4, "norm": True}, "head": {"kind": "vocabulary", "bias": True}},
]
KINDS = [*({"position": position} for position in POSITIONS), *VARIANTS]
SOURCES = [[5, 6, 7], [8], [9, 10, 11, 12, 13], [5, 6]]
SEARCHES = [
    GreedyConfig(max_length=9),
    BeamConfig(max_length=9, size=3, n_best=3),
    SampleConfig(max_length=9, samples=2, top_p=0.9),
]


def decided(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 2  # more decided than a fresh model
    return model.eval()


def writer(**kinds):
    torch.manual_seed(0)
    return decided(DecoderConfig.from_tree({**SHAPE, **kinds}).build(VOCAB))


def translator(**kinds):
    torch.manual_seed(1)
    return decided(EncoderDecoderConfig.from_tree({**SHAPE, **kinds}).build(VOCAB))


def name(kinds):
    parts = [part.values() if isinstance(part, dict) else [part] for part in kinds.values()]
    return "-".join(str(value) for part in parts for value in part)


def logits_of(stepper, source, prompt, lengths, tokens, rows):
    """The prompt, two tokens, other rows, two tokens more."""
    state = stepper.start(source, rows=len(prompt), capacity=prompt.shape[1] + tokens.shape[1])
    found = []
    logits, state = stepper.step(prompt, state, lengths)
    found.append(logits[torch.arange(len(prompt)), (lengths - 1) if lengths is not None else -1])
    for place in range(2):
        logits, state = stepper.step(tokens[: len(prompt), place : place + 1], state)
        found.append(logits[:, 0])
    state = stepper.reorder(state, rows)
    for place in range(2, 4):
        logits, state = stepper.step(tokens[: len(rows), place : place + 1], state)
        found.append(logits[:, 0])
    return found


def same_steps(kinds, ragged, other_way):
    """Whether another way to step gives the logits of the model's own."""
    model = writer(**kinds).double()  # what differs then is no rounding
    generator = torch.Generator().manual_seed(3)
    prompt = torch.randint(3, VOCAB, (3, 5), generator=generator)
    tokens = torch.randint(3, VOCAB, (6, 4), generator=generator)
    lengths = torch.tensor([2, 5, 1]) if ragged else None
    for rows in ([2, 0], [1, 1, 0, 2, 2, 0]):
        own, other = (
            logits_of(stepper, None, prompt, lengths, tokens, torch.tensor(rows))
            for stepper in (model, other_way(model))
        )
        for one, two in zip(own, other, strict=True):
            torch.testing.assert_close(one, two, atol=1e-9, rtol=1e-9)


def same_steps_with_a_source(kinds, other_way):
    """The same for rows that listen."""
    model = translator(**kinds).double()
    source = Sequences.padded(SOURCES)
    tokens = torch.randint(3, VOCAB, (8, 4), generator=torch.Generator().manual_seed(4))
    prompt = torch.full((4, 1), BOS)
    for rows in ([0, 0, 1, 1, 2, 2, 3, 3], [1, 1, 3]):
        own, other = (
            logits_of(stepper, source, prompt, None, tokens, torch.tensor(rows))
            for stepper in (model, other_way(model))
        )
        for one, two in zip(own, other, strict=True):
            torch.testing.assert_close(one, two, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("kinds", KINDS, ids=name)
@pytest.mark.parametrize("ragged", [False, True], ids=["even", "ragged"])
def test_equal_to_the_models_own_step(kinds, ragged):
    same_steps(kinds, ragged, CUDAGraphDecoder)


@pytest.mark.parametrize("kinds", KINDS, ids=name)
def test_equal_to_the_models_own_step_with_a_source(kinds):
    same_steps_with_a_source(kinds, CUDAGraphDecoder)


FUSED = [
    {"position": "learned", "feedforward": {"kind": "plain", "activation": "gelu-tanh"}},
    {"position": "rotary", "norm": "rms", "feedforward": "gated", "attention": {"kind": "full", "kv_heads": 2}},
    {"position": "t5", "norm": {"kind": "layer", "shift": False}, "attention": {"kind": "full", "bias": False}},
    {"position": {"kind": "relative", "clip": 3}, "norm": "none", "feedforward": "none"},
    {"feedforward": {"kind": "gated", "activation": "gelu", "bias": True}},
    {"position": {"kind": "sinusoidal", "combine": "qkv"}},
    {"attention": {"kind": "full", "value_width": 6}},
]


@pytest.mark.parametrize("kinds", FUSED, ids=name)
def test_fused_blocks_equal_the_models_own_step(kinds):
    prompt, tokens = (
        torch.full((4, 1), BOS),
        torch.randint(3, VOCAB, (8, 4), generator=torch.Generator().manual_seed(4)),
    )
    for model, source in ((writer(**kinds), None), (translator(**kinds), Sequences.padded(SOURCES))):
        blocks = model.stack.blocks if source is None else model.decoder.blocks
        assert all(fusable(block) for block in blocks)
        own, other = (
            logits_of(stepper, source, prompt, None, tokens, torch.tensor([1, 1, 3]))
            for stepper in (model, CUDAGraphDecoder(model))
        )
        for one, two in zip(own, other, strict=True):
            torch.testing.assert_close(one, two, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "kinds",
    [
        {"norm_place": "after"},
        {"residual": False},
        {"attention": {"kind": "full", "shape": "narrow"}},
        {"attention": {"kind": "full", "projections": False}},
        {"norm": {"kind": "layer", "epsilon_inside": False}},
        {"norm": {"kind": "layer", "epsilon": 0}},
        {"attention": {"kind": "full", "output_projection": False}},
    ],
    ids=name,
)
def test_blocks_that_cannot_be_fused(kinds):
    model = writer(**kinds)
    assert not any(fusable(block) for block in model.stack.blocks)
    prompts, config = [[4], [5, 6, 7]], SEARCHES[0]
    own, other = (search(one, None, prompts, config, eos=EOS, bos=BOS) for one in (model, CUDAGraphDecoder(model)))
    assert tokens_of(own) == tokens_of(other)


def test_the_head_is_fused_where_it_is_plain():
    for kinds in ({}, {"embedding": {"share": "none"}}, {"head": {"kind": "vocabulary", "bias": True}}):
        model, x = writer(**kinds), torch.randn(3, 1, SHAPE["width"])
        norm = model.stack.final_norm
        fused = fused_head(model.head, norm)
        assert fused is not None
        with torch.no_grad():
            torch.testing.assert_close(fused(x, None), model.head(norm(x))[:, 0], atol=1e-4, rtol=1e-4)
    for kinds in ({"embedding": {"factor": 4}}, {"norm": {"kind": "layer", "epsilon_inside": False}}):
        model = writer(**kinds)
        assert fused_head(model.head, model.stack.final_norm) is None


def tokens_of(found):
    return [[(hypothesis.tokens, hypothesis.finished) for hypothesis in row] for row in found]


@pytest.mark.parametrize("config", SEARCHES, ids=lambda config: config.kind)
@pytest.mark.parametrize("position", ["rotary", "alibi"])
def test_the_same_text(config, position):
    model, prompts = writer(position=position), [[4], [5, 6, 7], [7, 8, 9], [4, 4]]
    own, other = (search(one, None, prompts, config, eos=EOS, bos=BOS) for one in (model, CUDAGraphDecoder(model)))
    assert tokens_of(own) == tokens_of(other)
    model, source = translator(position=position), Sequences.padded(SOURCES)
    own, other = (
        search(one, source, None, config, eos=EOS, bos=BOS, pad=PAD) for one in (model, CUDAGraphDecoder(model))
    )
    assert tokens_of(own) == tokens_of(other)


def test_inside_an_ensemble_and_behind_a_prompt():
    models = [translator(position="rotary"), translator(position="t5")]
    source, config = Sequences.padded(SOURCES), BeamConfig(max_length=9, size=3)
    plain, fast = Ensemble(models), Ensemble([CUDAGraphDecoder(model) for model in models])
    own, other = (search(one, source, None, config, eos=EOS, bos=BOS) for one in (plain, fast))
    assert tokens_of(own) == tokens_of(other)
    model = writer(position="alibi")
    plain, fast = (PrefixDecoder(one, begin=BOS, separator=3) for one in (model, CUDAGraphDecoder(model)))
    own, other = (search(one, source, None, config, eos=EOS, bos=BOS) for one in (plain, fast))
    assert tokens_of(own) == tokens_of(other)


@pytest.fixture(scope="module")
def rotary():
    return writer(position="rotary").double()


@settings(max_examples=10)
@given(lengths=st.lists(st.integers(1, 4), min_size=2, max_size=3), again=st.data())
def test_several_tokens_at_once_after_the_first_step(rotary, lengths, again):
    model, rows = rotary, len(lengths)
    more = torch.tensor(again.draw(st.lists(st.integers(1, 3), min_size=rows, max_size=rows)))
    tokens = torch.randint(3, VOCAB, (rows, 8), generator=torch.Generator().manual_seed(5))
    results = []
    for stepper in (model, CUDAGraphDecoder(model)):
        _, state = stepper.step(tokens[:, :4], stepper.start(None, rows=rows, capacity=9), torch.tensor(lengths))
        logits, state = stepper.step(tokens[:, 4:7], state, more)
        last, _ = stepper.step(tokens[:, 7:], state)
        results.append((logits[torch.arange(rows), more - 1], last))
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, atol=1e-9, rtol=1e-9)


def past_the_prompt(stepper, rows=1, capacity=8):
    """A state that has left the prompt behind."""
    _, state = stepper.step(torch.full((rows, 2), 4), stepper.start(None, rows=rows, capacity=capacity))
    assert isinstance(state, DecoderState)
    return stepper.step(torch.full((rows, 1), 5), state)[1]


def test_states_that_live_at_once_do_not_share_a_cache():
    model = writer(position="learned")
    stepper, tokens = CUDAGraphDecoder(model), torch.tensor([[6]])
    one = past_the_prompt(stepper)
    alone, _ = stepper.step(tokens, one)
    one = past_the_prompt(stepper)
    other = past_the_prompt(stepper)
    stepper.step(torch.tensor([[9]]), other)
    together, _ = stepper.step(tokens, one)
    torch.testing.assert_close(alone, together)
    assert one.captured is not other.captured


def test_captured_steps_are_used_again_and_few_are_kept():
    stepper = CUDAGraphDecoder(writer())
    first = past_the_prompt(stepper)
    captured = first.captured
    del first
    gc.collect()
    assert past_the_prompt(stepper).captured is captured
    states = [past_the_prompt(stepper) for _ in range(MAX_IDLE_GRAPHS + 2)]
    del states
    gc.collect()
    assert len(stepper._idle) == MAX_IDLE_GRAPHS


def test_no_token_beyond_the_capacity():
    stepper = CUDAGraphDecoder(writer())
    state = past_the_prompt(stepper, capacity=3)
    with pytest.raises(ShapeError, match="room for 3 tokens, got 4"):
        stepper.step(torch.tensor([[5]]), state)


@pytest.mark.parametrize(
    ("kinds", "why"),
    [
        ({"attention": "window"}, "window"),
        ({"attention": "bigbird"}, "bigbird"),
        ({"attention": "memory-compressed"}, "memory-compressed"),
        ({"attention": "alternating"}, "alternating"),
        ({"attention": {"kind": "full", "strict": True}}, "strict"),
        ({"feedforward": {"kind": "experts"}}, "expert"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_kinds_that_cannot_be_captured_say_why(kinds, why):
    model = DecoderConfig.from_tree({**SHAPE, **kinds}).build(VOCAB)
    assert why in obstacle(model)
    with pytest.raises(TypeError, match=why):
        DecodingStep(model, static_block)


def test_contract_and_sizes():
    assert isinstance(CUDAGraphDecoder(writer()), Stepper)
    assert obstacle(writer()) == obstacle(translator()) == ""
    assert "no Transformer" in obstacle(object())
    assert [next_power_of_two(count) for count in (1, 2, 3, 4, 5, 64, 65)] == [1, 2, 4, 4, 8, 64, 128]
