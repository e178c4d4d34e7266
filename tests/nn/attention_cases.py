"""Cases of attention for the tests that hold each fast path to the reference, in value and gradient."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import jaxtyping
import torch
from hypothesis import strategies as st
from torch import Tensor

from regard.nn.attention.reference import reference_attention
from regard.nn.context import AttentionContext
from regard.nn.layout import Layout
from regard.nn.pattern import Causal, Global, Pattern, Random, Shifted, Window
from regard.nn.position import Alibi, Bias, Position, Relative, T5Bias, TreePosition

Way = Callable[[Tensor, Tensor, Tensor, Pattern | None, Bias | None, float, float], Tensor]
"""A way to compute attention, called as the kernels are."""
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.bfloat16: 4e-2}


@dataclass
class Case:
    """Queries, keys and values, what may be seen, and the places whose results mean something."""

    query: Tensor
    key: Tensor
    value: Tensor
    context: AttentionContext
    valid: Tensor
    position: Position
    scale: float

    @property
    def pattern(self) -> Pattern | None:
        return self.context.pattern

    def cast(self, dtype: torch.dtype) -> "Case":
        """The same numbers, rounded to another precision."""
        tensors = [x.detach().to(dtype) for x in (self.query, self.key, self.value)]
        return Case(*tensors, self.context, self.valid, self.position.to(dtype), self.scale)

    def run(self, way: Way, gradients: bool = True) -> tuple[Tensor, list[Tensor]]:
        """The output at valid places, and the gradients of a sum over it by everything that is learned."""
        query, key, value = (x.detach().clone().requires_grad_(gradients) for x in (self.query, self.key, self.value))
        learned = [p.requires_grad_(gradients) for p in self.position.parameters()]
        context = AttentionContext(
            self.context.pattern, self.context.query_positions, self.context.key_positions, self.context.tree
        )
        bias = self.position.bias(query * self.scale, context)
        y = way(query, key, value, self.pattern, bias, self.scale, 0.0).transpose(1, 2)[self.valid]
        if not gradients:
            return y, []
        probe = torch.linspace(-1, 1, y.numel(), device=y.device).view_as(y)
        used = [x for x in (query, key, value, *learned) if x.requires_grad]
        slopes = torch.autograd.grad((y.float() * probe).sum(), used, allow_unused=True, materialize_grads=True)
        return y.detach(), list(slopes)


def reference(
    query: Tensor, key: Tensor, value: Tensor, pattern: Pattern | None, bias: Bias | None, scale: float, dropout: float
) -> Tensor:
    return reference_attention(query, key, value, pattern, bias, scale, dropout).output


def assert_equals_reference(case: Case, way: Way, dtype: torch.dtype, gradients: bool = True) -> None:
    """`way` in this precision gives what the reference gives (half precision: what it gives in single)."""
    rounded = case.cast(dtype)
    y, slopes = rounded.run(way, gradients)
    exact = rounded.cast(torch.float32) if dtype == torch.bfloat16 else rounded
    expected, expected_slopes = exact.run(reference, gradients)
    for got, wanted in zip([y, *slopes], [expected, *expected_slopes], strict=True):
        assert got.dtype == dtype
        assert_close(got, wanted, TOLERANCE[dtype])


def assert_close(got: Tensor, wanted: Tensor, tolerance: float) -> None:
    """Equal within a tolerance that is relative to the largest number."""
    assert got.shape == wanted.shape
    assert torch.isfinite(got).all()
    largest = wanted.detach().abs().max().item() if wanted.numel() else 0.0
    torch.testing.assert_close(got.to(wanted.dtype), wanted, atol=tolerance * max(1.0, largest), rtol=0.0)


@contextmanager
def without_shape_checks() -> Iterator[None]:
    """For what torch traces: it cannot follow the wrappers that check shapes in tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def sparse_kinds(heads: int, length: int, device: str = "cpu") -> dict[str, Pattern]:
    """The sparse patterns of the lectures, small enough that something is hidden in a short sentence."""
    table = Random(1, 2, heads, length, seed=3, device=device)
    return {
        "window": Window(2),
        "blocks": Window(1, block=2),
        "bigbird": Window(1, block=2) | Global(1) | table,
    }


def positions(heads: int, head_width: int) -> dict[str, Position]:
    """The kinds that act on scores, and none."""
    return {
        "none": Position(),
        "alibi": Alibi(heads),
        "t5": T5Bias(heads, buckets=8, farthest=6),
        "shaw": Relative(head_width, clip=3, values=False),
        "tree": TreePosition(heads * head_width, head_width, depth=False, clip=2),
    }


