"""Reinforcement learning from a reward (GNMT, Wu 2016): sampled translations are scored, better ones become likelier.

Likelihood wants the one reference, token by token. The expected reward wants whatever scores well as a whole:

    O = Σ_x Σ_y p(y | x) r(y) + α log p(reference | x),      ∇ ≈ Σ_x 1/n Σ_y (r(y) − r̄) ∇ log p(y | x)

with n translations y sampled from the model itself, and their mean reward r̄ as the baseline.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field, NonNegativeFloat, PositiveInt
from torch import Tensor, nn

from regard.config import Config
from regard.decode import Hypothesis, SampleConfig, search
from regard.metrics.texts import gleu, sentence_bleu
from regard.nn.layout import Layout, Sequences
from regard.nn.loss import IGNORED
from regard.tasks.contract import as_stepper, evaluation_mode
from regard.text.special_tokens import BOS, EOS, PAD, UNK

Metric = Literal["gleu", "bleu"]
Reward = Callable[[Sequence[int], Sequence[int]], float]


class RewardConfig(Config):
    """Fine-tunes a trained model on the score of what it generates, beside the likelihood of the references."""

    metric: Metric = "gleu"
    """Score of a whole sentence, from 0 to 1, over its tokens: gleu as in GNMT, or smoothed sentence BLEU."""
    samples: PositiveInt = 8
    """Translations sampled for each source sentence; their mean reward is the baseline. GNMT: 15."""
    likelihood: NonNegativeFloat = 0.017
    """Weight of the references' log-likelihood beside the reward (GNMT's α)."""
    max_length: int = Field(100, gt=0)
    """Most tokens of a sampled translation."""

    @property
    def passes(self) -> float:
        """Forward and backward passes over a batch, where sampling counts as one forward pass: a third."""
        return self.samples * 4 / 3 + (1 if self.likelihood else 0)


def expected_reward_loss(
    model: nn.Module, source: Sequences, targets: Int[Tensor, "batch time"], config: RewardConfig
) -> Float[Tensor, ""]:
    """−Σ 1/n Σ (r − r̄) log p, summed over the sentences; its gradient is that of the expected reward."""
    samples = sample_translations(model, source, config)
    references = [[token for token in row if token not in (IGNORED, EOS)] for row in targets.cpu().numpy().tolist()]
    rewards = score_samples(samples, references, config.metric).to(targets.device)
    advantage = rewards - rewards.mean(1, keepdim=True)
    logprobs = sequence_logprobs(
        model, repeat_rows(source, config.samples), [sample for row in samples for sample in row]
    )
    return -(advantage.flatten() * logprobs).sum() / config.samples


@torch.no_grad()
def sample_translations(model: nn.Module, source: Sequences, config: RewardConfig) -> list[list[Hypothesis]]:
    """Translations of each source sentence, sampled without dropout."""
    seed = int(torch.randint(2**31, ()))  # of the step, so that a resumed run samples the same
    settings = SampleConfig(samples=config.samples, max_length=config.max_length, seed=seed)
    with evaluation_mode(model):
        return search(as_stepper(model), source, None, settings, eos=EOS, bos=BOS, pad=PAD, unk=UNK)


def score_samples(
    samples: Sequence[Sequence[Hypothesis]], references: Sequence[Sequence[int]], metric: Metric
) -> Float[Tensor, "sentences samples"]:
    reward = _reward(metric)
    rows = zip(samples, references, strict=True)
    return torch.tensor([[reward(sample.tokens, reference) for sample in row] for row, reference in rows])


def _reward(metric: Metric) -> Reward:
    def bleu_of_ids(hypothesis: Sequence[int], reference: Sequence[int]) -> float:
        ours, theirs = (" ".join(map(str, ids)) for ids in (hypothesis, reference))
        return sentence_bleu(ours, theirs, tokenize="none") / 100

    return gleu if metric == "gleu" else bleu_of_ids


def sequence_logprobs(
    model: nn.Module, source: Sequences, hypotheses: Sequence[Hypothesis]
) -> Float[Tensor, " sequences"]:
    """log p(y | x) of whole sequences, with gradient; the end token counts where it was generated."""
    device = source.tokens.device
    targets = [[*sample.tokens, EOS] if sample.finished else list(sample.tokens) for sample in hypotheses]
    inputs = Sequences.padded([[BOS, *row][: max(1, len(row))] for row in targets], pad=PAD, device=device)
    time = inputs.tokens.shape[1]
    labels = torch.tensor([row + [IGNORED] * (time - len(row)) for row in targets], device=device)
    logprobs = model(source, inputs).float().log_softmax(-1)
    chosen = logprobs.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    return torch.where(labels == IGNORED, 0.0, chosen).sum(1)


def repeat_rows(source: Sequences, times: int) -> Sequences:
    lengths, tokens = source.layout.lengths, source.tokens
    layout = Layout.padded(lengths.repeat_interleave(times), tokens.shape[1])
    return Sequences(tokens.repeat_interleave(times, 0), layout)
