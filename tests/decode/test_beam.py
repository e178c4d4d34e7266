"""Beam search against brute force, against a slow twin, against greedy search, and against itself in other batches."""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from toy_steppers import BOS, EOS, FlatStepper, HashStepper, close, divisor, finished_sequences, slow_beam

from regard.decode import BeamConfig, BeamSearch, GreedyConfig, LengthPenalty, Trace, make_job, score, search
from regard.errors import ConfigError, Failure
from regard.nn.layout import Sequences

seeds = st.integers(0, 10_000)
alphas = st.sampled_from([0.0, 0.3, 0.6, 1.0, 1.7])
formulas = st.sampled_from(["power", "gnmt"])
prompt_lists = st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=1, max_size=5)


def beam_search(stepper, prompts, source=None, *, regroup=True, trace=None, **settings):
    config = BeamConfig(**settings)
    return search(stepper, source, prompts, config, eos=EOS, bos=BOS, regroup=regroup, trace=trace)


@settings(max_examples=12, deadline=None)
@given(
    seed=seeds,
    alpha=alphas,
    formula=formulas,
    longest=st.integers(1, 4),
    n_best=st.integers(1, 4),
    start=st.integers(0, 3),
)
def test_beam_with_a_place_for_every_sequence_is_exhaustive(seed, alpha, formula, longest, n_best, start):
    stepper, prompt = HashStepper(vocab=4, seed=seed), [start]
    scored = [
        (sum(stepper.logprobs([BOS, start], tokens)) / divisor(len(tokens), alpha, formula), tokens)
        for tokens in finished_sequences(4, longest)
    ]
    best = sorted(scored, reverse=True)[:n_best]
    assume(all(a[0] - b[0] > 1e-5 for a, b in zip(best, sorted(scored, reverse=True)[1:], strict=False)))
    [found] = beam_search(
        stepper,
        [prompt],
        size=4**longest,
        n_best=n_best,
        length_penalty=alpha,
        length_formula=formula if alpha else "power",  # without a penalty all formulas are one, and others refused
        max_length=longest,
    )
    ended = [hypothesis for hypothesis in found if hypothesis.finished]
    assert [[*hypothesis.tokens, EOS] for hypothesis in ended] == [tokens for _, tokens in best]
    assert all(close(hypothesis.score, value) for hypothesis, (value, _) in zip(ended, best, strict=True))


@settings(max_examples=12, deadline=None)
@given(
    seed=seeds,
    alpha=alphas,
    formula=formulas,
    size=st.integers(1, 6),
    longest=st.integers(1, 7),
    min_length=st.integers(0, 3),
    prompts=prompt_lists,
    data=st.data(),
)
def test_beam_equals_its_slow_twin(seed, alpha, formula, size, longest, min_length, prompts, data):
    stepper = HashStepper(vocab=5, seed=seed, spread=1.0)
    n_best = data.draw(st.integers(1, size))
    min_length = min(min_length, longest - 1)
    found = beam_search(
        stepper,
        prompts,
        size=size,
        n_best=n_best,
        length_penalty=alpha,
        length_formula=formula if alpha else "power",  # without a penalty all formulas are one, and others refused
        max_length=longest,
        min_length=min_length,
    )
    for prompt, hypotheses in zip(prompts, found, strict=True):
        expected = slow_beam(
            stepper,
            [BOS, *prompt],
            size=size,
            n_best=n_best,
            alpha=alpha,
            formula=formula,
            longest=longest,
            min_length=min_length,
        )
        assert [(h.tokens + [EOS] * h.finished, h.finished) for h in hypotheses] == [(t, e) for t, _, e in expected]
        assert all(close(h.score, value) for h, (_, value, _) in zip(hypotheses, expected, strict=True))


