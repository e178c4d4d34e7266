import json
import math
import random
from collections import Counter
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_corpus import SENTENCES, tiny_tokenizer

from regard.errors import ConfigError
from regard.text import subword_sampling
from regard.text.subword_sampling import BpeDropout, Sampler, UnigramSampling, uniform

DRAWS = 3000


def sampler(kind: str, strength: float | None = None) -> Sampler:
    core = tiny_tokenizer(kind).core
    if kind == "bpe":
        return BpeDropout(core, dropout=strength or 0.2)
    return UnigramSampling(core, alpha=strength or 0.3)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@given(text=st.one_of(st.text(max_size=20), st.sampled_from(SENTENCES)), key=st.text(max_size=5))
@settings(max_examples=80, deadline=None)
def test_every_cut_decodes_to_the_text_and_depends_on_the_key_alone(kind: str, text: str, key: str):
    ids = sampler(kind).sample(text, key)
    assert tiny_tokenizer(kind).decode(ids) == text
    assert sampler(kind).sample(text, key) == ids


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_what_is_remembered_changes_nothing(kind: str, monkeypatch: pytest.MonkeyPatch):
    remembering = sampler(kind)
    first = [remembering.sample(text, str(i)) for i, text in enumerate(SENTENCES)]
    monkeypatch.setattr(subword_sampling, "LARGEST_MEMORY", 1)
    forgetting = sampler(kind)
    backwards = [forgetting.sample(text, str(i)) for i, text in reversed(list(enumerate(SENTENCES)))]
    assert backwards[::-1] == first


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_keys_draw_different_cuts(kind: str):
    cuts = {tuple(sampler(kind).sample(SENTENCES[0], f"1 {epoch}")) for epoch in range(20)}
    assert len(cuts) > 15


def test_without_chance_it_is_the_tokenizers_own_cut():
    for text in SENTENCES:
        assert sampler("bpe", 1e-12).sample(text, "key") == tiny_tokenizer("bpe").encode(text)
        assert sampler("unigram", 1e6).sample(text, "key") == tiny_tokenizer("unigram").encode(text)


def test_dropout_cuts_into_more_pieces():
    text = " ".join(SENTENCES)
    lengths = [len(sampler("bpe", dropout).sample(text, "key")) for dropout in (1e-9, 0.1, 0.5, 0.999999)]
    assert lengths == sorted(lengths)
    assert lengths[-1] == len(text.encode())


def plain_bpe_dropout(word: str, dropout: float, chance: random.Random) -> tuple[str, ...]:
    """The algorithm as the paper states it."""
    model = json.loads(tiny_tokenizer("bpe").core.to_str())["model"]
    ranks = {tuple(merge): rank for rank, merge in enumerate(model["merges"])}
    pieces = list(word)
    while True:
        possible = [(ranks[pair], place) for place, pair in enumerate(pairwise(pieces)) if pair in ranks]
        possible = [merge for merge in possible if chance.random() >= dropout]
        if not possible:
            return tuple(pieces)
        _, place = min(possible)
        pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]


def distance(one: Counter, other: Counter) -> float:
    """Total variation between two distributions."""
    totals = sum(one.values()), sum(other.values())
    return sum(abs(one[cut] / totals[0] - other[cut] / totals[1]) for cut in one | other) / 2


def test_dropout_draws_as_often_as_the_papers_algorithm():
    chance = random.Random(0)
    drawn, dropping = Counter(), sampler("bpe", 0.3)
    for i in range(DRAWS):
        drawn[tuple(tiny_tokenizer("bpe").tokens(dropping.sample("street", str(i))))] += 1
    expected = Counter(plain_bpe_dropout("street", 0.3, chance) for _ in range(DRAWS))
    assert len(expected) > 5
    assert distance(drawn, expected) < 0.05


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
def test_unigram_cuts_have_their_exact_probabilities(alpha: float):
    word = "street"
    scores = {piece: score for piece, score in json.loads(tiny_tokenizer("unigram").core.to_str())["model"]["vocab"]}
    weights: Counter = Counter()
    for count in range(len(word)):
        for places in combinations(range(1, len(word)), count):
            cut = tuple(word[start:end] for start, end in pairwise([0, *places, len(word)]))
            if all(piece in scores for piece in cut):
                weights[cut] = math.exp(alpha * sum(scores[piece] for piece in cut))
    drawing, drawn = sampler("unigram", alpha), Counter()
    for i in range(DRAWS):
        drawn[tuple(tiny_tokenizer("unigram").tokens(drawing.sample(word, str(i))))] += 1
    assert len(weights) > 3
    assert distance(drawn, weights) < 0.05


def test_uniform_numbers_are_uniform_and_repeat():
    numbers = uniform("key", 20_000)
    assert (uniform("key", 20_000) == numbers).all()
    assert numbers.min() > 0
    assert numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 0.01
    assert abs(numbers.var() - 1 / 12) < 0.005
    assert len(uniform("key", 0)) == 0


def test_impossible_strengths_are_refused():
    for dropout in (0.0, 1.0, -1.0):
        with pytest.raises(ConfigError, match="dropout: expected a number between 0 and 1"):
            BpeDropout(tiny_tokenizer("bpe").core, dropout=dropout)
    with pytest.raises(ConfigError, match="alpha: expected a positive number"):
        UnigramSampling(tiny_tokenizer("unigram").core, alpha=0.0)
