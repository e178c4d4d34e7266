"""Averages of weights: a moving one kept during training, and the mean of several checkpoints after it.

Both are summed in float32 at least, whatever the weights are, and given back in the weights' own type.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.config import Config
from regard.errors import RunError
from regard.train.parallel.state import copy_full, local_part


class MovingAverageConfig(Config):
    """An exponential moving average of the weights, to be used in their place."""

    decay: Annotated[float, Field(gt=0, lt=1)] = 0.999
    """Share of the average that each step keeps; it reaches back about 1/(1 − decay) steps."""
    warmup: bool = True
    """Keep less at first, min(decay, (1 + n)/(10 + n)) after n steps, so that the random start soon counts little."""

    def build(self, model: nn.Module) -> "MovingAverage":
        """The average of this model's weights, starting from what they are."""
        return MovingAverage(model, self.decay, self.warmup)


class MovingAverage:
    """ā ← d·ā + (1 − d)·θ after every step, d = decay or, while warming up, (1 + n)/(10 + n)."""

    def __init__(self, model: nn.Module, decay: float = 0.999, warmup: bool = True) -> None:
        self.model, self.decay, self.warmup = model, decay, warmup
        self.updates = 0
        self._parameters = dict(model.named_parameters())
        self._averages = {name: p.detach().to(_wide(p), copy=True) for name, p in self._parameters.items()}

    @property
    def next_weight(self) -> float:
        """What the weights count for in the next update: 1 − d."""
        early = (1 + self.updates) / (10 + self.updates)
        return 1 - (min(self.decay, early) if self.warmup else self.decay)

    @torch.no_grad()
    def update(self) -> None:
        """Takes in the weights as they are now."""
        averages = [local_part(average) for average in self._averages.values()]
        weights = [local_part(p).to(_wide(p)) for p in self._parameters.values()]
        torch._foreach_lerp_(averages, weights, self.next_weight)  # type: ignore[attr-defined]
        self.updates += 1

    @torch.no_grad()
    def update_on_device(self, weight: Tensor) -> None:
        """The same with `next_weight` as a tensor there; whoever launches this counts `updates`."""
        averages = list(self._averages.values())
        weights = [p.to(_wide(p)) for p in self._parameters.values()]
        changes = list(torch._foreach_sub(weights, averages))  # type: ignore[attr-defined]
        torch._foreach_mul_(changes, weight)  # type: ignore[attr-defined]
        torch._foreach_add_(averages, changes)  # type: ignore[attr-defined]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within it, the model has the averaged weights; after it, the trained ones, to the bit."""
        before = {name: p.detach().clone() for name, p in self._parameters.items()}
        self._set(self._averages)
        try:
            yield
        finally:
            self._set(before)

    @torch.no_grad()
    def _set(self, weights: Mapping[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            parameter.copy_(weights[name])

    def weights(self) -> dict[str, Tensor]:
        """The model's state with the averages in place of its weights, each in its own type; copies."""
        with self.in_place():
            return {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def tensors(self) -> dict[str, Tensor]:
        """The averages by parameter names; live tensors, which the next update changes."""
        return dict(self._averages)

    def scalars(self) -> dict[str, Any]:
        """The rest of the state, fit for JSON."""
        return {"updates": self.updates}

    def restore(self, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> None:
        """Puts back what `tensors` and `scalars` gave, exactly; copies."""
        _same_names("the saved average", self._averages, tensors)
        for name, average in self._averages.items():
            _same_shape("the saved average", name, average, tensors[name])
            copy_full(average, tensors[name])
        self.updates = int(scalars["updates"])


def average(states: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several states of one model, read one after the other; integer tensors are those of the last."""
    count, total, state = 0, dict[str, Tensor](), dict[str, Tensor]()
    for count, following in enumerate(states, start=1):
        if count == 1:
            total = {name: value.to(_wide(value), copy=True) for name, value in following.items() if _is_real(value)}
        else:
            _same_names(f"state {count}", state, following)
            _add(total, following, f"state {count}")
        state = dict(following)
    if not count:
        raise RunError("there is no checkpoint to average")
    return {name: (total[name] / count).to(value.dtype) if name in total else value for name, value in state.items()}


def _add(total: dict[str, Tensor], state: Mapping[str, Tensor], what: str) -> None:
    for name, summed in total.items():
        _same_shape(what, name, summed, state[name])
        summed.add_(state[name])


def _wide(value: Tensor) -> torch.dtype:
    return torch.promote_types(value.dtype, torch.float32)


def _is_real(value: Tensor) -> bool:
    return value.is_floating_point()


def _same_names(what: str, expected: Iterable[str], got: Iterable[str]) -> None:
    missing, unknown = sorted(set(expected) - set(got)), sorted(set(got) - set(expected))
    if missing:
        raise RunError(f"{what} lacks '{missing[0]}'; was it made by another model?")
    if unknown:
        raise RunError(f"{what} has '{unknown[0]}' too, which is not expected; was it made by another model?")


def _same_shape(what: str, name: str, expected: Tensor, got: Tensor) -> None:
    if expected.shape != got.shape:
        raise RunError(f"{what}, '{name}': expected {tuple(expected.shape)}, got {tuple(got.shape)}")