def self_context(layout: Layout, inner: Pattern | None, tree: Tensor | None = None) -> AttentionContext:
    """What self-attention sees: the kind's own pattern, within each sequence."""
    if inner is not None and layout.packed and not inner.by_distance:
        inner = Shifted(inner, layout.index, layout.index)
    own = layout.pattern()
    return AttentionContext(own if inner is None else inner & own, layout.positions, layout.positions, tree)


LAYOUTS = ("full", "padded", "packed")
PATTERNS = ("full", "causal", "strict", "window", "blocks", "bigbird", "window+causal", "bigbird+causal")
SEEN = tuple(kind for kind in PATTERNS if kind != "strict")
POSITIONS = ("none", "alibi", "t5", "shaw", "tree")


def make_layout(kind: str, lengths: list[int], time: int) -> Layout:
    """Sequences of these lengths, in rows (packed: in one row, with as much padding) of this time."""
    if kind == "full":
        return Layout.full(len(lengths), time)
    if kind == "padded":
        return Layout.padded(torch.tensor(lengths), time)
    return Layout.packing(torch.tensor(lengths), sum(lengths) + time - max(lengths))


def make_pattern(kind: str, heads: int, length: int, device: str = "cpu") -> Pattern | None:
    """A pattern of a kind that a recipe can name, in a decoder if it ends in `+causal`."""
    if kind in ("full", "causal", "strict"):
        return None if kind == "full" else Causal(strict=kind == "strict")
    sparse = sparse_kinds(heads, length, device)[kind.partition("+")[0]]
    return sparse & (Causal() if kind.endswith("+causal") else None)


def make_case(
    layout: Layout,
    pattern: str = "full",
    position: str = "none",
    *,
    heads: tuple[int, int] = (2, 2),
    head_width: int = 4,
    scaled: bool = True,
    seed: int = 0,
) -> Case:
    """Self-attention of random numbers in this layout; `heads` are those of queries and those of keys and values."""
    torch.manual_seed(seed)
    device, (batch, time) = layout.segment.device, layout.segment.shape
    tree = (torch.rand(batch, time, device=device) * torch.arange(time, device=device)).long()
    query, key, value = (
        torch.randn(batch, count, time, head_width, dtype=torch.float64, device=device)
        for count in (heads[0], heads[1], heads[1])
    )
    context = self_context(layout, make_pattern(pattern, heads[0], layout.longest, str(device)), tree)
    kind = positions(heads[0], head_width)[position].to(device)
    return Case(query, key, value, context, layout.valid, kind, head_width**-0.5 if scaled else 1.0)


def make_cross_case(
    target: Layout, source: Layout, *, heads: tuple[int, int] = (2, 2), head_width: int = 4, seed: int = 0
) -> Case:
    """Cross-attention of random numbers: queries of one set of sequences, keys and values of another."""
    torch.manual_seed(seed)
    query, key, value = (
        torch.randn(len(x.segment), n, x.segment.shape[1], head_width, dtype=torch.float64, device=x.segment.device)
        for n, x in ((heads[0], target), (heads[1], source), (heads[1], source))
    )
    context = AttentionContext(source.cross_pattern(target), target.positions, source.positions)
    return Case(query, key, value, context, target.valid, Position(), head_width**-0.5)


@st.composite
def cases(
    draw: st.DrawFn,
    layouts: tuple[str, ...] = LAYOUTS,
    patterns: tuple[str, ...] = PATTERNS,
    position_kinds: tuple[str, ...] = POSITIONS,
    smallest_width: int = 1,
) -> Case:
    """Self-attention of any size, layout, pattern and position."""
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    layout = make_layout(draw(st.sampled_from(layouts)), lengths, max(lengths) + draw(st.integers(0, 2)))
    return make_case(
        layout,
        draw(st.sampled_from(patterns)),
        draw(st.sampled_from(position_kinds)),
        heads=draw(st.sampled_from([(1, 1), (2, 2), (2, 1), (4, 2), (6, 3)])),
        head_width=draw(st.sampled_from([width for width in (1, 2, 4, 5, 8) if width >= smallest_width])),
        scaled=draw(st.booleans()),
        seed=draw(st.integers(0, 2**16)),
    )


@st.composite
def cross_cases(draw: st.DrawFn, layouts: tuple[str, ...] = LAYOUTS) -> Case:
    """Cross-attention between sets of sequences of any lengths."""
    pairs = draw(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=1, max_size=3))
    kind = draw(st.sampled_from(layouts))
    target, source = (
        make_layout(kind, list(lengths), max(lengths) + draw(st.integers(0, 2))) for lengths in zip(*pairs, strict=True)
    )
    heads = draw(st.sampled_from([(1, 1), (2, 1), (4, 2)]))
    return make_cross_case(target, source, heads=heads, seed=draw(st.integers(0, 2**16)))
