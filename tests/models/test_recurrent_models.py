"""Every recurrent kind keeps the promises of the design: counts, rows that know nothing of one another, stepping."""

import pytest
import torch
from recurrent_kinds import DECODERS, ENCODERS, TRANSLATORS, VOCAB
from test_combinations import cached_equals_uncached, close, rows, trains_a_step
from torch.utils.flop_counter import FlopCounterMode

from regard.errors import RegardError
from regard.models.recurrent import (
    DeepAttConfig,
    GnmtConfig,
    RecurrentDecoderConfig,
    RecurrentEncoderConfig,
    Seq2SeqConfig,
)
from regard.models.stepper import Stepper
from regard.nn.attention.seq2seq import Seq2SeqAttention
from regard.nn.layout import Layout, Sequences
from regard.nn.recurrent import RecurrentLayer

LENGTHS = [5, 9, 7]


def built(config, *sizes: int):
    torch.manual_seed(0)
    model = config.build(*sizes)
    assert sum(weight.numel() for weight in model.parameters()) == config.num_params(*sizes)
    return model


def counted(model, *inputs) -> int:
    """FLOPs of one pass as torch counts them: in double precision it has no fused recurrent kernel, and counts all."""
    with FlopCounterMode(display=False) as counter:
        model.eval().double()(*inputs)
    return counter.get_total_flops()


def full(batch: int, time: int) -> Sequences:
    return Sequences.full(torch.ones(batch, time, dtype=torch.long))


@pytest.mark.parametrize("name", DECODERS)
def test_decoder(name: str):
    model = built(DECODERS[name], VOCAB).eval()
    assert isinstance(model, Stepper)
    source_rows = rows(*LENGTHS)
    padded = model(Sequences.padded(source_rows))
    for row, sentence in enumerate(source_rows):
        close(padded[row, : len(sentence)], model(Sequences.padded([sentence]))[0])
    cached_equals_uncached(model, None, source_rows, padded)
    nothing_from_the_future(model, model.embedding, (), source_rows[1])
    trains_a_step(model.train(), model(Sequences.padded(source_rows)).square().mean())


@pytest.mark.parametrize("name", ENCODERS)
def test_encoder(name: str):
    model = built(ENCODERS[name], VOCAB).eval()
    source_rows = rows(*LENGTHS)
    padded = model(Sequences.padded(source_rows))
    for row, sentence in enumerate(source_rows):
        close(padded[row, : len(sentence)], model(Sequences.padded([sentence]))[0])
        close(padded[row, : len(sentence)], model(Sequences.full(torch.tensor([sentence])))[0])
    trains_a_step(model.train(), model(Sequences.padded(source_rows)).square().mean())


@pytest.mark.parametrize("name", TRANSLATORS)
def test_translator(name: str):
    model = built(TRANSLATORS[name], VOCAB).eval()
    assert isinstance(model, Stepper)
    sources, targets = rows(6, 3, 8), rows(*LENGTHS)
    source = Sequences.padded(sources)
    padded = model(source, Sequences.padded(targets))
    for row, (one, other) in enumerate(zip(sources, targets, strict=True)):
        close(padded[row, : len(other)], model(Sequences.padded([one]), Sequences.padded([other]))[0])
    cached_equals_uncached(model, source, targets, padded)
    nothing_from_the_future(model, model.target_embedding, (Sequences.padded(sources[:1]),), targets[1])
    trains_a_step(model.train(), model(source, Sequences.padded(targets)).square().mean())


def nothing_from_the_future(model, embedding, before: tuple, sentence: list[int]) -> None:
    """The gradient of an output by the vectors of later inputs is zero."""
    seen = []
    hook = embedding.register_forward_hook(lambda part, given, found: seen.append(found) or found)
    y = model.hidden(*before, Sequences.padded([sentence]))
    hook.remove()
    middle = len(sentence) // 2
    direction = torch.randn(y.shape[-1], generator=torch.Generator().manual_seed(2))
    target = next(x for x in seen if x.shape[1] == len(sentence))
    (slope,) = torch.autograd.grad(y[0, middle] @ direction, target)
    assert slope[0, middle + 1 :].abs().max() == 0
    assert (slope[0, : middle + 1].abs().amax(-1) > 0).all()


