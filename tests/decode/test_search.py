"""Greedy search, and what every search shares: prompts, limits, rules, streams, regrouping."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_steppers import BOS, EOS, FlatStepper, HashStepper

from regard.config import Config, resolve
from regard.decode import BeamConfig, GreedyConfig, SampleConfig, SearchConfig, Trace, make_job, search, stream
from regard.decode.constraints import Constraints, completes_ngram
from regard.errors import ConfigError, Failure
from regard.nn.layout import Sequences

seeds = st.integers(0, 10_000)
prompt_lists = st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=6)
configs = st.sampled_from(
    [
        GreedyConfig(max_length=8),
        GreedyConfig(max_length=8, no_repeat_ngram=2, min_length=3),
        SampleConfig(max_length=8),
        SampleConfig(max_length=8, samples=2, top_p=0.8, repetition_penalty=1.3),
        BeamConfig(max_length=8, size=3, n_best=2, no_repeat_ngram=1),
    ]
)


def greedy(stepper, prompts, source=None, *, eos=EOS, bos=BOS, pad=None, unk=None, **settings):
    found = search(stepper, source, prompts, GreedyConfig(**settings), eos=eos, bos=bos, pad=pad, unk=unk)
    return [hypothesis for [hypothesis] in found]


def slow_greedy(stepper, given, longest, source=None):
    written = []
    while len(written) < longest:
        choices = [token for token in range(stepper.vocab) if token != BOS]
        written.append(max(choices, key=lambda token: stepper.logprobs(given, [*written, token], source)[-1]))
        if written[-1] == EOS:
            break
    return written


@settings(max_examples=12, deadline=None)
@given(seed=seeds, prompts=prompt_lists, data=st.data())
def test_greedy_takes_the_likeliest_token_after_ragged_prompts(seed, prompts, data):
    stepper = HashStepper(seed=seed)
    sources = [data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=4)) for _ in prompts]
    found = greedy(stepper, prompts, Sequences.padded(sources), max_length=7)
    for prompt, source, hypothesis in zip(prompts, sources, found, strict=True):
        expected = slow_greedy(stepper, [BOS, *prompt], 7, source)
        assert hypothesis.tokens + [EOS] * hypothesis.finished == expected
        assert hypothesis.token_logprobs == pytest.approx(stepper.logprobs([BOS, *prompt], expected, source), abs=1e-5)
        assert hypothesis.score == pytest.approx(sum(hypothesis.token_logprobs))


@settings(max_examples=12, deadline=None)
@given(seed=seeds, prompts=prompt_lists, config=configs, data=st.data())
def test_neighbours_order_and_regrouping_change_nothing(seed, prompts, config, data):
    stepper = HashStepper(seed=seed)

    def run(rows, regroup=True):
        prompts_of_rows = [prompts[row] for row in rows]
        return search(stepper, None, prompts_of_rows, config, eos=EOS, bos=BOS, regroup=regroup)

    everyone = range(len(prompts))
    together = run(everyone)
    assert together == run(everyone, regroup=False)
    order = data.draw(st.permutations(everyone))
    assert run(order) == [together[row] for row in order]
    assert [run([row])[0] for row in everyone] == together


def test_finished_rows_leave_the_batch():
    stepper = HashStepper(seed=1)
    found = greedy(stepper, [[row] for row in range(5)], max_length=20)
    lengths = sorted((len(h.token_logprobs) for h in found), reverse=True)
    assert len(set(lengths)) > 1
    assert stepper.batches == [5] + [sum(length > step for length in lengths) for step in range(1, lengths[0])]


@settings(max_examples=12, deadline=None)
@given(seed=seeds, prompts=prompt_lists, config=configs)
def test_stream_writes_what_search_finds(seed, prompts, config):
    if isinstance(config, BeamConfig):
        return
    stepper = HashStepper(seed=seed)
    tokens = list(stream(stepper, None, prompts, config, eos=EOS, bos=BOS))
    for row, hypotheses in enumerate(search(stepper, None, prompts, config, eos=EOS, bos=BOS)):
        for sample, hypothesis in enumerate(hypotheses):
            own = [token for token in tokens if (token.row, token.sample) == (row, sample)]
            assert [token.token for token in own if not token.ended] == hypothesis.tokens
            assert [token.logprob for token in own] == hypothesis.token_logprobs
            assert [token.last for token in own] == [False] * (len(own) - 1) + [True]
            assert own[-1].ended == hypothesis.finished


def test_stream_gives_tokens_before_the_end_and_without_gradients():
    stepper = HashStepper()
    stepper.table.requires_grad_()
    tokens = stream(stepper, None, [[2]], GreedyConfig(max_length=30, min_length=20), eos=EOS, bos=BOS)
    next(tokens)
    assert len(stepper.batches) == 1
    assert torch.is_grad_enabled()


def test_beam_search_cannot_stream():
    with pytest.raises(ConfigError, match="kind: beam search knows its tokens only at the end"):
        stream(HashStepper(), None, [[2]], BeamConfig(), eos=EOS, bos=BOS)


def test_limits_follow_each_rows_own_source():
    stepper = HashStepper()
    stepper.table[:, EOS] = -50
    source = Sequences.padded([[5], [5, 6, 7, 8], [5] * 40])
    found = greedy(stepper, None, source, max_length=20, max_length_ratio=1.5, max_length_offset=2)
    assert [len(hypothesis.tokens) for hypothesis in found] == [3, 8, 20]
    assert not any(hypothesis.finished for hypothesis in found)


def test_min_length_holds_the_end_back():
    stepper = HashStepper(seed=8)
    stepper.table[:, EOS] = 50
    assert [len(h.tokens) for h in greedy(stepper, [[2], [3]], min_length=4)] == [4, 4]
    assert [len(h.tokens) for h in greedy(stepper, [[2], [3]])] == [0, 0]


def test_special_tokens_are_never_written():
    stepper = HashStepper(vocab=6)
    stepper.table[:, 2:5] += 50  # padding, unknown and one more
    config = {"max_length": 5, "min_length": 4}
    pad, unk, third = 2, 3, 4
    free = greedy(stepper, [[5]], pad=pad, unk=unk, **config)
    assert unk in free[0].tokens or third in free[0].tokens
    assert pad not in free[0].tokens
    strict = greedy(stepper, [[5]], pad=pad, unk=unk, forbid_unknown=True, **config)
    assert set(strict[0].tokens) == {third}


def test_an_end_token_that_also_begins_or_pads_can_be_written():
    stepper = HashStepper()
    stepper.table[:, EOS] = 50
    [found] = greedy(stepper, [[2]], eos=EOS, bos=EOS, pad=EOS)
    assert found.finished
    assert found.tokens == []


def test_without_an_end_token_rows_run_to_their_limit():
    [found] = greedy(HashStepper(), [[2, 3]], eos=None, bos=None, max_length=11)
    assert (len(found.tokens), found.finished) == (11, False)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("config", [GreedyConfig, SampleConfig, BeamConfig])
def test_no_ngram_is_repeated(size, config):
    stepper = HashStepper(vocab=12, seed=2)
    stepper.table[:, 5:7] += 3  # two favourites that would be repeated
    settings = config(max_length=9, min_length=8, no_repeat_ngram=size)
    for prompt in ([], [5], [5, 6, 5]):
        [[found]] = search(stepper, None, [prompt], settings, eos=EOS, bos=BOS)
        whole = [*prompt, *found.tokens]
        runs = [tuple(whole[place : place + size]) for place in range(len(whole) - size + 1)]
        fresh = runs[max(0, len(prompt) - size + 1) :]
        assert all(runs.index(run) == place for place, run in enumerate(runs) if run in fresh)
    [[free]] = search(stepper, None, [[]], config(max_length=9, min_length=8), eos=EOS, bos=BOS)
    assert len(set(free.tokens)) < len(free.tokens)


def test_repeat_rule_yields_where_it_leaves_nothing():
    [found] = greedy(FlatStepper(vocab=4), [[]], max_length=6, min_length=5, no_repeat_ngram=1)
    assert len(found.tokens) >= 5
    assert set(found.tokens[:2]) == {2, 3}


@given(history=st.lists(st.integers(0, 3), max_size=12), padding=st.integers(0, 3), size=st.integers(1, 4))
def test_completed_ngrams_are_those_that_stand_in_the_history(history, padding, size):
    seen = {tuple(history[place : place + size]) for place in range(len(history) - size + 1)}
    now = history[len(history) - size + 1 :] if size > 1 else []
    expected = [len(now) == size - 1 and (*now, token) in seen for token in range(4)]
    row = torch.tensor([[-1] * padding + history], dtype=torch.long).reshape(1, -1)
    assert completes_ngram(row, size, 4)[0].tolist() == expected


def test_trace_of_choices():
    trace = Trace(top=3)
    stepper = HashStepper(seed=6)
    found = search(stepper, None, [[2], [3]], GreedyConfig(max_length=6), eos=EOS, bos=BOS, trace=trace)
    for row, [hypothesis] in enumerate(found):
        choices = [choice for choice in trace.choices if choice.row == row]
        assert [choice.token for choice in choices] == hypothesis.tokens + [EOS] * hypothesis.finished
        assert [choice.step for choice in choices] == list(range(len(choices)))
        for choice in choices:
            assert len(choice.best) == 3
            assert choice.best == sorted(choice.best, key=lambda alternative: -alternative.logprob)


def test_wrong_inputs_are_refused():
    stepper, two = HashStepper(), Sequences.padded([[5], [6]])
    with pytest.raises(ConfigError, match="prompts: expected 2 prompts, one for each row of the source, got 1"):
        greedy(stepper, [[2]], two)
    with pytest.raises(ConfigError, match="prompts: row 1 is empty and there is no begin token"):
        greedy(stepper, [[2], []], bos=None)
    with pytest.raises(ConfigError, match="prompts: a model without a source needs one prompt a row"):
        greedy(stepper, None)
    with pytest.raises(ConfigError, match="max_length_ratio: only a model with a source"):
        greedy(stepper, [[2]], max_length_ratio=2.0)
    with pytest.raises(ConfigError, match=r"special tokens below 5 .* got 9"):
        greedy(stepper, [[2]], pad=9)
    with pytest.raises(ConfigError, match="all 2 tokens of the vocabulary are special"):
        greedy(HashStepper(vocab=2), [[]])


@pytest.mark.parametrize("config", [GreedyConfig(), SampleConfig(), SampleConfig(top_p=0.5, top_k=2)])
def test_logits_that_are_no_numbers_fail_clearly(config):
    stepper = HashStepper()
    stepper.table[:] = torch.nan
    with pytest.raises(Failure, match="NaN"):
        search(stepper, None, [[2]], config, eos=EOS, bos=BOS)


def test_no_rows_no_hypotheses():
    assert search(HashStepper(), None, [], GreedyConfig(), eos=EOS, bos=BOS) == []
    assert search(HashStepper(), None, [], SampleConfig(), eos=EOS, bos=BOS) == []
    assert list(stream(HashStepper(), None, [], GreedyConfig(), eos=EOS, bos=BOS)) == []


def test_no_more_room_is_asked_for_than_is_fed():
    stepper = HashStepper()
    stepper.table[:, EOS] = -50
    greedy(stepper, [[2, 3]], max_length=6)
    assert make_job(stepper, None, [[2, 3]], GreedyConfig(max_length=6), eos=EOS, bos=BOS).capacity == 8
    assert len(stepper.batches) == 6  # begin token and prompt at once, then five of the six tokens


@pytest.mark.gpu
@pytest.mark.parametrize(
    "config", [GreedyConfig(max_length=9), SampleConfig(max_length=9), BeamConfig(size=4, n_best=4)]
)
def test_a_gpu_finds_the_same(config):
    prompts = [[2], [3, 4, 2], [], [4]]
    here = search(HashStepper(vocab=50, seed=3), None, prompts, config, eos=EOS, bos=BOS)
    stepper = HashStepper(vocab=50, seed=3)
    stepper.table = stepper.table.cuda()
    for regroup in (True, False):
        there = search(stepper, None, prompts, config, eos=EOS, bos=BOS, device="cuda", regroup=regroup)
        assert [[h.tokens for h in row] for row in there] == [[h.tokens for h in row] for row in here]


class Recipe(Config):
    search: SearchConfig = GreedyConfig()


def test_settings_in_a_recipe():
    assert resolve(Recipe, {"search": "beam"}, ["search.size=8"]).search == BeamConfig(size=8)
    changed = resolve(Recipe, {"search": {"kind": "beam", "size": 8, "max_length": 9}}, ["search.kind=sample"])
    assert changed.search == SampleConfig(max_length=9)
    with pytest.raises(ConfigError, match=r"search.top_p: expected less than or equal to 1, got 1.5"):
        resolve(Recipe, {"search": {"kind": "sample", "top_p": 1.5}})
    for config in (GreedyConfig(), BeamConfig(), SampleConfig()):
        assert type(config).from_tree(config.tree()) == config


def test_rules_by_hand():
    rules = Constraints(eos=1, forbidden=[0], min_length=2)
    history = torch.zeros(1, 0, dtype=torch.long)
    assert rules.apply(torch.zeros(1, 4), history, 0).isinf().tolist() == [[True, True, False, False]]
    assert rules.apply(torch.zeros(1, 4), history, 2).isinf().tolist() == [[True, False, False, False]]
