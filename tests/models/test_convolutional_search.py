"""Convolutional models at work: the searches run on each of them, and each learns a few sentences by heart."""

import pytest
import torch

from regard.decode import BeamConfig, Ensemble, GreedyConfig, SampleConfig, score, search
from regard.models.convolutional import ByteNetConfig, ConvS2SConfig, WindowDecoderConfig, WindowEncoderConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.stepper import Stepper
from regard.nn.layout import Sequences
from regard.nn.loss import IGNORED

PAD, BOS, EOS, VOCAB = 0, 1, 2, 30
SOURCES = [[5, 6, 7], [8], [9, 10, 11, 12, 13], [5, 6]]
PROMPTS = [[4], [], [7, 8, 9], [4, 4]]
KINDS = {
    "bytenet": ByteNetConfig(width=16, depth=3, dilation=2, dropout=0.0),
    "convs2s": ConvS2SConfig(width=16, depth=3, dropout=0.0),
}
SEARCHES = [
    GreedyConfig(max_length=12),
    BeamConfig(max_length=12, size=4, n_best=4),
    BeamConfig(max_length=12, max_length_ratio=2.0, max_length_offset=2, size=3),
    SampleConfig(max_length=12, samples=2, top_p=0.9),
]


@pytest.fixture(scope="module", params=KINDS)
def translator(request):
    torch.manual_seed(0)
    model = KINDS[request.param].build(VOCAB).eval()
    with torch.no_grad():
        model.head.linear.weight *= 4  # more decided than a fresh model
    assert isinstance(model, Stepper)
    return model


def translate(model, rows, config, regroup=True):
    source = Sequences.padded([SOURCES[row] for row in rows])
    prompts = [PROMPTS[row] for row in rows]
    return search(model, source, prompts, config, eos=EOS, bos=BOS, pad=PAD, regroup=regroup)


def tokens(found):
    return [[(hypothesis.tokens, hypothesis.finished) for hypothesis in row] for row in found]


@pytest.mark.parametrize("config", SEARCHES, ids=lambda config: config.kind)
def test_a_sentence_alone_or_among_others(translator, config):
    together = tokens(translate(translator, range(4), config))
    assert together == tokens(translate(translator, range(4), config, regroup=False))
    assert together == [tokens(translate(translator, [row], config))[0] for row in range(4)]
    assert tokens(translate(translator, [3, 1, 2, 0], config)) == [together[row] for row in (3, 1, 2, 0)]


@pytest.mark.parametrize("config", SEARCHES[:2], ids=lambda config: config.kind)
def test_log_probabilities_of_a_search_are_those_of_one_pass(translator, config):
    for row, hypotheses in enumerate(translate(translator, range(4), config)):
        for found in hypotheses:
            eos = EOS if found.finished else None
            source, prompts = Sequences.padded([SOURCES[row]]), [PROMPTS[row]]
            [again] = score(translator, source, [found.tokens], eos=eos, bos=BOS, prompts=prompts)
            assert again == pytest.approx(found.token_logprobs, abs=1e-4)


def test_a_beam_of_one_is_greedy(translator):
    greedy = translate(translator, range(4), GreedyConfig(max_length=12))
    assert tokens(translate(translator, range(4), BeamConfig(max_length=12, size=1))) == tokens(greedy)


def test_an_ensemble_of_different_kinds():
    torch.manual_seed(0)
    transformer = EncoderDecoderConfig(width=16, depth=1, heads=2).build(VOCAB).eval()
    members = [transformer, *(config.build(VOCAB).eval() for config in KINDS.values())]
    found = translate(Ensemble(members), range(4), BeamConfig(max_length=6, size=3))
    alone = translate(Ensemble(members), [2], BeamConfig(max_length=6, size=3))[0]
    assert tokens([found[2]]) == tokens([alone])
    for one, other in zip(found[2], alone, strict=True):
        assert one.token_logprobs == pytest.approx(other.token_logprobs, abs=1e-5)


def test_a_language_model_goes_on_from_prompts_of_any_length():
    torch.manual_seed(1)
    model = WindowDecoderConfig(width=16, depth=3, kernel=3, dilation=2).build(VOCAB).eval()
    assert isinstance(model, Stepper)
    prompts = [[5], [6, 7, 8, 9, 10, 11], [4, 3]]
    found = {}
    for config in (*SEARCHES[:2], BeamConfig(max_length=12, size=1), SampleConfig(max_length=12)):
        together = tokens(search(model, None, prompts, config, eos=None, bos=None))
        alone = [tokens(search(model, None, [prompt], config, eos=None, bos=None))[0] for prompt in prompts]
        assert together == alone
        found[config.kind, getattr(config, "size", 0)] = together
    assert found["beam", 1] == found["greedy", 0]


def fit(model, loss, steps: int) -> None:
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    model.train()
    for _ in range(steps):
        optimiser.zero_grad()
        value = loss()
        value.backward()
        optimiser.step()
    model.eval()
    assert float(value.detach()) < 0.1


PAIRS = [
    ([5, 6, 7, EOS], [11, 13]),
    ([8, EOS], [14, 15, 16, 17, 18, 19]),
    ([9, 5, 9, 6, EOS], [16, 12]),
    ([7, EOS], []),
]


@pytest.mark.parametrize("name", KINDS)
def test_a_translator_learns_a_few_pairs_by_heart(name: str):
    torch.manual_seed(0)
    model = KINDS[name].build(VOCAB)
    source = Sequences.padded([source for source, _ in PAIRS])
    written = Sequences.padded([[BOS, *target] for _, target in PAIRS])
    longest = written.tokens.shape[1]
    targets = torch.tensor([[*target, EOS, *[IGNORED] * (longest - len(target) - 1)] for _, target in PAIRS])
    count = int((targets != IGNORED).sum())
    fit(model, lambda: model.head.loss(model.hidden(source, written), targets) / count, steps=100)
    found = search(model, source, None, BeamConfig(max_length=9, size=3), eos=EOS, bos=BOS, pad=PAD)
    assert [hypotheses[0].tokens for hypotheses in found] == [target for _, target in PAIRS]


def test_a_window_learns_a_text_by_heart():
    torch.manual_seed(0)
    text = torch.tensor([[3, 4, 5, 3, 6, 7, 3, 4, 8, 9, 3, 10]])
    model = WindowDecoderConfig(width=16, depth=2, kernel=3, dropout=0.0).build(VOCAB)
    inputs, targets = Sequences.full(text[:, :-1]), text[:, 1:]
    fit(model, lambda: model.head.loss(model.hidden(inputs), targets) / targets.numel(), steps=80)
    [[found]] = search(model, None, [[3, 4]], GreedyConfig(max_length=10), eos=None, bos=None)
    assert found.tokens == text[0, 2:].tolist()


def test_a_window_tells_classes_apart():
    """Which of two words stands first, wherever they stand: no bag of words could tell."""
    texts = [[0] * before + pair + [0] * after for before in (1, 3) for after in (0, 2) for pair in ([5, 6], [6, 5])]
    labels = torch.tensor([0, 1] * 4)
    torch.manual_seed(0)
    model = WindowEncoderConfig(width=16, depth=2, kernel=3, dropout=0.0).build(VOCAB, classes=2)
    sequences = Sequences.padded(texts, pad=PAD)
    fit(model, lambda: torch.nn.functional.cross_entropy(model(sequences), labels), steps=60)
    assert model(sequences).argmax(-1).tolist() == labels.tolist()
