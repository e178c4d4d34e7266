"""Learning from a reward (GNMT, Wu 2016): the model writes, what it wrote is scored, good writing becomes likelier.

Likelihood asks for the one reference, token by token. The expected reward asks for whatever scores well as a whole:

    O = Σ_x Σ_y p(y | x) r(y) + α log p(reference | x),      ∇ ≈ Σ_x 1/n Σ_y (r(y) − r̄) ∇ log p(y | x)

with n translations y drawn from the model itself, and their mean reward r̄ taken off so that better than usual counts.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field, NonNegativeFloat, PositiveInt
from torch import Tensor, nn

from regard.config import Config
from regard.decode import Hypothesis, SampleConfig, search
from regard.nn.layout import Layout, Sequences
from regard.nn.loss import IGNORED
from regard.text.special_tokens import BOS, EOS, PAD, UNK

Metric = Literal["gleu", "bleu"]
Reward = Callable[[Sequence[int], Sequence[int]], float]


class RewardConfig(Config):
    """Fine-tunes a trained model on the score of what it writes, beside the likelihood of the references."""

    metric: Metric = "gleu"
    """Score of a whole sentence, from 0 to 1, over its tokens: gleu as in GNMT, or smoothed sentence BLEU."""
    samples: PositiveInt = 8
    """Translations drawn for each source sentence; their mean is what a good one must exceed. GNMT: 15."""
    likelihood: NonNegativeFloat = 0.017
    """Weight of the references' log-likelihood beside the reward (GNMT's α)."""
    max_length: int = Field(100, gt=0)
    """Most tokens of a translation that is drawn."""

    @property
    def passes(self) -> float:
        """Forward and backward passes over a batch, where drawing counts as one forward pass: a third."""
        return self.samples * 4 / 3 + (1 if self.likelihood else 0)


def expected_reward_loss(
    model: nn.Module, source: Sequences, targets: Int[Tensor, "batch time"], config: RewardConfig
) -> Float[Tensor, ""]:
    """−Σ 1/n Σ (r − r̄) log p, summed over the sentences; its gradient is that of the expected reward."""
    drawn = draw(model, source, config)
    references = [[token for token in row if token not in (IGNORED, EOS)] for row in targets.tolist()]
    rewards = score_samples(drawn, references, config.metric).to(targets.device)
    advantage = rewards - rewards.mean(1, keepdim=True)
    logprobs = sequence_logprobs(model, repeat_rows(source, config.samples), [one for row in drawn for one in row])
    return -(advantage.flatten() * logprobs).sum() / config.samples


@torch.no_grad()
def draw(model: nn.Module, source: Sequences, config: RewardConfig) -> list[list[Hypothesis]]:
    """Translations of each source sentence, drawn from the model as it will be used: without dropout."""
    learning = model.training
    model.eval()
    seed = int(torch.randint(2**31, ()))  # of the step, so that a resumed run draws the same
    settings = SampleConfig(samples=config.samples, max_length=config.max_length, seed=seed)
    try:
        return search(model, source, None, settings, eos=EOS, bos=BOS, pad=PAD, unk=UNK)  # type: ignore[arg-type]
    finally:
        model.train(learning)


def score_samples(
    drawn: Sequence[Sequence[Hypothesis]], references: Sequence[Sequence[int]], metric: Metric
) -> Float[Tensor, "sentences samples"]:
    """The reward of each translation."""
    reward = _reward(metric)
    rows = zip(drawn, references, strict=True)
    return torch.tensor([[reward(one.tokens, reference) for one in row] for row, reference in rows])


def _reward(metric: Metric) -> Reward:
    from regard.metrics import gleu, sentence_bleu  # here, as every run knows this loss and hardly one needs sacrebleu

    def bleu_of_ids(written: Sequence[int], reference: Sequence[int]) -> float:
        spelt = [" ".join(map(str, ids)) for ids in (written, reference)]
        return sentence_bleu(spelt[0], spelt[1], tokenize="none") / 100

    return gleu if metric == "gleu" else bleu_of_ids


def sequence_logprobs(
    model: nn.Module, source: Sequences, written: Sequence[Hypothesis]
) -> Float[Tensor, " sequences"]:
    """log p(y | x) of whole sequences, with gradient; the end token counts where it was written."""
    device = source.tokens.device
    targets = [[*one.tokens, EOS] if one.finished else list(one.tokens) for one in written]
    inputs = Sequences.padded([[BOS, *row][: max(1, len(row))] for row in targets], pad=PAD, device=device)
    time = inputs.tokens.shape[1]
    wanted = torch.tensor([row + [IGNORED] * (time - len(row)) for row in targets], device=device)
    logprobs = model(source, inputs).float().log_softmax(-1)
    chosen = logprobs.gather(-1, wanted.clamp(min=0)[..., None])[..., 0]
    return torch.where(wanted == IGNORED, 0.0, chosen).sum(1)


def repeat_rows(source: Sequences, times: int) -> Sequences:
    """Each padded row several times, one after another."""
    lengths, tokens = source.layout.lengths, source.tokens
    layout = Layout.padded(lengths.repeat_interleave(times), tokens.shape[1])
    return Sequences(tokens.repeat_interleave(times, 0), layout)
