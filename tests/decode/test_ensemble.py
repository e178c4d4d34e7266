"""Ensembles: one equals its member, several average, strangers are refused."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_steppers import BOS, EOS, HashStepper

from regard.decode import BeamConfig, Ensemble, GreedyConfig, SampleConfig, score, search
from regard.errors import ConfigError

configs = [
    GreedyConfig(max_length=7),
    BeamConfig(max_length=7, size=3, n_best=3),
    SampleConfig(max_length=7, samples=2),
]


@pytest.mark.parametrize("config", configs, ids=lambda config: config.kind)
@pytest.mark.parametrize("mean", ["probabilities", "logprobs"])
def test_an_ensemble_of_one_is_its_member(config, mean):
    prompts = [[2], [3, 4], []]
    alone = search(HashStepper(seed=7), None, prompts, config, eos=EOS, bos=BOS)
    assert search(Ensemble([HashStepper(seed=7)], mean), None, prompts, config, eos=EOS, bos=BOS) == alone


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), target=st.lists(st.integers(0, 4), max_size=4), count=st.integers(2, 4))
def test_members_are_averaged(seed, target, count):
    members = [HashStepper(seed=seed + number) for number in range(count)]
    each = torch.tensor([score(member, None, [target], eos=EOS, bos=BOS)[0] for member in members]).double()
    [found] = score(Ensemble(members), None, [target], eos=EOS, bos=BOS)
    assert found == pytest.approx(each.exp().mean(0).log().tolist(), abs=1e-4)

    [found] = score(Ensemble(members, "logprobs"), None, [target], eos=EOS, bos=BOS)
    tables = torch.stack([member.table.log_softmax(-1) for member in members]).mean(0).log_softmax(-1)
    whole = [*target, EOS]
    contexts = [members[0].hashed([BOS, *whole[:place]]) for place in range(len(whole))]
    assert found == pytest.approx([float(tables[c, t]) for c, t in zip(contexts, whole, strict=True)], abs=1e-4)


@pytest.mark.parametrize("config", configs, ids=lambda config: config.kind)
def test_states_of_all_members_are_reordered(config):
    members = [HashStepper(seed=number) for number in range(3)]
    for row, hypotheses in enumerate(search(Ensemble(members), None, [[2], [3]], config, eos=EOS, bos=BOS)):
        for hypothesis in hypotheses:
            eos = EOS if hypothesis.finished else None
            [again] = score(Ensemble(members), None, [hypothesis.tokens], eos=eos, bos=BOS, prompts=[[2 + row]])
            assert again == pytest.approx(hypothesis.token_logprobs, abs=1e-4)


def test_equal_members_change_nothing():
    config = BeamConfig(max_length=7, size=3, n_best=3)
    alone = search(HashStepper(seed=7), None, [[2]], config, eos=EOS, bos=BOS)
    twins = Ensemble([HashStepper(seed=7), HashStepper(seed=7)])
    together = search(twins, None, [[2]], config, eos=EOS, bos=BOS)
    assert [h.tokens for h in together[0]] == [h.tokens for h in alone[0]]


def test_strangers_are_refused():
    members = [HashStepper(vocab=5), HashStepper(vocab=8)]
    with pytest.raises(ConfigError, match=r"model 2 has 8 tokens and model 1 has 5; .* same tokenizer"):
        search(Ensemble(members), None, [[2]], GreedyConfig(), eos=EOS, bos=BOS)
    with pytest.raises(ConfigError, match="expected at least one model"):
        Ensemble([])
