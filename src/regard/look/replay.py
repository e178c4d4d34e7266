"""One forward pass with every attention recorded: scores, weights, queries, keys and values.

Works on any trained model, since the recorded pass is computed by the reference attention. Where keys are projected or
compressed, and in baselines that compute scores in other ways, there are scores and weights but no vectors.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import ConfigError, nearest
from regard.nn.attention.module import Attention
from regard.nn.attention.reference import AttentionSteps, record_attention

Heads = Iterable[tuple[str, int]]
"""Heads by their module's name and number."""
RowHead = tuple[int | slice, int]
"""Rows of a batch, and the head to ablate there."""


@dataclass(frozen=True)
class RecordedAttention:
    """One attention module of the pass, for one sentence."""

    name: str
    module: nn.Module
    steps: AttentionSteps
    vectors: dict[str, Tensor]
    """`query`, `key` and `value` (heads, time, head width) as they entered q·k and the weighted sum; may be empty."""

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
        """Factor of the scores."""
        return float(getattr(self.module, "scale", 1.0))


@torch.no_grad()
def replay(model: nn.Module, arguments: tuple[object, ...]) -> tuple[Tensor, list[RecordedAttention]]:
    """The logits of one pass, and its attentions in the order of the modules."""
    with record_attention(model) as recorded, _record_vectors(model) as vectors:
        logits = model(*arguments)
    modules = dict(model.named_modules())
    return logits, [
        _recorded(name, modules[name], steps, vectors.get(name, {})) for name, steps in recorded.items() if steps
    ]


def _recorded(
    name: str, module: nn.Module, recorded: list[AttentionSteps], outputs: dict[str, list[Tensor]]
) -> RecordedAttention:
    steps = joined(recorded)
    vectors = {kind: torch.cat(parts, dim=2) for kind, parts in outputs.items() if parts}
    if len(vectors) < 3 or not isinstance(module, Attention):
        return RecordedAttention(name, module, steps, {})
    if not is_cross(name):
        for kind in ("query", "key", "value"):
            positions = torch.arange(vectors[kind].shape[2], device=vectors[kind].device)[None]
            encode = module.position.on_values if kind == "value" else module.position.rotate
            vectors[kind] = encode(vectors[kind], positions)
    heads = steps.weights.shape[1]  # keys and values that query heads share are repeated for each of them
    vectors = {kind: x[0].repeat_interleave(heads // x.shape[1], dim=0) for kind, x in vectors.items()}
    return RecordedAttention(name, module, steps, vectors if _gives_scores(vectors, steps) else {})


def _gives_scores(vectors: dict[str, Tensor], steps: AttentionSteps) -> bool:
    """Whether q·k is the recorded score: not where keys are projected or compressed."""
    scores = vectors["query"] @ vectors["key"].transpose(1, 2)
    return scores.shape == steps.scores.shape[1:] and torch.allclose(scores, steps.scores[0], rtol=1e-3, atol=1e-3)


def joined(recorded: list[AttentionSteps]) -> AttentionSteps:
    """The steps of models that attend token by token, concatenated over the queries."""
    if len(recorded) == 1:
        return recorded[0]
    keys = recorded[-1].weights.shape[3]
    same = [steps for steps in recorded if steps.weights.shape[3] == keys]
    fields = ("scores", "scaled", "masked", "weights", "output")
    return AttentionSteps(*(torch.cat([getattr(steps, name) for steps in same], dim=2) for name in fields))


def is_cross(name: str) -> bool:
    """Whether a module is a cross-attention."""
    return name.rpartition(".")[2] == "cross"


@contextmanager
def _record_vectors(model: nn.Module) -> Iterator[dict[str, dict[str, list[Tensor]]]]:
    """Records the outputs of the query, key and value projections of every attention."""
    outputs: dict[str, dict[str, list[Tensor]]] = {}
    with ExitStack() as hooks:
        for name, module in model.named_modules():
            for kind in ("query", "key", "value"):
                if isinstance(module, Attention) and isinstance(part := getattr(module, kind, None), nn.Module):
                    parts = outputs.setdefault(name, {}).setdefault(kind, [])
                    hook = part.register_forward_hook(lambda _part, _inputs, output, parts=parts: parts.append(output))
                    hooks.callback(hook.remove)
        yield outputs


def attentions(model: nn.Module) -> dict[str, nn.Module]:
    """All modules that `record_attention` records, by name."""
    return {name: module for name, module in model.named_modules() if hasattr(module, "recorder")}


@contextmanager
def without_heads(model: nn.Module, off: Heads) -> Iterator[None]:
    """Ablates heads: their outputs are zero before the output projection."""
    modules, by_module = attentions(model), {}
    for name, head in off:
        by_module.setdefault(name, []).append(head)
    with ExitStack() as hooks:
        for name, heads in by_module.items():
            if name not in modules:
                raise ConfigError("off", f"unknown attention '{name}'; {nearest(name, modules)}")
            count = getattr(modules[name], "heads", 1)
            if wrong := [head for head in heads if not 0 <= head < count]:
                raise ConfigError("off", f"{name} has heads 0 to {count - 1}, got {wrong[0]}")
            hooks.callback(_ablate(modules[name], [(slice(None), head) for head in heads]))
        yield


@contextmanager
def without_head_by_row(model: nn.Module, off: Sequence[tuple[str, int]]) -> Iterator[None]:
    """Ablates one head in each row of a batch: the first in row 0, the second in row 1, and so on."""
    modules = attentions(model)
    with ExitStack() as hooks:
        for name in {name for name, _ in off}:
            heads: list[RowHead] = [(row, head) for row, (module, head) in enumerate(off) if module == name]
            hooks.callback(_ablate(modules[name], heads))
        yield


def _ablate(module: nn.Module, heads: Sequence[RowHead]) -> Callable[[], None]:
    """Zeroes the outputs of heads by a hook; returns what removes it."""
    if not isinstance(module, Attention):  # one head: the whole output

        def zero_output(_module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            return _zeroed(output, [(rows, slice(None)) for rows, _ in heads])

        return module.register_forward_hook(zero_output).remove
    width = module.value_width

    def zero_heads(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (_zeroed(inputs[0], [(rows, slice(head * width, (head + 1) * width)) for rows, head in heads]),)

    return module.output.register_forward_pre_hook(zero_heads).remove


def _zeroed(x: Tensor, slices: Sequence[tuple[int | slice, slice]]) -> Tensor:
    x = x.clone()
    for rows, dims in slices:
        x[rows, ..., dims] = 0
    return x
