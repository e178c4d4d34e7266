"""Scores of given targets against the toy model's own."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_steppers import BOS, EOS, HashStepper

from regard.decode import GreedyConfig, Trace, score, search
from regard.errors import ConfigError
from regard.nn.layout import Sequences

rows = st.lists(
    st.tuples(*[st.lists(st.integers(0, 4), min_size=least, max_size=4) for least in (1, 0, 0)]), min_size=1, max_size=5
)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), rows=rows, eos=st.sampled_from([EOS, None]))
def test_scores_are_the_models_log_probabilities(seed, rows, eos):
    stepper = HashStepper(seed=seed)
    sources, prompts, targets = zip(*rows, strict=True)
    found = score(stepper, Sequences.padded(sources), targets, eos=eos, bos=BOS, prompts=prompts)
    for source, prompt, target, logprobs in zip(sources, prompts, targets, found, strict=True):
        whole = [*target, EOS] if eos is not None else list(target)
        assert logprobs == pytest.approx(stepper.logprobs([BOS, *prompt], whole, source), abs=1e-5)


def test_a_search_and_its_score_agree():
    stepper = HashStepper(seed=4)
    [[found]] = search(stepper, None, [[2, 3]], GreedyConfig(max_length=9), eos=EOS, bos=None)
    eos = EOS if found.finished else None
    assert score(stepper, None, [found.tokens], eos=eos, bos=None, prompts=[[2, 3]]) == [found.token_logprobs]


def test_trace_shows_the_likeliest_tokens_at_each_place():
    stepper, trace = HashStepper(seed=4), Trace(top=2)
    [logprobs] = score(stepper, None, [[3, 2]], eos=EOS, bos=BOS, trace=trace)
    assert [(choice.step, choice.token) for choice in trace.choices] == [(0, 3), (1, 2), (2, EOS)]
    for choice, logprob in zip(trace.choices, logprobs, strict=True):
        best = choice.best[0]
        assert best.logprob >= logprob
        assert (best.token == choice.token) == (best.logprob == pytest.approx(logprob))


def test_nothing_to_score():
    assert score(HashStepper(), None, [], eos=EOS, bos=BOS) == []
    assert score(HashStepper(), None, [[]], eos=None, bos=BOS) == [[]]


def test_wrong_inputs_are_refused():
    with pytest.raises(ConfigError, match="targets: expected 2 targets, one for each input, got 1"):
        score(HashStepper(), Sequences.padded([[5], [6]]), [[2]], eos=EOS, bos=BOS)
    with pytest.raises(ConfigError, match="prompts: row 0 is empty and there is no begin token"):
        score(HashStepper(), None, [[2]], eos=EOS, bos=None)
