"""Summaries written by one stack or two: cached, in batches, from inputs that are cut."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_summarisation import CPU, DECODERS, SIZES, TEXTS, built, task_of

from regard.decode import BeamConfig, Ensemble, GreedyConfig, score, search
from regard.errors import ShapeError
from regard.models import EncoderDecoderConfig
from regard.models.stepper import PrefixDecoder
from regard.nn.layout import Sequences
from regard.text.special_tokens import BOS, EOS, PAD, SEP
from regard.text.tokenizer import BpeConfig, Tokenizer

ONLY_TOKENS = {"max_length": 7, "forbid_unknown": True}
SEARCHES = [GreedyConfig(**ONLY_TOKENS), BeamConfig(size=3, n_best=2, **ONLY_TOKENS)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, BpeConfig(size=300))


def reading(kind: str) -> PrefixDecoder:
    return PrefixDecoder(built(DECODERS[kind]), begin=BOS, separator=SEP)


SOURCES = [[8, 9, 10, 11, 12], [13, 14], [15, 16, 17, 18, 19, 7, 8, 9]]


def found(stepper, sources, prompts, config, **options) -> list:
    rows = search(stepper, sources, prompts, config, eos=EOS, pad=PAD, unk=BOS, device=CPU, **options)
    return [[(one.tokens, one.score) for one in row] for row in rows]


@pytest.mark.parametrize("config", SEARCHES, ids=lambda config: config.kind)
@pytest.mark.parametrize("kind", DECODERS)
def test_a_source_is_the_beginning_of_a_decoders_own_text(kind: str, config):
    grid = Sequences.padded([[*row, EOS] for row in SOURCES])
    mine = found(reading(kind), grid, None, config, bos=BOS)
    prompts = [[*row, SEP] for row in SOURCES]
    theirs = found(reading(kind).decoder, None, prompts, config, bos=None)
    for row, other in zip(mine, theirs, strict=True):
        assert [tokens for tokens, _ in row] == [tokens for tokens, _ in other]
        assert [one for _, one in row] == pytest.approx([one for _, one in other], rel=1e-4)


@pytest.mark.parametrize("kind", DECODERS)
@settings(max_examples=10)
@given(sources=st.lists(st.lists(st.integers(7, 19), max_size=6), min_size=1, max_size=3))
def test_cached_equals_uncached_in_any_batch(kind: str, sources: list):
    stepper, target = reading(kind), [9, 10, 11]
    grid = Sequences.padded([[*row, EOS] for row in sources])
    cached = score(stepper, grid, [target] * len(sources), eos=EOS, bos=BOS)
    for row, logprobs in zip(sources, cached, strict=True):
        ids = [*row, SEP, *target]
        whole = stepper.decoder(Sequences.padded([ids]))[0].log_softmax(-1)
        wanted = [whole[len(row) + place, token].item() for place, token in enumerate([*target, EOS])]
        assert logprobs == pytest.approx(wanted, abs=1e-4)


def test_what_is_no_row_of_sources_is_refused():
    for source in (None, Sequences.padded([[8, EOS]]), Sequences.packed([[8, EOS], [9, EOS]])):
        with pytest.raises(ShapeError, match="source: expected 2 padded rows"):
            reading("full").start(source, rows=2, capacity=3)


class Stubborn:
    """A decoder that would always write the same token."""

    def start(self, source, *, rows, capacity):
        return torch.zeros(rows)

    def step(self, tokens, state, lengths=None):
        logits = torch.zeros(*tokens.shape, 20)
        logits[..., 9], logits[..., 10] = 5.0, 4.0
        return logits, state

    def reorder(self, state, rows):
        return state[rows]


def test_quoting_the_input_is_no_repetition():
    stepper = PrefixDecoder(Stubborn(), begin=BOS, separator=SEP)
    grid = Sequences.padded([[9, 10, EOS]])
    config = GreedyConfig(max_length=2, no_repeat_ngram=1)
    assert search(stepper, grid, None, config, eos=EOS, bos=BOS, pad=PAD)[0][0].tokens == [9, 10]


@pytest.mark.parametrize("kind", ["full", "alternating", "two stacks"])
def test_texts_in_texts_out(tokenizer: Tokenizer, kind: str):
    config = EncoderDecoderConfig(**SIZES) if kind == "two stacks" else DECODERS[kind]
    model, task = built(config, tokenizer.vocab_size), task_of(tokenizer, input_tokens=6)
    writer, asked = task.generator(model, CPU, longest=3), BeamConfig(size=2, max_length=5)
    together = writer.translate([TEXTS[0], " ", TEXTS[1]], asked)
    alone = [writer.translate([text], asked)[0] for text in (TEXTS[0], TEXTS[1])]
    assert [row[0].text for row in together] == [alone[0][0].text, "", alone[1][0].text]
    begun = tokenizer.decode(tokenizer.encode(TEXTS[0])[:5])
    assert writer.translate([begun], asked)[0][0].tokens == together[0][0].tokens, "the rest is not read"
    assert [vars(row[0]).get("unread") for row in together] == [len(tokenizer.encode(TEXTS[0])) - 5, None, 0]
    forced = writer.translate([TEXTS[0]], asked, prefixes=["the dog"])[0][0]
    assert forced.text.startswith("the dog")


def test_scores_of_given_summaries(tokenizer: Tokenizer):
    model, task = built(DECODERS["alternating"], tokenizer.vocab_size), task_of(tokenizer, input_tokens=8)
    found = task.generator(model, CPU).score(TEXTS, ["dog", "", "a bird"])
    ids = [*tokenizer.encode(TEXTS[2])[:7], SEP, *tokenizer.encode("a bird")]
    whole = model(Sequences.padded([ids]))[0].log_softmax(-1)
    following = [*tokenizer.encode("a bird"), EOS]
    assert found[2] == pytest.approx([whole[7 + i, token].item() for i, token in enumerate(following)], abs=1e-4)
    assert len(found[1]) == 1


def test_one_stack_and_two_write_together(tokenizer: Tokenizer):
    task = task_of(tokenizer)
    one, two = built(DECODERS["full"], tokenizer.vocab_size), built(EncoderDecoderConfig(**SIZES), tokenizer.vocab_size)
    both = task.generator(Ensemble([one, two]), CPU).score(TEXTS[:1], ["dog"])[0]
    apart = [torch.tensor(task.generator(model, CPU).score(TEXTS[:1], ["dog"])[0]) for model in (one, two)]
    assert both == pytest.approx(torch.stack(apart).exp().mean(0).log().tolist(), abs=1e-4)
