"""Embeddings: a row for each token, scaled or not, factorised or not, with segments, and back to scores."""

import math

import pytest
import torch
from attention_cases import assert_close
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from regard.errors import ConfigError
from regard.models import DecoderConfig, EncoderDecoderConfig
from regard.nn.embedding import Embedding, EmbeddingConfig
from regard.nn.head import VocabularyHead


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.booleans(), st.sampled_from([None, 3]))
def test_each_token_has_its_row(tokens: list[int], scale: bool, factor: int | None):
    embedding = Embedding(10, 4, scale, factor)
    y = embedding(torch.tensor([tokens]))[0]
    for row, token in zip(y, tokens, strict=True):
        vector = embedding.table.weight[token]
        vector = vector if embedding.up is None else embedding.up.weight @ vector
        assert_close(row, vector * (math.sqrt(4) if scale else 1), 1e-6)


def test_segments_add_a_vector_of_their_own():
    embedding = Embedding(10, 4, segments=2)
    assert embedding.segments is not None
    tokens, segments = torch.tensor([[1, 2, 3]]), torch.tensor([[0, 1, 1]])
    plain = embedding.table(tokens) * 2
    assert_close(embedding(tokens, segments), plain + embedding.segments.weight[segments], 1e-6)
    assert_close(embedding(tokens), plain + embedding.segments.weight[0], 1e-6)


@pytest.mark.parametrize("factor", [None, 3])
def test_scores_are_products_with_every_vector(factor: int | None):
    embedding, x = Embedding(10, 4, scale=False, factor=factor), torch.randn(2, 3, 4)
    vectors = embedding(torch.arange(10)[None])[0]
    assert_close(VocabularyHead(4, 10, shared=embedding)(x), x @ vectors.T, 1e-5)


@pytest.mark.parametrize("factor", [None, 3])
@pytest.mark.parametrize("segments", [0, 2])
def test_config_counts_what_the_built_part_has_and_costs(factor: int | None, segments: int):
    config = EmbeddingConfig(factor=factor, segments=segments)
    embedding = config.build(vocab=10, width=4)
    assert config.num_params(10, 4) == sum(p.numel() for p in embedding.parameters())
    with FlopCounterMode(display=False) as counted:
        embedding(torch.zeros(2, 5, dtype=torch.long))
    assert counted.get_total_flops() == config.flops(4, tokens=10)


@pytest.mark.parametrize("factor", [None, 3])
@pytest.mark.parametrize("share", ["all", "inputs", "output", "none"])
def test_who_shares_a_table(share, factor: int | None):
    embedding = EmbeddingConfig(share=share, factor=factor)
    decoder = DecoderConfig(width=8, heads=2, depth=1, embedding=embedding).build(vocab=12)
    tables = [p for p in decoder.parameters() if p.shape[0] == 12]
    assert len(tables) == (1 if share in ("all", "output") else 2)
    both = EncoderDecoderConfig(width=8, heads=2, depth=1, embedding=embedding)
    model = both.build(12) if share in ("all", "inputs") else both.build(12, 11)
    tables = [p for p in model.parameters() if p.shape[0] in (11, 12)]
    assert len(tables) == {"all": 1, "inputs": 2, "output": 2, "none": 3}[share]


def test_a_shared_table_learns_from_both_ends():
    embedding = Embedding(5, 4)
    head, x = VocabularyHead(4, 5, shared=embedding), embedding(torch.tensor([[1]]))
    head(x.detach()).sum().backward()
    from_output = embedding.table.weight.grad.clone()
    embedding.zero_grad()
    head(embedding(torch.tensor([[1]]))).sum().backward()
    assert not torch.equal(from_output, embedding.table.weight.grad)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: EmbeddingConfig(factor=0), "factor: expected greater than 0, got 0"),
        (lambda: EmbeddingConfig(share="some"), "share: expected 'all', 'inputs', 'output' or 'none', got 'some'"),
        (lambda: EmbeddingConfig(segments=-1), "segments: expected greater than or equal to 0, got -1"),
    ],
)
def test_what_cannot_be_is_refused(ask, sentence: str):
    with pytest.raises(ConfigError) as refused:
        ask()
    assert str(refused.value) == sentence