@pytest.mark.parametrize("name", TRANSLATORS)
def test_every_word_of_the_source_is_heard(name: str):
    model = built(TRANSLATORS[name], VOCAB).eval()
    x = model.source_embedding(torch.tensor(rows(6))).detach().requires_grad_()
    said = model.encoder(x, Layout.full(1, 6))
    state = model.decoder.initial_state(said)
    y, _ = model.decoder(model.target_embedding(torch.tensor([[3]])), state)
    (slope,) = torch.autograd.grad(y.square().sum(), x)
    assert (slope[0].abs().amax(-1) > 0).all()


@pytest.mark.parametrize("name", [name for name in TRANSLATORS if name not in ("sentence-vector", "sutskever")])
def test_alignments_are_found_under_one_name(name: str):
    model = built(TRANSLATORS[name], VOCAB).eval()
    cross, steps = model.decoder.cross, []
    assert isinstance(cross, Seq2SeqAttention)
    cross.recorder = steps.append
    model(Sequences.padded(rows(6, 3)), Sequences.padded(rows(5, 9)))
    [step] = steps
    assert step.weights.shape == (2, 1, 9, 6)
    close(step.weights.sum(-1), torch.ones(2, 1, 9))
    assert (step.weights[1, ..., 3:] == 0).all()


@pytest.mark.parametrize("name", [name for name in DECODERS if name != "experts"])
def test_flops_of_single_stacks(name: str):
    for config in (DECODERS[name], ENCODERS[name]):
        expected = config.flops(batch=2, time=20, vocab=VOCAB)
        assert counted(config.build(VOCAB), full(2, 20)) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("name", [name for name in TRANSLATORS if "experts" not in name])
def test_flops_of_translators(name: str):
    config = TRANSLATORS[name]
    expected = config.flops(batch=2, source=12, target=20, vocab=VOCAB)
    assert counted(config.build(VOCAB), full(2, 12), full(2, 20)) == pytest.approx(expected, rel=0.02)


def test_experts_add_their_own_flops():
    for config, tokens in (
        (DECODERS["experts"], {"time": 20}),
        (TRANSLATORS["gnmt-experts"], {"source": 12, "target": 20}),
    ):
        sizes = {"batch": 2, **tokens, "vocab": VOCAB}
        without = config.but(experts=None)
        extra = config.experts.flops(config.width, 2 * sum(tokens.values()))
        assert config.flops(**sizes) == without.flops(**sizes) + extra


@pytest.mark.parametrize("kinds", [DECODERS, ENCODERS], ids=["decoder", "encoder"])
@pytest.mark.parametrize("head", ["pooled", "token", {"kind": "pooled", "pooling": "last", "hidden": 12}], ids=str)
def test_classes(kinds: dict, head: object):
    for name in ("lstm", "narrow-tokens"):
        config = kinds[name].but(head=head)
        model = built(config, VOCAB, 5).eval()
        source_rows = rows(*LENGTHS)
        padded = model(Sequences.padded(source_rows))
        for row, sentence in enumerate(source_rows):
            alone = model(Sequences.padded([sentence]))[0]
            close(padded[row, : len(sentence)] if head == "token" else padded[row], alone)
        expected = config.flops(batch=2, time=20, vocab=VOCAB, classes=5)
        assert counted(model, full(2, 20)) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("share", ["all", "inputs", "output", "none"])
def test_shared_embeddings(share: str):
    config = GnmtConfig(width=16, depth=2, embedding={"share": share})
    model = built(config, VOCAB, VOCAB)
    tables = [weight for weight in model.parameters() if weight.shape == (VOCAB, 16)]
    assert len(tables) == {"all": 1, "inputs": 2, "output": 2, "none": 3}[share]
    if share in ("output", "none"):
        built(config, VOCAB, VOCAB + 4)


