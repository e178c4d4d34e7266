"""Every convolutional kind keeps the promises of the design: rows, padding, the future, caches, sizes."""

from functools import partial

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.errors import RegardError
from regard.models.convolutional import ByteNetConfig, ConvS2SConfig, WindowDecoderConfig, WindowEncoderConfig
from regard.nn.layout import Sequences

VOCAB = 19
STAGES = [{"layers": 2, "hidden": 12}, {"layers": 1, "hidden": 20, "kernel": 1}]
WINDOWS = {
    "plain": {},
    "wide": {"kernel": 4, "dilation": 2, "depth": 3},
    "after": {"norm_place": "after", "activation": "gelu"},
    "bare": {"residual": False, "norm": "none", "final_norm": True},
    "own-output": {"embedding": {"share": "none", "factor": 6, "norm": True, "segments": 2}, "norm": "rms"},
}
BYTENETS = {
    "plain": {},
    "paper": {"dilation": 4, "depth": 4, "stretch": 1.2},
    "long": {"stretch": 1.6, "extra": 3, "join": "add", "decoder_kernel": 2},
    "other": {"inner": 5, "norm": "rms", "decoder_depth": 3, "head": {"kind": "vocabulary"}},
    "shared": {"embedding": {"share": "all", "factor": 6}},
}
CONVS2S = {
    "plain": {},
    "stages": {"stages": STAGES, "depth": 3},
    "other": {"hidden": 12, "kernel": 4, "decoder_depth": 3, "weight_norm": False, "initialise": "xavier"},
    "sinusoidal": {"position": {"kind": "sinusoidal", "combine": "concat"}, "embedding": {"share": "all"}},
    "lone": {"position": "none", "scale_gradients": False, "initialise": "torch"},
}
DECODERS = [(WindowDecoderConfig, WINDOWS, name) for name in WINDOWS]
TRANSLATORS = [(ByteNetConfig, BYTENETS, name) for name in BYTENETS] + [
    (ConvS2SConfig, CONVS2S, name) for name in CONVS2S
]
ENCODERS = [(WindowEncoderConfig, WINDOWS, name) for name in WINDOWS]


def chosen(case):
    kind, family, name = case
    return kind(**{"width": 16, "depth": 2, "kernel": 3, "dropout": 0.0, **family[name]})


def name_of(case) -> str:
    return f"{case[0].__name__.removesuffix('Config')}-{case[2]}"


def made(case, classes: int | None = None):
    """A model in double precision, all of whose weights matter (those that start at zero or one included)."""
    config = chosen(case)
    torch.manual_seed(0)
    sizes = (VOCAB,) if classes is None else (VOCAB, classes)
    model = config.build(*sizes).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    return config, model


def rows(*lengths: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(1, VOCAB, (length,), generator=generator).tolist() for length in lengths]


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-8, atol=1e-8)


def trains_a_step(model: torch.nn.Module, loss: torch.Tensor) -> None:
    loss.backward()
    missing = [name for name, weight in model.named_parameters() if weight.grad is None]
    assert not missing, f"no gradient reaches {missing}"
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters())


def counts(config, model, work: dict, *inputs: Sequences, **sizes: int) -> None:
    """Parameters exactly, FLOPs as torch counts them."""
    assert sum(weight.numel() for weight in model.parameters()) == config.num_params(VOCAB, **sizes)
    with FlopCounterMode(display=False) as counter:
        model(*inputs)
    assert counter.get_total_flops() == pytest.approx(config.flops(**work, vocab=VOCAB, **sizes), rel=0.02)


def full(batch: int, time: int) -> Sequences:
    return Sequences.full(torch.ones(batch, time, dtype=torch.long))


@pytest.mark.parametrize("case", ENCODERS, ids=name_of)
def test_encoders(case):
    config, model = made(case)
    assert config.shape == "encoder"
    source_rows = rows(5, 9, 1)
    padded = model(Sequences.padded(source_rows))
    for row, sentence in enumerate(source_rows):
        close(padded[row, : len(sentence)], model(Sequences.padded([sentence]))[0])
        close(padded[row, : len(sentence)], model(Sequences.full(torch.tensor([sentence])))[0])
    counts(config, model, {"batch": 2, "time": 7}, full(2, 7))
    trains_a_step(model.train(), model(Sequences.padded(source_rows)).square().mean())