@settings(max_examples=12, deadline=None)
@given(seed=seeds, alpha=alphas, formula=formulas, prompts=prompt_lists, min_length=st.integers(0, 3))
def test_beam_of_one_is_greedy_search(seed, alpha, formula, prompts, min_length):
    stepper = HashStepper(seed=seed)
    [*beam] = beam_search(
        stepper,
        prompts,
        size=1,
        length_penalty=alpha,
        length_formula=formula if alpha else "power",
        max_length=9,
        min_length=min_length,
    )
    greedy = search(stepper, None, prompts, GreedyConfig(max_length=9, min_length=min_length), eos=EOS, bos=BOS)
    assert [(h.tokens, h.token_logprobs, h.finished) for [h] in beam] == [
        (h.tokens, h.token_logprobs, h.finished) for [h] in greedy
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_beam_of_one_is_greedy_search_where_everything_ties(dtype):
    coarse = HashStepper(vocab=40, seed=3, spread=0.01, dtype=dtype)
    coarse.table = coarse.table.mul(100).round().div(100)  # many equal logits
    for stepper in (coarse, FlatStepper(vocab=40)):
        prompts = [[row] for row in range(20)]
        beam = beam_search(stepper, prompts, size=1, max_length=6)
        greedy = search(stepper, None, prompts, GreedyConfig(max_length=6), eos=EOS, bos=BOS)
        assert [h.tokens for [h] in beam] == [h.tokens for [h] in greedy]


class Patient(BeamSearch):
    """Never stops before all places are finished or the limit is reached."""

    def hopeless(self, beam, finished, limits):
        return torch.zeros(len(beam.rows), dtype=torch.bool)


@settings(max_examples=12, deadline=None)
@given(seed=seeds, alpha=alphas, formula=formulas, size=st.integers(1, 6), prompts=prompt_lists, data=st.data())
def test_early_finish_changes_nothing(seed, alpha, formula, size, prompts, data):
    stepper, n_best = HashStepper(seed=seed), data.draw(st.integers(1, size))
    job = make_job(stepper, None, prompts, BeamConfig(max_length=12), eos=EOS, bos=BOS)
    settings = {"size": size, "n_best": n_best, "penalty": LengthPenalty(alpha, formula)}
    quick = BeamSearch(**settings).run(job)
    steps, stepper.batches = len(stepper.batches), []
    assert Patient(**settings).run(job) == quick
    assert steps <= len(stepper.batches)


def test_early_finish_saves_steps():
    stepper = HashStepper(seed=1)
    stepper.table[:, EOS] += 4  # the end is likely everywhere, so the first one found cannot be beaten
    beam_search(stepper, [[2]], size=4, length_penalty=0, max_length=30)
    assert len(stepper.batches) < 5


@settings(max_examples=12, deadline=None)
@given(seed=seeds, size=st.integers(1, 4), prompts=prompt_lists, ngram=st.sampled_from([0, 2]), data=st.data())
def test_neighbours_order_and_regrouping_change_nothing(seed, size, prompts, ngram, data):
    stepper = HashStepper(seed=seed)
    sources = [data.draw(st.lists(st.integers(2, 9), min_size=1, max_size=5)) for _ in prompts]
    settings = {"size": size, "n_best": size, "max_length": 8, "max_length_ratio": 1.0, "max_length_offset": 2}
    settings["no_repeat_ngram"] = ngram
    together = beam_search(stepper, prompts, Sequences.padded(sources), **settings)
    assert together == beam_search(stepper, prompts, Sequences.padded(sources), regroup=False, **settings)
    order = data.draw(st.permutations(range(len(prompts))))
    shuffled = beam_search(
        stepper, [prompts[row] for row in order], Sequences.padded([sources[row] for row in order]), **settings
    )
    assert shuffled == [together[row] for row in order]
    for prompt, source, hypotheses in zip(prompts, sources, together, strict=True):
        assert beam_search(stepper, [prompt], Sequences.padded([source]), **settings) == [hypotheses]


@settings(max_examples=12, deadline=None)
@given(seed=seeds, size=st.integers(1, 5), prompts=prompt_lists)
def test_log_probabilities_are_those_of_the_written_tokens(seed, size, prompts):
    stepper = HashStepper(seed=seed)
    for row, hypotheses in enumerate(beam_search(stepper, prompts, size=size, n_best=size, max_length=6)):
        texts = [hypothesis.tokens for hypothesis in hypotheses]
        assert len({tuple(text) for text in texts}) == len(texts) == size
        for hypothesis in hypotheses:
            eos = EOS if hypothesis.finished else None
            [again] = score(stepper, None, [hypothesis.tokens], eos=eos, bos=BOS, prompts=[prompts[row]])
            assert again == pytest.approx(hypothesis.token_logprobs, abs=1e-5)
            assert close(hypothesis.score, sum(hypothesis.token_logprobs) / len(hypothesis.token_logprobs))


def test_finished_sentences_and_empty_places_leave_the_batch():
    stepper = HashStepper(seed=5)
    beam_search(stepper, [[row] for row in range(5)], size=3, max_length=12)
    assert stepper.batches[0] == 5
    assert max(stepper.batches) <= 15
    assert stepper.batches[-1] < 15
    assert all(later <= earlier for earlier, later in zip(stepper.batches[1:], stepper.batches[2:], strict=False))


def test_cut_hypotheses_come_after_finished_ones():
    stepper = HashStepper(vocab=5, seed=2)
    [found] = beam_search(stepper, [[]], size=4, n_best=4, max_length=2)
    assert [hypothesis.finished for hypothesis in found] == sorted((h.finished for h in found), reverse=True)
    assert not found[-1].finished
    assert len(found[-1].tokens) == 2


@settings(max_examples=12, deadline=None)
@given(seed=seeds, size=st.integers(1, 4), prompts=prompt_lists, regroup=st.booleans())
def test_trace_holds_the_tree_and_changes_nothing(seed, size, prompts, regroup):
    stepper, trace = HashStepper(seed=seed), Trace(top=3)
    settings = {"size": size, "n_best": size, "max_length": 6, "regroup": regroup}
    found = beam_search(stepper, prompts, trace=trace, **settings)
    assert found == beam_search(stepper, prompts, **settings)
    for row, hypotheses in enumerate(found):
        tree = trace.branches[row]
        ends = [place for place, branch in enumerate(tree) if branch.fate == "finished"]
        leaves = {tuple(path(tree, place)) for place in ends}
        assert {(*h.tokens, EOS) for h in hypotheses if h.finished} <= leaves
        for branch in tree:
            before = 0.0 if branch.parent is None else tree[branch.parent].total
            assert close(branch.total, before + branch.logprob)
            assert branch.parent is None or tree[branch.parent].fate == "kept"
            assert branch.step == (0 if branch.parent is None else tree[branch.parent].step + 1)
        assert any(branch.fate == "pruned" for branch in tree)


def path(tree, place):
    tokens = []
    while place is not None:
        tokens.insert(0, tree[place].token)
        place = tree[place].parent
    return tokens


@given(
    total=st.floats(-50, 0),
    more=st.floats(-50, 0),
    lengths=st.tuples(st.integers(1, 300), st.integers(0, 300)),
    alpha=st.floats(0, 3),
    formula=formulas,
)
def test_bound_is_never_passed(total, more, lengths, alpha, formula):
    penalty = LengthPenalty(alpha, formula)
    length, limit = lengths[0], sum(lengths)
    later = torch.tensor(total) + torch.tensor(more)
    assert penalty.score(later, length) <= penalty.bound(torch.tensor(total), torch.tensor(limit))


def test_penalties_are_the_formulas():
    lengths = torch.tensor([1, 7, 13])
    assert LengthPenalty(0.6, "gnmt").divisor(lengths).tolist() == pytest.approx([1, 2**0.6, 3**0.6])
    assert LengthPenalty(0.5, "power").divisor(lengths).tolist() == pytest.approx([1, 7**0.5, 13**0.5])
    assert LengthPenalty(0.0).divisor(lengths).tolist() == [1, 1, 1]


def test_logits_that_are_no_numbers_fail_clearly():
    stepper = HashStepper()
    stepper.table[:] = torch.nan
    for length_penalty in (0, 1):
        with pytest.raises(Failure, match="NaN"):
            beam_search(stepper, [[2], [3]], size=3, length_penalty=length_penalty)


def test_wrong_settings_are_refused():
    with pytest.raises(ConfigError, match=r"n_best: expected at most the beam's size \(3\), got 4"):
        BeamConfig(size=3, n_best=4)
    with pytest.raises(ConfigError, match=r"length_penalty: .*greater than or equal to 0"):
        BeamConfig(length_penalty=-1)
    with pytest.raises(ConfigError, match="min_length: expected less than max_length"):
        BeamConfig(min_length=5, max_length=5)


def test_more_places_than_sequences():
    stepper = HashStepper(vocab=3)
    [found] = beam_search(stepper, [[]], size=50, n_best=50, max_length=3)
    assert sorted(h.tokens for h in found if h.finished) == [[], [2], [2, 2]]
    assert [h.tokens for h in found if not h.finished] == [[2, 2, 2]]


def test_no_rows_no_hypotheses():
    assert beam_search(HashStepper(), []) == []


def test_beam_by_hand():
    job = make_job(HashStepper(seed=4), None, [[2]], BeamConfig(max_length=6), eos=EOS, bos=BOS)
    by_hand = BeamSearch(size=3, n_best=2, penalty=LengthPenalty(0.6, "gnmt")).run(job)
    config = BeamConfig(size=3, n_best=2, length_penalty=0.6, length_formula="gnmt", max_length=6)
    assert by_hand == search(HashStepper(seed=4), None, [[2]], config, eos=EOS, bos=BOS)
