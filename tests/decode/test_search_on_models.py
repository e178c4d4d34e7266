"""The searches on real models: caches, sources and positions behind the same contract."""

import pytest
import torch

from regard.decode import BeamConfig, Ensemble, GreedyConfig, SampleConfig, score, search
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.transformer import DecoderConfig
from regard.nn.layout import Sequences

PAD, BOS, EOS, VOCAB = 0, 1, 2, 30
SOURCES = [[5, 6, 7], [8], [9, 10, 11, 12, 13], [5, 6]]
PROMPTS = [[4], [], [7, 8, 9], [4, 4]]

configs = [
    GreedyConfig(max_length=12),
    BeamConfig(max_length=12, size=4, n_best=4),
    BeamConfig(max_length=12, max_length_ratio=2.0, max_length_offset=2, size=3),
    SampleConfig(max_length=12, samples=2, top_p=0.9),
]


@pytest.fixture(scope="module")
def translator():
    torch.manual_seed(0)
    model = EncoderDecoderConfig(width=16, depth=2, heads=2).build(VOCAB).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 2  # more decided than a fresh model
    return model


def translate(model, rows, config, regroup=True):
    source = Sequences.padded([SOURCES[row] for row in rows])
    prompts = [PROMPTS[row] for row in rows]
    return search(model, source, prompts, config, eos=EOS, bos=BOS, pad=PAD, regroup=regroup)


def tokens(found):
    return [[(hypothesis.tokens, hypothesis.finished) for hypothesis in row] for row in found]


@pytest.mark.parametrize("config", configs, ids=lambda config: config.kind)
def test_a_sentence_alone_or_among_others(translator, config):
    together = tokens(translate(translator, range(4), config))
    assert together == tokens(translate(translator, range(4), config, regroup=False))
    assert together == [tokens(translate(translator, [row], config))[0] for row in range(4)]
    assert tokens(translate(translator, [3, 1, 2, 0], config)) == [together[row] for row in (3, 1, 2, 0)]


@pytest.mark.parametrize("config", configs, ids=lambda config: config.kind)
def test_cached_log_probabilities_are_those_of_one_pass(translator, config):
    for row, hypotheses in enumerate(translate(translator, range(4), config)):
        for found in hypotheses:
            eos = EOS if found.finished else None
            source, prompts = Sequences.padded([SOURCES[row]]), [PROMPTS[row]]
            [again] = score(translator, source, [found.tokens], eos=eos, bos=BOS, prompts=prompts)
            assert again == pytest.approx(found.token_logprobs, abs=1e-4)


def test_a_beam_of_one_is_greedy_and_an_ensemble_of_one_its_member(translator):
    greedy = translate(translator, range(4), GreedyConfig(max_length=12))
    assert tokens(translate(translator, range(4), BeamConfig(max_length=12, size=1))) == tokens(greedy)
    assert translate(Ensemble([translator]), range(4), GreedyConfig(max_length=12)) == greedy


def test_a_language_model_goes_on_from_prompts_of_any_length():
    torch.manual_seed(1)
    model = DecoderConfig(width=16, depth=2, heads=2).build(VOCAB).eval()
    prompts = [[5], [6, 7, 8, 9, 10, 11], [4, 3]]
    for config in (GreedyConfig(max_length=9), SampleConfig(max_length=9), BeamConfig(max_length=9, size=3)):
        together = tokens(search(model, None, prompts, config, eos=None, bos=None))
        alone = [tokens(search(model, None, [prompt], config, eos=None, bos=None))[0] for prompt in prompts]
        assert together == alone
        assert all(len(written) == 9 for [(written, _)] in together)
