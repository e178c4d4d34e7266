"""How much a run may spend: steps, epochs, minutes, FLOPs or tokens, whichever is reached first."""

from dataclasses import asdict, dataclass
from typing import Any

from pydantic import PositiveFloat, PositiveInt

from regard.config import Config

USUAL_EPOCHS = 10.0


class BudgetConfig(Config):
    """Limits of a run; where several are given, the first one reached ends it, and where none is, ten epochs."""

    steps: PositiveInt | None = None
    """Changes of the weights."""
    epochs: PositiveFloat | None = None
    """Passes over the training data."""
    minutes: PositiveFloat | None = None
    """Time, validation included."""
    flops: PositiveFloat | None = None
    """Floating-point operations of the model's matrix products, forward and backward."""
    tokens: PositiveInt | None = None
    """Tokens seen, padding not counted."""


@dataclass
class Spent:
    """What a run has used so far."""

    steps: int = 0
    epochs: float = 0.0
    seconds: float = 0.0
    flops: float = 0.0
    tokens: int = 0
    skipped: int = 0
    """Batches passed over, as their loss or gradient was not a number."""

    def line(self, split: str, since: "Spent") -> dict[str, Any]:
        """What a line of metrics says of it; speeds are those since another time."""
        seconds = max(1e-9, self.seconds - since.seconds)
        return {
            "step": self.steps,
            "split": split,
            "epoch": round(self.epochs, 4),
            "tokens": self.tokens,
            "flops": self.flops,
            "seconds": self.seconds,
            "tokens_per_second": (self.tokens - since.tokens) / seconds,
            "flops_per_second": (self.flops - since.flops) / seconds,
        }

    @classmethod
    def saved(cls, tree: Any) -> "Spent":  # noqa: ANN401
        """What the state of a checkpoint says of it; nothing where that is no such table."""
        try:
            return cls(**tree)
        except TypeError:
            return cls()

    @property
    def used(self) -> dict[str, float]:
        """By the names of the budget's limits."""
        return {**asdict(self), "minutes": self.seconds / 60}

    def progress(self, budget: BudgetConfig) -> float:
        """Share of the budget that is used: one or more when it is spent."""
        used = self.used
        limits = {name: getattr(budget, name) for name in BudgetConfig.model_fields}
        limits = {name: limit for name, limit in limits.items() if limit is not None} or {"epochs": USUAL_EPOCHS}
        return max(used[name] / limit for name, limit in limits.items())