@pytest.mark.parametrize("head", [None, "pooled", "token", {"kind": "pooled", "pooling": "max", "hidden": 12}], ids=str)
@pytest.mark.parametrize("kind", [WindowEncoderConfig, WindowDecoderConfig])
def test_classes(kind, head):
    config, model = made((kind, {"head": {"head": head}}, "head"), classes=5)
    source_rows = rows(5, 9, 1)
    padded = model(Sequences.padded(source_rows))
    for row, sentence in enumerate(source_rows):
        alone = model(Sequences.padded([sentence]))[0]
        close(padded[row, : len(sentence)] if head == "token" else padded[row], alone)
    counts(config, model, {"batch": 2, "time": 7}, full(2, 7), classes=5)
    with pytest.raises(RegardError, match=r"model\.head: a .* head cannot give"):
        config.but(head="vocabulary").build(VOCAB, classes=5)


@pytest.mark.parametrize("case", DECODERS, ids=name_of)
def test_decoders(case):
    config, model = made(case)
    assert config.shape == "decoder"
    source_rows = rows(5, 9, 7)
    padded = model(Sequences.padded(source_rows))
    for row, sentence in enumerate(source_rows):
        close(padded[row, : len(sentence)], model(Sequences.padded([sentence]))[0])
    stepwise_equals_whole(model, None, source_rows, padded)
    counts(config, model, {"batch": 2, "time": 7}, full(2, 7))
    trains_a_step(model.train(), model(Sequences.padded(source_rows)).square().mean())


@pytest.mark.parametrize("case", TRANSLATORS, ids=name_of)
def test_translators(case):
    config, model = made(case)
    assert config.shape == "encoder-decoder"
    sources, targets = rows(6, 3, 8), rows(5, 9, 14)
    source = Sequences.padded(sources)
    padded = model(source, Sequences.padded(targets))
    for row, (one, other) in enumerate(zip(sources, targets, strict=True)):
        close(padded[row, : len(other)], model(Sequences.padded([one]), Sequences.padded([other]))[0])
        whole = [Sequences.full(torch.tensor([side])) for side in (one, other)]
        close(padded[row, : len(other)], model(*whole)[0])
    stepwise_equals_whole(model, source, targets, padded)
    counts(config, model, {"batch": 2, "source": 7, "target": 6}, full(2, 7), full(2, 6))
    trains_a_step(model.train(), model(source, Sequences.padded(targets)).square().mean())


def stepwise_equals_whole(model, source, source_rows, whole) -> None:
    """Token by token, in pieces of several tokens, and from ragged prompts after rows were shuffled and repeated."""
    tokens, longest = Sequences.padded(source_rows).tokens, max(map(len, source_rows))
    for sizes in ([1] * longest, [3, longest - 3]):
        state, done = model.start(source, rows=len(source_rows), capacity=longest), 0
        for size in sizes:
            logits, state = model.step(tokens[:, done : done + size], state)
            for row, sentence in enumerate(source_rows):
                end = min(done + size, len(sentence))
                close(logits[row, : end - done], whole[row, done:end])
            done += size

    state = model.start(source, rows=len(source_rows), capacity=longest)
    prompts = torch.tensor([2, 4, 3])
    logits, state = model.step(tokens[:, :4], state, prompts)
    for row, length in enumerate(prompts.tolist()):
        close(logits[row, :length], whole[row, :length])
    more = torch.tensor([1, 0, 2])  # a second ragged prompt goes on from the first
    piece = tokens.gather(1, (prompts[:, None] + torch.arange(2)).clamp(max=longest - 1))
    logits, state = model.step(piece, state, more)
    close(logits[2, :2], whole[2, 3:5])
    at, order = prompts + more, torch.tensor([2, 0, 1, 1, 0])
    state, tokens, whole, at = model.reorder(state, order), tokens[order], whole[order], at[order]
    twice = [model.step(tokens.gather(1, at[:, None]), state)[0] for _ in range(2)]
    close(*twice)  # a state is not used up by a step
    for _ in range(2):
        logits, state = model.step(tokens.gather(1, at[:, None]), state)
        known = at < torch.tensor([len(source_rows[row]) for row in order])
        close(logits[known, 0], whole[torch.arange(5), at][known])
        at = at + 1