def test_half_precision_around_layers_trains():
    model = built(TRANSLATORS["deep-att"].but(dropout=0.1), VOCAB)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(Sequences.padded(rows(6, 3)), Sequences.padded(rows(5, 9))).float().square().mean()
    trains_a_step(model, loss)


@pytest.mark.parametrize("name", ["lstm", "encoder", "dot", "gnmt", "deep-att"])
def test_every_kind_drops_weights_between_memories(name: str):
    kinds = {**DECODERS, "encoder": ENCODERS["gru"], **TRANSLATORS, "lstm": DECODERS["lstm"]}
    model = built(kinds[name].but(dropout={"memory": 0.5}), VOCAB)
    dropping = [part for part in model.modules() if isinstance(part, RecurrentLayer)]
    assert dropping
    assert all(part.drop == 0.5 for part in dropping)
    inputs = [Sequences.padded(rows(6, 3)), Sequences.padded(rows(5, 9))][: 2 if name in TRANSLATORS else 1]
    assert not torch.equal(model(*inputs), model(*inputs))
    trains_a_step(model, model(*inputs).square().mean())


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (
            lambda: DECODERS["lstm"].build(VOCAB)(Sequences.packed(rows(3, 4))),
            "data.batching: recurrent models read one",
        ),
        (
            lambda: ENCODERS["lstm"].build(VOCAB)(Sequences.packed(rows(3, 4))),
            "data.batching: recurrent models read one",
        ),
        (
            lambda: TRANSLATORS["gnmt"].build(VOCAB)(Sequences.packed(rows(3, 4)), Sequences.packed(rows(3, 4))),
            "data.batching: recurrent models read one sequence a row, got packed batches; use 'bucketed' ones",
        ),
        (
            lambda: DECODERS["lstm"].build(VOCAB).start(Sequences.padded(rows(3)), rows=1, capacity=9),
            "model.kind: a recurrent language model has no source",
        ),
        (
            lambda: TRANSLATORS["dot"].build(VOCAB).start(None, rows=2, capacity=9),
            "source: expected 2 padded rows, got none",
        ),
        (
            lambda: TRANSLATORS["dot"].build(VOCAB).start(Sequences.packed(rows(3, 4)), rows=1, capacity=9),
            "source: expected 1 padded rows, got 1 packed",
        ),
        (lambda: TRANSLATORS["dot"].build(VOCAB, 7), "model.embedding.share: 'inputs' needs one vocabulary for both"),
        (lambda: RecurrentDecoderConfig(depth=1, experts={}), "experts: they stand between two layers"),
        (lambda: RecurrentDecoderConfig(residual=True, embedding_width=8), "residual: needs layers of one width"),
        (
            lambda: RecurrentDecoderConfig(embedding={"norm": True}),
            "embedding.norm: recurrent layers take their inputs",
        ),
        (lambda: RecurrentDecoderConfig(head="pooled").build(9), "model.head: a pooled head cannot give tokens of the"),
        (
            lambda: RecurrentEncoderConfig(head="vocabulary").build(9, 2),
            "model.head: a vocabulary head cannot give classes",
        ),
        (
            lambda: RecurrentEncoderConfig(width=7),
            "width: both directions have half of it each: expected an even number",
        ),
        (lambda: Seq2SeqConfig(width=7), "width: both directions have half of it each: expected an even number"),
        (
            lambda: Seq2SeqConfig(width=8, embedding={"share": "all"}),
            "embedding.share: 'all' lets the output layer use tokens' vectors of 8 numbers, but it is given 16",
        ),
        (lambda: GnmtConfig(depth=1), "depth: others stand above the bottom layer: expected at least 2, got 1"),
        (lambda: GnmtConfig(decoder_depth=1), "decoder_depth: others stand above the bottom layer"),
        (lambda: DeepAttConfig(decoder_depth=1), "decoder_depth: the second layer reads the context of the first"),
    ],
)
def test_what_cannot_be_is_refused(ask, sentence: str):
    with pytest.raises(RegardError) as refused:
        ask()
    assert str(refused.value).startswith(sentence)
