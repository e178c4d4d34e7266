"""Each recurrent kind learns a tiny task, experts come into balance, and every search runs on every stepper."""

import pytest
import torch
import torch.nn.functional as F
from recurrent_kinds import DECODERS, EXPERTS, TRANSLATORS
from torch import nn

from regard.decode import BeamConfig, Ensemble, GreedyConfig, SampleConfig, score, search
from regard.models.recurrent import (
    DeepAttConfig,
    GnmtConfig,
    RecurrentDecoderConfig,
    RecurrentEncoderConfig,
    Seq2SeqConfig,
)
from regard.nn.experts import Experts, balance_loss
from regard.nn.layout import Sequences

PAD, BOS, EOS, VOCAB = 0, 1, 2, 12
SOURCES = [[3, 4, 5, EOS], [6, 7, EOS], [8, 9, 10, 11, EOS], [5, 5, EOS]]
COPIES = [[BOS, *source] for source in SOURCES]
LEARNERS = {
    "sentence-vector": Seq2SeqConfig(width=32, depth=1, attention="none", dropout=0.0),
    "dot": Seq2SeqConfig(width=32, depth=1, dropout=0.0),
    "gru-additive": Seq2SeqConfig(width=32, depth=2, cell="gru", attention="additive", dropout=0.0),
    "rnn-general": Seq2SeqConfig(width=32, depth=1, cell="rnn", attention="general", dropout=0.0),
    "gnmt": GnmtConfig(width=32, depth=3, dropout=0.0),
    "gnmt-experts": GnmtConfig(width=32, depth=3, decoder_depth=2, dropout=0.0, experts=EXPERTS),
    "deep-att": DeepAttConfig(width=32, depth=3, decoder_depth=2, dropout=0.0),
}
CAREFUL = {"deep-att": 0.005}
"""Learning rates of kinds that want a small one."""


def trained(
    model: nn.Module, inputs: tuple, targets: torch.Tensor, steps: int, lr: float = 0.02
) -> tuple[float, float]:
    """First and last loss of a few steps on one batch."""
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(model(*inputs).flatten(0, -2), targets.flatten(), ignore_index=-100)
        extra = balance_loss(model)
        (loss if extra is None else loss + extra).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    return losses[0], losses[-1]


def following(rows: list[list[int]]) -> torch.Tensor:
    return Sequences.padded([row[1:] for row in rows], pad=-100).tokens


@pytest.fixture(scope="module", params=LEARNERS)
def learner(request):
    torch.manual_seed(0)
    model = LEARNERS[request.param].build(VOCAB)
    inputs = (Sequences.padded(SOURCES), Sequences.padded([row[:-1] for row in COPIES]))
    first, last = trained(model, inputs, following(COPIES), steps=60, lr=CAREFUL.get(request.param, 0.02))
    assert last < 0.1 * first, f"{request.param}: {first:.3f} → {last:.3f}"
    return model.eval()


def written(found) -> list[list[list[int]]]:
    return [[list(hypothesis.tokens) for hypothesis in row] for row in found]


