"""Learning from a reward: what is drawn, scored and made likelier."""

import pytest
import torch

from regard.decode import Hypothesis
from regard.models import EncoderDecoderConfig
from regard.nn.layout import Sequences
from regard.nn.loss import IGNORED
from regard.tasks.reward import (
    RewardConfig,
    expected_reward_loss,
    repeat_rows,
    sample_translations,
    score_samples,
    sequence_logprobs,
)
from regard.text.special_tokens import BOS, EOS

VOCAB = 12
SOURCES = [[5, 6, EOS], [7, EOS], [8, 9, 10, EOS]]


@pytest.fixture
def model():
    torch.manual_seed(3)
    return EncoderDecoderConfig(width=16, depth=1, heads=2, dropout=0.0).build(VOCAB)


def written(tokens: list[int], finished: bool = True) -> Hypothesis:
    return Hypothesis(tokens, 0.0, [], finished)


def test_logprobs_are_those_of_the_search(model):
    source = Sequences.padded(SOURCES)
    drawn = sample_translations(model.eval(), source, RewardConfig(samples=3, max_length=6))
    flat = [one for row in drawn for one in row]
    logprobs = sequence_logprobs(model, repeat_rows(source, 3), flat)
    torch.testing.assert_close(logprobs, torch.tensor([sum(one.token_logprobs) for one in flat]), atol=1e-4, rtol=1e-4)


def test_the_end_token_counts_only_where_it_was_written(model):
    source = Sequences.padded(SOURCES[:1])
    cut, whole = sequence_logprobs(model, repeat_rows(source, 2), [written([5, 6], False), written([5, 6])])
    logprobs = model(source, Sequences.padded([[BOS, 5, 6]])).log_softmax(-1)
    torch.testing.assert_close(whole - cut, logprobs[0, 2, EOS])


def test_rewards_lie_between_nothing_and_everything():
    drawn = [[written([5, 6, 7, 8]), written([9, 9]), written([5, 6, 7])]]
    for metric in ("gleu", "bleu"):
        same, none, part = score_samples(drawn, [[5, 6, 7, 8]], metric)[0].tolist()
        assert same == pytest.approx(1)
        assert none < part < 1


def test_the_gradient_is_that_of_the_expected_reward(model):
    """With every translation of one token drawn often enough, the estimate points where the exact gradient does."""
    source, targets = Sequences.padded([[5, EOS]]), torch.tensor([[7, EOS]])
    config = RewardConfig(samples=4000, max_length=1, likelihood=0.0)
    torch.manual_seed(0)
    expected_reward_loss(model, source, targets, config).backward()
    estimate = torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])
    model.zero_grad()
    first = model(source, Sequences.padded([[BOS]]))[0, 0]
    first[[BOS, 0]] = -torch.inf  # what a search never writes
    rewards = score_samples([[written([token]) for token in range(VOCAB)]], [[7]], "gleu")[0]
    rewards[EOS] = 0.0
    (-(first.softmax(-1) * rewards).sum()).backward()
    exact = torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])
    assert torch.cosine_similarity(estimate, exact, dim=0) > 0.9


def test_training_on_a_reward_raises_it(model):
    source = Sequences.padded(SOURCES)
    targets = torch.tensor([[5, 6, EOS, IGNORED], [7, EOS, IGNORED, IGNORED], [8, 9, 10, EOS]])
    references = [[5, 6], [7], [8, 9, 10]]
    config = RewardConfig(samples=16, max_length=5, likelihood=0.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)

    def mean_reward() -> float:
        torch.manual_seed(9)
        drawn = sample_translations(model, source, RewardConfig(samples=100, max_length=5))
        return float(score_samples(drawn, references, "gleu").mean())

    before = mean_reward()
    for step in range(40):
        torch.manual_seed(step)
        optimiser.zero_grad()
        expected_reward_loss(model, source, targets, config).backward()
        optimiser.step()
    assert mean_reward() > before + 0.2
