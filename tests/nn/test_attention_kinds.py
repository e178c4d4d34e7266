"""The configs of the kinds: what they count, what they refuse, and the lecture's four pictures."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import ConfigError
from regard.nn.attention.kinds import (
    BigBirdConfig,
    FullConfig,
    LinformerConfig,
    MemoryCompressedConfig,
    WindowConfig,
    four_panels,
)

LENGTHS = st.integers(1, 70)


def seen(config: WindowConfig | BigBirdConfig, heads: int, length: int) -> int:
    pattern = config.pattern(heads, length, False, "cpu")
    assert pattern is not None
    return int(pattern.dense(1, heads, length, length).expand(-1, heads, -1, -1).sum())


@given(LENGTHS, st.integers(1, 80))
def test_pairs_of_a_window(length: int, reach: int):
    config = WindowConfig(reach=reach)
    assert config.pairs(3, length) == seen(config, 3, length)


@given(LENGTHS, st.integers(1, 9), st.integers(0, 3), st.integers(0, 80), st.integers(0, 3), st.integers(0, 9))
def test_pairs_of_bigbird(length, block, reach, count, random, seed):
    config = BigBirdConfig(block=block, reach=reach, global_tokens=count, random=random, seed=seed)
    assert config.pairs(2, length) == seen(config, 2, length)


def test_flops_of_sparse_kinds_are_linear_and_those_of_full_are_not():
    for config, most in ((FullConfig(), 4.1), (WindowConfig(), 2.05), (BigBirdConfig(), 2.1), (LinformerConfig(), 2)):
        one, other = (config.flops(64, 4, 1, time, time) for time in (4096, 8192))
        assert other / one <= most, config.kind
    assert FullConfig().flops(64, 4, 1, 8192, 8192) > 10 * BigBirdConfig().flops(64, 4, 1, 8192, 8192)
    for config in (WindowConfig(), BigBirdConfig(), LinformerConfig(), MemoryCompressedConfig()):
        across = config.flops(64, 4, 2, 30, 50, cross=True)
        assert across == FullConfig().flops(64, 4, 2, 30, 50, cross=True), "cross-attention is full whatever the kind"


@given(LENGTHS, st.integers(1, 9), st.integers(0, 2), st.integers(0, 2), st.integers(0, 5), st.booleans())
def test_every_query_sees_a_key(length, block, reach, random, count, causal):
    config = BigBirdConfig(block=block, reach=reach, global_tokens=count, random=random)
    for kind in (config, WindowConfig(reach=reach + 1)):
        pattern = kind.pattern(2, length, causal, "cpu")
        assert pattern is not None
        assert not pattern.may_mask_all_keys
        assert pattern.dense(1, 2, length, length).any(-1).all()


@pytest.mark.parametrize("kind", [WindowConfig, BigBirdConfig, LinformerConfig, MemoryCompressedConfig])
def test_what_could_leave_a_query_blind_is_refused(kind: type):
    with pytest.raises(ConfigError, match="strict: masking the token itself could leave a query without any key"):
        kind(strict=True)


@given(LENGTHS, st.integers(1, 9), st.integers(0, 2), st.integers(1, 2), st.integers(1, 20), st.booleans())
def test_the_fourth_panel_is_the_other_three_together(length, block, reach, random, count, causal):
    config = BigBirdConfig(block=block, reach=reach, global_tokens=count, random=random)
    panels = four_panels(length, config, causal)
    assert list(panels) == ["random", "window", "global", "bigbird"]
    assert torch.equal(panels["bigbird"], panels["random"] | panels["window"] | panels["global"])
    assert all(panel.shape == (length, length) for panel in panels.values())
    near = (torch.arange(length)[:, None] // block - torch.arange(length) // block).abs() <= reach
    assert torch.equal(panels["window"], near.tril() if causal else near)
    assert panels["global"][: min(count, length)].all() or causal
    if causal:
        assert not panels["bigbird"].triu(1).any()


def test_memory_compressed_refuses_a_block_that_leaves_tokens_out():
    with pytest.raises(ConfigError, match="block: expected a multiple of stride = 3, got 64"):
        MemoryCompressedConfig(stride=3)
