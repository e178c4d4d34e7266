"""The CPU's decoding step equals the model's own, for all kinds that have it; the others are recognised."""

import pytest
import torch
from test_cuda_graph import (
    BOS,
    EOS,
    KINDS,
    PAD,
    SEARCHES,
    SOURCES,
    name,
    same_steps,
    same_steps_with_a_source,
    tokens_of,
    translator,
    writer,
)

from regard.decode import search
from regard.decode.steppers import choose_backend
from regard.models import Stepper
from regard.models.decoding.cpu import CPUDecoder, cpu_obstacle
from regard.nn.layout import Sequences

CPU = torch.device("cpu")
SPECIAL = ("alibi", "t5", "relative", "narrow", "full-False-False")
SHORT = [kinds for kinds in KINDS if not cpu_obstacle(writer(**kinds))]
LONG = [kinds for kinds in KINDS if cpu_obstacle(writer(**kinds))]


def test_most_kinds_have_it():
    found = {name(kinds) for kinds in LONG}
    assert found == {name(kinds) for kinds in KINDS if any(word in name(kinds) for word in SPECIAL)}
    assert len(SHORT) >= 9


@pytest.mark.parametrize("kinds", SHORT, ids=name)
@pytest.mark.parametrize("ragged", [False, True], ids=["even", "ragged"])
def test_equal_to_the_models_own_step(kinds, ragged):
    same_steps(kinds, ragged, CPUDecoder)


@pytest.mark.parametrize("kinds", SHORT, ids=name)
def test_equal_to_the_models_own_step_with_a_source(kinds):
    same_steps_with_a_source(kinds, CPUDecoder)


@pytest.mark.parametrize("config", SEARCHES, ids=lambda config: config.kind)
def test_the_same_text(config):
    model, source = translator(position="rotary"), Sequences.padded(SOURCES)
    own, other = (search(one, source, None, config, eos=EOS, bos=BOS, pad=PAD) for one in (model, CPUDecoder(model)))
    assert tokens_of(own) == tokens_of(other)
    model, prompts = writer(position="learned"), [[4], [5, 6, 7], [7, 8, 9], [4, 4]]
    own, other = (search(one, None, prompts, config, eos=EOS, bos=BOS) for one in (model, CPUDecoder(model)))
    assert tokens_of(own) == tokens_of(other)


def test_a_cpu_takes_it_where_it_can():
    assert isinstance(choose_backend(writer(position="rotary"), CPU).stepper, CPUDecoder)
    assert isinstance(CPUDecoder(writer(position="rotary")), Stepper)
    model = writer(position="alibi")
    assert choose_backend(model, CPU).stepper is model
    with pytest.raises(TypeError, match="its positions act on the scores"):
        CPUDecoder(model)