@pytest.mark.parametrize("case", TRANSLATORS[:2] + TRANSLATORS[5:7], ids=name_of)
def test_rows_of_a_beam_that_stay_with_their_sentence_keep_what_they_hear(case):
    _, model = made(case)
    state = model.start(Sequences.padded(rows(4, 2)), rows=2, capacity=5)
    wide = model.reorder(state, torch.tensor([0, 0, 1, 1]))
    turned = model.reorder(wide, torch.tensor([1, 0, 3, 3]))
    assert all(one is other for one, other in zip(turned.source_kv, wide.source_kv, strict=True))
    crossed = model.reorder(wide, torch.tensor([2, 0, 3, 3]))
    close(crossed.source_kv[0], state.source_kv[0][torch.tensor([1, 0, 1, 1])])


@pytest.mark.parametrize("case", DECODERS + TRANSLATORS, ids=name_of)
def test_nothing_leaks_from_the_future(case):
    """The gradient of an output by the vectors of later tokens is zero; by its own token it is not."""
    _, model = made(case)
    table = getattr(model, "embedding", None) or model.target_embedding
    target = Sequences.full(torch.arange(1, 12)[None])  # no token twice, none of the source's
    given = (target,) if hasattr(model, "embedding") else (Sequences.padded([[12, 13, 14]]), target)
    y = model.hidden(*given)
    direction = torch.randn(y.shape[-1], generator=torch.Generator().manual_seed(2), dtype=torch.double)
    for place in range(11):
        (slope,) = torch.autograd.grad(y[0, place] @ direction, table.table.weight, retain_graph=True)
        seen = slope[1:12].abs().sum(-1)  # by token, and so by place
        assert seen[place + 1 :].max() == 0 if place < 10 else True
        assert seen[place] > 0


@pytest.mark.parametrize("case", ENCODERS, ids=name_of)
def test_no_row_hears_of_padding_or_of_another_row(case):
    _, model = made(case)
    sequences = Sequences.padded([[1, 2, 3], [4, 5, 6, 7, 8]], pad=9)
    y = model.hidden(sequences)
    (slope,) = torch.autograd.grad(y[0, :3].sum(), model.embedding.table.weight)
    assert set(slope.abs().sum(-1).nonzero().flatten().tolist()) <= {1, 2, 3}


@pytest.mark.parametrize("case", TRANSLATORS, ids=name_of)
def test_no_translation_hears_of_padding_or_of_another_row(case):
    config, model = made(case)
    source = Sequences.padded([[1, 2], [3, 4, 5, 6]], pad=7)
    target = Sequences.padded([[8, 9, 10, 11, 12], [13, 14]], pad=15)
    y = model.hidden(source, target)
    (slope,) = torch.autograd.grad(y[0].sum(), model.source_embedding.table.weight, retain_graph=True)
    source_kv = set(slope.abs().sum(-1).nonzero().flatten().tolist())
    assert source_kv & {1, 2}
    assert source_kv <= {1, 2} | ({8, 9, 10, 11, 12} if config.embedding.shares_inputs else set())
    (slope,) = torch.autograd.grad(y[1, :2].sum(), model.source_embedding.table.weight)
    assert not set(slope.abs().sum(-1).nonzero().flatten().tolist()) & {1, 2, 7, 15}


@pytest.mark.parametrize("kernel", [2, 3, 5])
@pytest.mark.parametrize("dilation", [1, 4])
@pytest.mark.parametrize("kind", [WindowEncoderConfig, WindowDecoderConfig])
def test_what_one_word_sees(kind, kernel: int, dilation: int):
    config = kind(width=8, depth=3, kernel=kernel, dilation=dilation, dropout=0.0, activation="tanh")
    torch.manual_seed(1)
    model = config.build(200).double().eval()
    y = model.hidden(Sequences.full(torch.arange(101)[None]))
    (slope,) = torch.autograd.grad(y[0, 50].square().sum(), model.embedding.table.weight)
    seen = slope.abs().sum(-1).nonzero().flatten()
    assert int(seen.max() - seen.min()) + 1 == config.receptive_field
    assert config.receptive_field == 1 + (kernel - 1) * (3 if dilation == 1 else 7)
    if kind is WindowDecoderConfig:
        assert int(seen.max()) == 50


@pytest.mark.parametrize("case", [*ENCODERS[:1], *DECODERS[:1], *TRANSLATORS[:1], *TRANSLATORS[5:6]], ids=name_of)
def test_packed_batches_are_refused(case):
    _, model = made(case)
    packed = Sequences.packed(rows(3, 4))
    given = (packed, packed) if case in TRANSLATORS else (packed,)
    with pytest.raises(RegardError, match=r"data\.batching: a convolution would look .* choose 'bucketed' batches"):
        model(*given)


