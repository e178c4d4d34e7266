"""Row and column attention with pair bias: against its equations, against Hugging Face's folding trunk, and alone."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.nn.attention.axial import (
    AxialBlock,
    ColumnAttention,
    GatedAttention,
    OuterProductMean,
    RowAttention,
    TriangleMultiplication,
)
from regard.nn.position import Bias

WIDTH, HEADS, PAIR = 12, 3, 5
sizes = st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5))


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def randomised(module: nn.Module) -> nn.Module:
    """Random numbers everywhere, so that no gate that begins open hides a mistake."""
    for seed, weight in enumerate(module.parameters()):
        weight.data.copy_(numbers(*weight.shape, seed=seed) * 0.4)
    return module


def attended(part: GatedAttention, x: Tensor, bias: Tensor | None) -> Tensor:
    """One line (time, width) by the equations, head by head; the bias is (heads, time, time)."""
    wide, heard = WIDTH // HEADS, []
    for head in range(HEADS):
        own = slice(head * wide, (head + 1) * wide)
        query, key, value = (x @ map.weight[own].T for map in (part.query, part.key, part.value))
        scores = query @ key.T / wide**0.5 + (0 if bias is None else bias[head])
        heard.append(scores.softmax(-1) @ value)
    gate = torch.sigmoid(x @ part.gate.weight.T + part.gate.bias)
    return (gate * torch.cat(heard, -1)) @ part.output.weight.T + part.output.bias


def normed(x: Tensor, norm: nn.Module) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], norm.gain, norm.shift)


@given(sizes)
def test_rows_are_their_equations(size: tuple[int, int, int]):
    batch, rows, columns = size
    part = randomised(RowAttention(WIDTH, HEADS, PAIR))
    grid, pairs = numbers(batch, rows, columns, WIDTH), numbers(batch, columns, columns, PAIR, seed=1)
    found = part(grid, pairs)
    for b in range(batch):
        bias = (normed(pairs[b], part.pair_norm) @ part.pair_bias.weight.T).permute(2, 0, 1)
        for r in range(rows):
            expected = attended(part.attention, normed(grid[b, r], part.norm), bias)
            torch.testing.assert_close(found[b, r], expected, atol=1e-5, rtol=1e-4)


@given(sizes)
def test_columns_are_their_equations(size: tuple[int, int, int]):
    batch, rows, columns = size
    part = randomised(ColumnAttention(WIDTH, HEADS))
    grid = numbers(batch, rows, columns, WIDTH)
    found = part(grid)
    for b in range(batch):
        for c in range(columns):
            expected = attended(part.turned.attention, normed(grid[b, :, c], part.turned.norm), None)
            torch.testing.assert_close(found[b, :, c], expected, atol=1e-5, rtol=1e-4)


def test_gated_attention_is_that_of_hugging_face_with_the_same_weights():
    esmfold = pytest.importorskip("transformers.models.esm.modeling_esmfold")
    ours = randomised(GatedAttention(WIDTH, HEADS))
    theirs = esmfold.EsmFoldAttention(WIDTH, WIDTH, WIDTH, WIDTH // HEADS, HEADS)
    names = {"query": "linear_q", "key": "linear_k", "value": "linear_v", "gate": "linear_g", "output": "linear_o"}
    for own, other in names.items():
        getattr(theirs, other).load_state_dict(getattr(ours, own).state_dict())
    x, table = numbers(4, 6, WIDTH), numbers(4, HEADS, 6, 6, seed=1)
    found = ours(x, None, Bias(table, lambda batch, query, key: key))
    torch.testing.assert_close(found, theirs(x, x, biases=[table]), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("outgoing", [True, False])
def test_triangles_are_those_of_hugging_face_with_the_same_weights(outgoing: bool):
    esmfold = pytest.importorskip("transformers.models.esm.modeling_esmfold")
    from transformers import EsmConfig

    config = EsmConfig(esmfold_config={"trunk": {"pairwise_state_dim": 128}}, is_folding_model=True, vocab_list=["a"])
    theirs = esmfold.EsmFoldTriangleMultiplicativeUpdate(config.esmfold_config.trunk, _outgoing=outgoing)
    width = config.esmfold_config.trunk.pairwise_state_dim
    ours = randomised(TriangleMultiplication(width, outgoing=outgoing))
    names = {
        "left": "linear_a_p", "right": "linear_b_p", "left_gate": "linear_a_g", "right_gate": "linear_b_g",
        "gate": "linear_g", "output": "linear_z",
    }  # fmt: skip
    for own, other in names.items():
        getattr(theirs, other).load_state_dict(getattr(ours, own).state_dict())
    for own, other in {"norm": "layer_norm_in", "inner_norm": "layer_norm_out"}.items():
        getattr(theirs, other).weight.data.copy_(getattr(ours, own).gain)
        getattr(theirs, other).bias.data.copy_(getattr(ours, own).shift)
    pairs = numbers(2, 5, 5, width)
    torch.testing.assert_close(ours(pairs), theirs(pairs), atol=1e-4, rtol=1e-3)


def test_triangles_are_sums_over_a_third_column():
    for outgoing in (True, False):
        part = randomised(TriangleMultiplication(PAIR, outgoing=outgoing))
        pairs = numbers(1, 4, 4, PAIR)
        z = normed(pairs[0], part.norm)
        a = torch.sigmoid(part.left_gate(z)) * part.left(z)
        b = torch.sigmoid(part.right_gate(z)) * part.right(z)
        for i in range(4):
            for j in range(4):
                sides = [(a[i, k], b[j, k]) if outgoing else (a[k, i], b[k, j]) for k in range(4)]
                meeting = normed(sum(one * other for one, other in sides), part.inner_norm)  # type: ignore[arg-type]
                expected = torch.sigmoid(part.gate(z[i, j])) * part.output(meeting)
                torch.testing.assert_close(part(pairs)[0, i, j], expected, atol=1e-5, rtol=1e-4)


def test_outer_products_are_means_over_the_rows_that_are_there():
    part = randomised(OuterProductMean(WIDTH, PAIR, hidden=3))
    grid = numbers(1, 4, 3, WIDTH)
    present = torch.tensor([[1, 1, 1], [1, 0, 1], [0, 0, 1], [1, 1, 0]], dtype=torch.bool)[None]
    x = normed(grid[0], part.norm)
    for i in range(3):
        for j in range(3):
            rows = [r for r in range(4) if present[0, r, i] and present[0, r, j]]
            outer = [torch.outer(part.left(x[r, i]), part.right(x[r, j])).flatten() for r in rows]
            expected = part.output(torch.stack(outer).mean(0) if rows else torch.zeros(9))
            torch.testing.assert_close(part(grid, present)[0, i, j], expected, atol=1e-5, rtol=1e-4)


def whole_block() -> AxialBlock:
    block = randomised(AxialBlock(WIDTH, HEADS, PAIR, update_pairs=True))
    assert isinstance(block, AxialBlock)
    return block


@given(sizes, st.randoms(use_true_random=False))
def test_rows_and_columns_in_another_order_give_the_same_in_that_order(size: tuple[int, int, int], chance):
    batch, rows, columns = size
    grid, pairs = numbers(batch, rows, columns, WIDTH), numbers(batch, columns, columns, PAIR, seed=1)
    block = whole_block()
    r, c = chance.sample(range(rows), rows), chance.sample(range(columns), columns)
    out, changed = block(grid, pairs)
    moved, moved_pairs = block(grid[:, r][:, :, c], pairs[:, c][:, :, c])
    torch.testing.assert_close(moved, out[:, r][:, :, c], atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(moved_pairs, changed[:, c][:, :, c], atol=1e-4, rtol=1e-3)


def test_what_is_not_there_is_never_heard():
    block, pairs = whole_block(), numbers(2, 5, 5, PAIR, seed=1)
    grid = numbers(2, 4, 5, WIDTH)
    present = torch.ones(2, 4, 5, dtype=torch.bool)
    present[0, 3], present[1, :, 4] = False, False  # a row, and a column
    before, pairs_before = block(grid, pairs, present)
    other = torch.where(present[..., None], grid, numbers(2, 4, 5, WIDTH, seed=7))
    after, pairs_after = block(other, pairs, present)
    torch.testing.assert_close(before[present], after[present])
    torch.testing.assert_close(pairs_before[0], pairs_after[0])
    assert torch.isfinite(after).all()


def test_without_pairs_it_is_plain_axial_attention():
    torch.manual_seed(1)
    block = AxialBlock(WIDTH, HEADS)
    grid = numbers(2, 3, 4, WIDTH)
    out, pairs = block(grid)
    assert pairs is None
    expected = grid + block.rows(grid)
    expected = expected + block.columns(expected)
    torch.testing.assert_close(out, expected + block.transition(expected))


def test_a_cell_reaches_every_other_in_one_block():
    block = whole_block()
    grid = numbers(1, 3, 4, WIDTH).requires_grad_()
    out, _ = block(grid, numbers(1, 4, 4, PAIR))
    (slope,) = torch.autograd.grad(out[0, 2, 3].sum(), grid)
    assert (slope.abs().sum(-1) > 0).all()


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The example in the repository, which needs rows, columns and pairs."""
    file = Path(__file__).parents[2] / "examples" / "structures" / "axial.py"
    spec = importlib.util.spec_from_file_location("axial_example", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_answers_of_the_example_are_what_it_says(example: ModuleType):
    symbols, partners, answers = example.examples(5, torch.Generator().manual_seed(1))
    for number in range(5):
        for row in range(1, example.ROWS):
            for column in range(example.COLUMNS):
                (partner,) = partners[number, column].nonzero().flatten().tolist()
                assert partners[number, partner, column] == 1
                assert partner != column
                said = symbols[number, row, partner] + symbols[number, 0, column]
                assert answers[number, row - 1, column] == said % example.SYMBOLS


def test_the_example_runs(example: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("sys.argv", ["axial.py", "--steps", "2"])
    example.main()
    assert [line.rpartition(" ")[0].strip() for line in capsys.readouterr().out.splitlines()[1:]] == [*example.VARIANTS]


@pytest.mark.slow
def test_the_example_is_learnt_with_all_parts_and_not_without_one(example: ModuleType):
    reached = [example.trial(settings, 300) for settings in example.VARIANTS.values()]
    assert reached[0] > 0.95
    assert max(reached[1:]) < 0.3
