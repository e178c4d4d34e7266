"""One pass through a model with everything laid open: each attention's steps, and the vectors they were made from.

Works on any model, however it was trained, because the recorded pass is computed by the reference. Where keys are
projected or compressed, and in baselines that score in other ways, weights and scores are laid open, but no vectors.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import ConfigError, nearest
from regard.nn.attention.module import Attention
from regard.nn.attention.reference import AttentionSteps, record_attention

Off = Iterable[tuple[str, int]]
"""Heads by their module's name and number."""
Silent = tuple[int | slice, int]
"""Rows of a batch, and the head that says nothing there."""


@dataclass(frozen=True)
class Part:
    """What one attention did: weights and scores of one sentence, a matrix for each head."""

    name: str
    module: nn.Module
    steps: AttentionSteps
    vectors: dict[str, Tensor]
    """Queries, keys and values (heads, time, head width) as they entered the products; empty where there are none."""

    @property
    def weights(self) -> Tensor:
        """(heads, queries, keys)."""
        return self.steps.weights[0]

    @property
    def allowed(self) -> Tensor:
        """Which pairs may attend."""
        return self.steps.masked[0] > -torch.inf

    @property
    def scale(self) -> float:
        """What scores are multiplied with."""
        return float(getattr(self.module, "scale", 1.0))


@torch.no_grad()
def replay(model: nn.Module, arguments: tuple[Any, ...]) -> tuple[Tensor, list[Part]]:
    """The model's scores for these arguments, and each attention's part in them, in the order of the modules."""
    with record_attention(model) as seen, _vectors(model) as caught:
        scores = model(*arguments)
    modules = dict(model.named_modules())
    return scores, [_part(name, modules[name], steps, caught.get(name, {})) for name, steps in seen.items() if steps]


def _part(name: str, module: nn.Module, recorded: list[AttentionSteps], caught: dict[str, list[Tensor]]) -> Part:
    steps = joined(recorded)
    if len(caught) < 3 or not isinstance(module, Attention):
        return Part(name, module, steps, {})
    vectors = {kind: torch.cat(found, dim=2) for kind, found in caught.items()}
    if not is_cross(name):
        for kind in ("query", "key"):
            places = torch.arange(vectors[kind].shape[2], device=vectors[kind].device)[None]
            vectors[kind] = module.position.rotate(vectors[kind], places)
    heads = steps.weights.shape[1]
    entered = {kind: _all_heads(x, heads) for kind, x in vectors.items()}
    return Part(name, module, steps, entered if _made(entered, steps) else {})


def _made(vectors: dict[str, Tensor], steps: AttentionSteps) -> bool:
    """Whether the products of these vectors are the recorded scores: not where keys are projected or compressed."""
    products = vectors["query"] @ vectors["key"].transpose(1, 2)
    return products.shape == steps.scores.shape[1:] and torch.allclose(products, steps.scores[0], rtol=1e-3, atol=1e-3)


def _all_heads(x: Tensor, heads: int) -> Tensor:
    """Keys and values that several query heads share, once for each of them."""
    return x[0].repeat_interleave(heads // x.shape[1], dim=0)


def joined(recorded: list[AttentionSteps]) -> AttentionSteps:
    """The steps of models that attend token by token, one query after another."""
    if len(recorded) == 1:
        return recorded[0]
    keys = recorded[-1].weights.shape[3]
    same = [steps for steps in recorded if steps.weights.shape[3] == keys]
    parts = ("scores", "scaled", "masked", "weights", "output")
    return AttentionSteps(*(torch.cat([getattr(steps, part) for steps in same], dim=2) for part in parts))


def is_cross(name: str) -> bool:
    """Whether a module looks from one sentence at another."""
    return name.rpartition(".")[2] == "cross"


@contextmanager
def _vectors(model: nn.Module) -> Iterator[dict[str, dict[str, list[Tensor]]]]:
    """Catches what the query, key and value maps of every attention give."""
    caught: dict[str, dict[str, list[Tensor]]] = {}
    with ExitStack() as hooks:
        for name, module in model.named_modules():
            for kind in ("query", "key", "value"):
                if isinstance(module, Attention) and isinstance(part := getattr(module, kind, None), nn.Module):
                    keep = _keeper(caught.setdefault(name, {}), kind)
                    hooks.callback(part.register_forward_hook(keep).remove)
        yield caught


def _keeper(kept: dict[str, list[Tensor]], kind: str) -> Any:  # noqa: ANN401
    def keep(_module: nn.Module, _inputs: tuple[Any, ...], output: Tensor) -> None:
        kept.setdefault(kind, []).append(output)

    return keep


@contextmanager
def without_heads(model: nn.Module, off: Off) -> Iterator[None]:
    """Switches heads off: what they say is replaced by zeros before the output map."""
    parts = attentions(model)
    with ExitStack() as hooks:
        for name, heads in _by_name(off).items():
            if name not in parts:
                raise ConfigError("off", f"unknown attention '{name}'; {nearest(name, parts)}")
            count = getattr(parts[name], "heads", 1)
            if wrong := [head for head in heads if not 0 <= head < count]:
                raise ConfigError("off", f"{name} has heads 0 to {count - 1}, got {wrong[0]}")
            hooks.callback(_silence(parts[name], [(slice(None), head) for head in heads]))
        yield


def attentions(model: nn.Module) -> dict[str, nn.Module]:
    """All parts of a model that `record_attention` lays open, by name."""
    return {name: part for name, part in model.named_modules() if hasattr(part, "recorder")}


@contextmanager
def without_one_each(model: nn.Module, off: Sequence[tuple[str, int]]) -> Iterator[None]:
    """Switches one head off in each row of a batch: the first in row 0, the second in row 1, and so on."""
    parts = attentions(model)
    with ExitStack() as hooks:
        for name in {name for name, _ in off}:
            silent: list[Silent] = [(row, head) for row, (other, head) in enumerate(off) if other == name]
            hooks.callback(_silence(parts[name], silent))
        yield


def _by_name(off: Off) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name, head in off:
        found.setdefault(name, []).append(head)
    return found


def _silence(part: nn.Module, silent: Sequence[Silent]) -> Callable[[], None]:
    """Puts zeros in the place of heads, by rows of the batch; gives back what undoes it."""
    if not isinstance(part, Attention):  # one head only: all that it says

        def silence_all(_module: nn.Module, _inputs: tuple[Any, ...], output: Tensor) -> Tensor:
            return _zeroed(output, [(rows, slice(None)) for rows, _ in silent])

        return part.register_forward_hook(silence_all).remove
    width = part.head_width

    def silence_some(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (_zeroed(inputs[0], [(rows, slice(head * width, (head + 1) * width)) for rows, head in silent]),)

    return part.output.register_forward_pre_hook(silence_some).remove


def _zeroed(x: Tensor, places: Sequence[tuple[int | slice, slice]]) -> Tensor:
    kept = x.clone()
    for rows, numbers in places:
        kept[rows, ..., numbers] = 0
    return kept