@pytest.mark.parametrize("case", ENCODERS[:1] + DECODERS[:1] + TRANSLATORS, ids=name_of)
def test_settings_survive_a_recipe(case):
    config = chosen(case)
    assert type(config).from_tree(config.tree()) == config


def test_mistakes_are_named():
    for kind in (WindowEncoderConfig, ByteNetConfig):
        with pytest.raises(RegardError, match=r"dropout\.attention: this model has no such part"):
            kind(dropout={"attention": 0.1})
    with pytest.raises(RegardError, match="width: expected an even number"):
        ByteNetConfig(width=15)
    with pytest.raises(RegardError, match=r"embedding\.norm: only Transformers and word windows"):
        ConvS2SConfig(embedding={"norm": True})
    with pytest.raises(RegardError, match="depth: expected 3, the layers of all stages, got 6"):
        ConvS2SConfig(stages=STAGES)
    with pytest.raises(RegardError, match="stages: they give both sides their layers"):
        ConvS2SConfig(stages=STAGES, depth=3, hidden=7)
    with pytest.raises(RegardError, match=r"position\.layers: this model places its tokens once"):
        ConvS2SConfig(position={"kind": "learned", "layers": "every"})
    with pytest.raises(RegardError, match=r"model\.embedding\.share: 'all' needs one vocabulary"):
        ByteNetConfig(width=8, embedding={"share": "all"}).build(5, 6)
    assert ConvS2SConfig(dropout=0.3).dropout.output == 0.3


def test_steppers_say_what_they_cannot_do():
    _, model = made(DECODERS[0])
    with pytest.raises(RegardError, match=r"model\.kind: a decoder has no source"):
        model.start(Sequences.padded(rows(3)), rows=1, capacity=3)
    state = model.start(None, rows=1, capacity=3)
    with pytest.raises(RegardError, match="room for 3 tokens, got 4"):
        model.step(torch.ones(1, 4, dtype=torch.long), state)
    _, model = made((ConvS2SConfig, {"short": {"position": {"kind": "learned", "length": 5}}}, "short"))
    with pytest.raises(RegardError, match="source: expected 2 padded rows, got none"):
        model.start(None, rows=2, capacity=3)
    with pytest.raises(RegardError, match=r"model\.position\.length: learned positions reach 5 tokens, got .* of 6"):
        model.start(Sequences.padded(rows(3)), rows=1, capacity=6)
    with pytest.raises(RegardError, match=r"model\.position\.length: learned positions reach 5 tokens, got .* of 7"):
        model(Sequences.padded(rows(7)), Sequences.padded(rows(3)))
    with pytest.raises(RegardError, match=r"model\.position\.length: learned positions reach 5 tokens, got .* of 7"):
        model(Sequences.padded(rows(3)), Sequences.padded(rows(7)))


@pytest.mark.gpu
@pytest.mark.parametrize("case", DECODERS[:2] + TRANSLATORS, ids=name_of)
def test_the_same_on_a_gpu(case):
    """Whole and stepwise, from ragged prompts, with rows reordered; and in half precision a step of training."""
    _, model = made(case)
    sources, target = Sequences.padded(rows(6, 3, 8)), Sequences.padded(rows(5, 9, 7))
    given = (sources, target) if case in TRANSLATORS else (target,)
    expected = model(*given)
    model = model.cuda()
    given = tuple(sequences.to("cuda") for sequences in given)
    close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-6)  # waves of positions are float32 on both
    close(model(*given).cpu(), expected)
    lengths, order = torch.tensor([2, 4, 3], device="cuda"), torch.tensor([2, 0], device="cuda")
    state = model.start(given[0] if case in TRANSLATORS else None, rows=3, capacity=9)
    logits, state = model.step(given[-1].tokens[:, :4], state, lengths)
    close(logits[1].cpu(), expected[1, :4])
    nexts = given[-1].tokens[order].gather(1, lengths[order][:, None])
    logits, _ = model.step(nexts, model.reorder(state, order))
    close(logits[:, 0].cpu(), torch.stack([expected[2, 3], expected[0, 2]]))
    with torch.autocast("cuda", torch.bfloat16):
        trains_a_step(model.float().train(), model(*given).float().square().mean())