def test_what_was_learnt_is_written_by_every_search(learner):
    """The copies come out, alone or among others, greedily or by beam, as alone so in an ensemble."""
    source, around = Sequences.padded(SOURCES), {"eos": EOS, "bos": BOS, "pad": PAD}
    greedy = search(learner, source, None, GreedyConfig(max_length=8), **around)
    assert [row[0].tokens for row in greedy] == [row[:-1] for row in SOURCES]
    for config in (BeamConfig(max_length=8, size=1), BeamConfig(max_length=8, size=3)):
        assert written(search(learner, source, None, config, **around)) == written(greedy)
    together = search(Ensemble([learner, learner]), source, None, GreedyConfig(max_length=8), **around)
    assert written(together) == written(greedy)
    alone = [search(learner, Sequences.padded([row]), None, GreedyConfig(max_length=8), **around)[0] for row in SOURCES]
    assert written(alone) == written(greedy)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_searches_on_undecided_translators(name: str):
    torch.manual_seed(1)
    model = TRANSLATORS[name].build(VOCAB).eval()
    around = {"eos": EOS, "bos": BOS, "pad": PAD}
    prompts = [[4], [], [7, 8, 9], [4, 4]]
    for config in (GreedyConfig(max_length=6), BeamConfig(max_length=6, size=3, n_best=3), SampleConfig(max_length=6)):
        found = search(model, Sequences.padded(SOURCES), prompts, config, **around)
        again = search(model, Sequences.padded(SOURCES), prompts, config, **around, regroup=False)
        assert written(found) == written(again)
        for row, hypotheses in enumerate(found):
            end = EOS if hypotheses[0].finished else None
            [logprobs] = score(
                model,
                Sequences.padded([SOURCES[row]]),
                [hypotheses[0].tokens],
                eos=end,
                bos=BOS,
                prompts=[prompts[row]],
            )
            assert logprobs == pytest.approx(hypotheses[0].token_logprobs, abs=1e-4)
    greedy = search(model, Sequences.padded(SOURCES), prompts, GreedyConfig(max_length=6), **around)
    assert written(
        search(model, Sequences.padded(SOURCES), prompts, BeamConfig(max_length=6, size=1), **around)
    ) == written(greedy)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_a_language_model_learns_by_heart_and_goes_on(cell: str):
    torch.manual_seed(0)
    model = RecurrentDecoderConfig(width=32, cell=cell, dropout=0.0).build(VOCAB)
    first, last = trained(model, (Sequences.padded([row[:-1] for row in COPIES]),), following(COPIES), steps=60)
    assert last < 0.35 * first  # which of four sentences it will be cannot be known from the begin token
    model.eval()
    prompts = [row[:1] for row in SOURCES[:3]]
    found = search(model, None, prompts, GreedyConfig(max_length=8), eos=EOS, bos=BOS)
    assert [row[0].tokens for row in found] == [row[1:-1] for row in SOURCES[:3]]


@pytest.mark.parametrize("name", DECODERS)
def test_searches_on_undecided_language_models(name: str):
    torch.manual_seed(1)
    model, prompts = DECODERS[name].build(VOCAB).eval(), [[5], [], [7, 8, 9, 4]]
    greedy = search(model, None, prompts, GreedyConfig(max_length=5), eos=EOS, bos=BOS)
    assert written(search(model, None, prompts, BeamConfig(max_length=5, size=1), eos=EOS, bos=BOS)) == written(greedy)
    for config in (GreedyConfig(max_length=5), BeamConfig(max_length=5, size=3)):
        together = search(model, None, prompts, config, eos=None, bos=BOS)
        alone = [search(model, None, [prompt], config, eos=None, bos=BOS)[0] for prompt in prompts]
        assert written(together) == written(alone)


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_an_encoder_learns_classes(pooling: str):
    """Whether a 3 comes before a 4: nothing but order tells."""
    torch.manual_seed(0)
    texts = [[3, 5, 4], [4, 5, 3], [5, 3, 6, 6, 4], [6, 4, 5, 3], [3, 4], [4, 3]]
    model = RecurrentEncoderConfig(width=16, dropout=0.0, head={"kind": "pooled", "pooling": pooling}).build(VOCAB, 2)
    first, last = trained(model, (Sequences.padded(texts),), torch.tensor([0, 1, 0, 1, 0, 1]), steps=50)
    assert last < 0.1 * first


def test_experts_come_into_balance_while_training():
    torch.manual_seed(0)
    config = RecurrentDecoderConfig(width=16, dropout=0.0, experts=EXPERTS)
    model = config.build(VOCAB)
    [experts] = [part for part in model.modules() if isinstance(part, Experts)]
    text, seen = torch.randint(3, VOCAB, (8, 12)), []

    def unbalanced() -> float:
        torch.manual_seed(5)
        model(Sequences.full(text))
        return balance_loss(model).item()

    hook = experts.register_forward_pre_hook(lambda part, given: seen.append(given[0].detach().mean((0, 1))))
    unbalanced()
    hook.remove()
    with torch.no_grad():  # a start at which all tokens like the same two experts
        experts.router.weight[:2] = 3 * seen[0] / seen[0].square().sum()

    before = unbalanced()
    trained(model, (Sequences.full(text[:, :-1]),), text[:, 1:], steps=40)
    assert unbalanced() < 0.5 * before
