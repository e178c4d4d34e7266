"""A small training loop for synthetic tasks: batches are drawn, not read, and nothing is kept but the losses."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

DIVERGED = 20.0
"""A cross-entropy from which no run comes back."""


def learn(
    model: nn.Module, loss_of: Callable[[nn.Module], Tensor], steps: int, lr: float = 3e-3, clip: float = 1.0
) -> list[float]:
    """Trains with AdamW, a short warm-up and a straight fall of the rate; the loss of every step.

    A run whose loss is lost (not a number, or far beyond guessing) ends there: its last loss is repeated.
    """
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    warm = max(1, min(50, steps // 10))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / warm, (steps - step) / max(1, steps - warm))
    )
    model.train()
    losses: list[float] = []
    for _ in range(steps):
        loss = loss_of(model)
        losses.append(loss.item())
        if not losses[-1] < DIVERGED:
            break
        optimiser.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimiser.step()
        schedule.step()
    model.eval()
    last = losses[-1] if losses[-1] < DIVERGED else DIVERGED
    return [min(loss, DIVERGED) if loss == loss else DIVERGED for loss in losses] + [last] * (steps - len(losses))


def smoothed(losses: list[float], window: int = 20) -> list[float]:
    """The mean of the last few losses, at every step."""
    return [sum(part) / len(part) for part in (losses[max(0, i + 1 - window) : i + 1] for i in range(len(losses)))]
