"""Sampling: the right frequencies, the same draws in any company, filters in place."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_steppers import BOS, EOS, HashStepper

from regard.decode import GreedyConfig, SampleConfig, Sampler, make_job, search
from regard.errors import ConfigError
from regard.nn.layout import Sequences


def sample(stepper, prompts, source=None, **settings):
    return search(stepper, source, prompts, SampleConfig(**settings), eos=EOS, bos=BOS)


def test_frequencies_are_the_models_probabilities():
    stepper, count = HashStepper(seed=3, spread=1.0), 4000
    [samples] = sample(stepper, [[2]], samples=count, max_length=1)
    written = [hypothesis.tokens[0] if hypothesis.tokens else EOS for hypothesis in samples]
    allowed = stepper.table[stepper.hashed([BOS, 2])].clone()
    allowed[BOS] = -torch.inf
    for token, probability in enumerate(allowed.softmax(-1).tolist()):
        spread = (probability * (1 - probability) / count) ** 0.5
        assert abs(written.count(token) / count - probability) <= 4 * spread


def test_log_probabilities_are_the_models_own():
    stepper = HashStepper(seed=3)
    settings = {"temperature": 0.5, "top_k": 2, "repetition_penalty": 2.0}
    [[found]] = sample(stepper, [[2]], max_length=6, **settings)
    written = found.tokens + [EOS] * found.finished
    assert found.token_logprobs == pytest.approx(stepper.logprobs([BOS, 2], written), abs=1e-5)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1000), prompts=st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=1, max_size=5))
def test_temperature_zero_is_greedy_search(seed, prompts):
    stepper = HashStepper(seed=seed)
    greedy = search(stepper, None, prompts, GreedyConfig(max_length=7), eos=EOS, bos=BOS)
    assert sample(stepper, prompts, temperature=0, max_length=7) == greedy
    assert sample(stepper, prompts, temperature=1e-6, max_length=7) == greedy
    assert sample(stepper, prompts, top_k=1, max_length=7) == greedy


def test_seeds_samples_and_inputs_differ_but_repeat():
    stepper = HashStepper(vocab=50, spread=0.5)
    settings = {"max_length": 12, "min_length": 11, "samples": 3}
    first = sample(stepper, [[2], [3]], **settings)
    assert first == sample(stepper, [[2], [3]], **settings)
    others = [sample(stepper, [[2], [3]], seed=2, **settings), first[::-1]]
    texts = [hypothesis.tokens for run in (first, *others) for row in run for hypothesis in row]
    assert len({tuple(text) for text in texts}) == 12  # two inputs × three samples × two seeds
    flat = HashStepper(vocab=50, spread=0.0)
    [[one], [two]] = sample(flat, [[2], [3]], max_length=12, min_length=11)
    assert one.tokens != two.tokens  # the draws differ, not only the distributions


def test_the_source_seeds_too():
    stepper = HashStepper(vocab=50, spread=0.0)
    [[one], [two], [again]] = sample(stepper, None, Sequences.padded([[5], [6, 7], [5]]), max_length=12, min_length=11)
    assert one.tokens != two.tokens
    assert one == again


def test_a_longer_limit_only_continues():
    stepper = HashStepper(vocab=50, spread=0.1)
    [[short]] = sample(stepper, [[2]], max_length=5, min_length=4)
    [[long]] = sample(stepper, [[2]], max_length=40, min_length=4)
    assert long.tokens[: len(short.tokens)] == short.tokens


def test_filters_narrow_what_is_drawn():
    stepper = HashStepper(vocab=20, spread=1.0, seed=9)
    context = stepper.table[stepper.hashed([BOS, 2])].clone()
    context[BOS] = -torch.inf
    ranked = context.argsort(descending=True).tolist()

    def drawn(**settings):
        [samples] = sample(stepper, [[2]], samples=300, max_length=1, **settings)
        return {hypothesis.tokens[0] if hypothesis.tokens else EOS for hypothesis in samples}

    assert drawn(top_k=3) == set(ranked[:3])
    assert drawn(top_p=1e-6) == drawn(min_p=1.0) == {ranked[0]}
    assert len(drawn(temperature=0.2)) < len(drawn()) <= len(drawn(temperature=5.0))
    nucleus = context.softmax(-1)[ranked].cumsum(0)
    assert drawn(top_p=0.5) <= set(ranked[: int((nucleus < 0.5).sum()) + 1])


def test_repetition_penalty_avoids_prompt_and_written_tokens():
    stepper = HashStepper(vocab=30, spread=0.1)
    stepper.table[:, EOS] = -50
    for prompt in ([5, 6, 7], []):
        [samples] = sample(stepper, [prompt], samples=20, max_length=8, repetition_penalty=50.0)
        for hypothesis in samples:
            whole = [*prompt, *hypothesis.tokens]
            assert len(set(whole)) == len(whole)


def test_sampler_by_hand():
    config = SampleConfig(max_length=6, temperature=0.7, top_k=3, seed=5)
    job = make_job(HashStepper(), None, [[2]], config, eos=EOS, bos=BOS)
    assert Sampler(temperature=0.7, top_k=3, seed=5).run(job) == config.build().run(job)


@pytest.mark.parametrize("wrong", [{"temperature": -1}, {"top_k": 0}, {"top_p": 0}, {"min_p": 2}, {"samples": 0}])
def test_wrong_settings_are_refused(wrong):
    [name] = wrong
    with pytest.raises(ConfigError, match=f"{name}: expected"):
        SampleConfig(**wrong)
