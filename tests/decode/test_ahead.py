"""Running ahead of what is read changes neither text nor probabilities, and never feeds more than there is room for."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toy_steppers import BOS, EOS, HashStepper

from regard.decode import Ensemble, GreedyConfig, SampleConfig, make_job
from regard.decode.steppers import choose_backend, with_backends
from regard.models.stepper import PrefixDecoder
from regard.models.transformer import DecoderConfig

rows = st.lists(st.lists(st.integers(2, 4), max_size=4), min_size=1, max_size=6)
searches = st.sampled_from(
    [GreedyConfig(max_length=7), SampleConfig(max_length=7, samples=2), SampleConfig(max_length=5, top_k=3)]
)


@given(seed=st.integers(0, 99), prompts=rows, config=searches, regroup=st.booleans())
def test_running_ahead_changes_nothing(seed, prompts, config, regroup):
    job = make_job(HashStepper(seed=seed), None, prompts, config, eos=EOS, bos=BOS, regroup=regroup)
    assert not job.ahead
    assert config.build().run(replace(job, ahead=True)) == config.build().run(job)


def test_the_cache_has_room_for_what_is_fed_ahead():
    torch.manual_seed(0)
    model = DecoderConfig.from_tree({"width": 16, "depth": 1, "heads": 2, "position": {"kind": "learned", "length": 8}})
    job = make_job(model.build(12).eval(), None, [[3, 4], [5]], GreedyConfig(max_length=7), eos=None, bos=None)
    assert job.capacity == 8  # all that the positions reach: one token more would be refused
    found = GreedyConfig(max_length=7).build().run(replace(job, ahead=True))
    assert [len(hypothesis.tokens) for [hypothesis] in found] == [7, 7]


def test_on_a_cpu_the_model_itself_is_the_quickest():
    model = HashStepper(seed=1)
    chosen = choose_backend(model, torch.device("cpu"))
    assert chosen.stepper is model
    assert not chosen.reason


def test_a_model_without_a_fixed_step_says_so_on_a_gpu():
    chosen = choose_backend(HashStepper(seed=1), torch.device("cuda"))
    assert isinstance(chosen.stepper, HashStepper)
    assert "HashStepper" in chosen.reason


@pytest.mark.parametrize("mean", ["probabilities", "logprobs"])
def test_quick_steppers_take_their_models_places(mean):
    one, other, quick = HashStepper(seed=1), HashStepper(seed=2), HashStepper(seed=3)
    table = {id(one): quick}
    assert with_backends(one, table) is quick
    assert with_backends(other, table) is other
    together = with_backends(Ensemble([one, other], mean), table)
    assert together.members == [quick, other]
    assert together.mean == mean
    behind = with_backends(PrefixDecoder(one, begin=1, separator=2), table)
    assert (behind.decoder, behind.begin, behind.separator) == (quick, 1, 2)
