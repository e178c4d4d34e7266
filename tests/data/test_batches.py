from pathlib import Path

import numpy as np
import pytest
from tiny_corpus import SENTENCES, tiny_tokenizer

from regard.config import Config
from regard.data.batches import Batch, BatchingConfig, BucketedConfig, PackedConfig, StreamConfig
from regard.data.collate import Packed, Padded
from regard.data.fields import TextField
from regard.data.store import Store, open_store
from regard.errors import ConfigError
from regard.tasks.evaluation import measuring_batches
from regard.text.subword_sampling import BpeDropout

BPE = tiny_tokenizer("bpe")
ROWS = [{"source": SENTENCES[i % 8][: i + 5], "target": SENTENCES[(i + 1) % 8], "label": i} for i in range(50)]
CONFIGS = [BucketedConfig(pool=2), PackedConfig()]


@pytest.fixture(params=["stored", "sampled"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    sampler = BpeDropout(BPE.core, dropout=0.1) if request.param == "sampled" else None
    fields = {"source": TextField(BPE, sampler), "target": TextField(BPE, sampler, begin=True)}
    return open_store(lambda: ROWS, fields, ["label"], cache=tmp_path)


def sequences(field: Padded | Packed) -> list[list[int]]:
    if isinstance(field, Packed):
        return [part.tolist() for part in np.split(field.tokens[0], np.cumsum(field.lengths)[:-1])]
    return [row[:length].tolist() for row, length in zip(field.tokens, field.lengths, strict=True)]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
def test_an_epoch_shows_every_example_with_its_label(store: Store, config: BucketedConfig | PackedConfig):
    batches = config.build(store, tokens_per_batch=300, seed=4)
    seen: dict[int, tuple[str, str]] = {}
    for step in range(batches.num_batches(1)):
        batch = batches.batch(1, step)
        assert batch.labels["label"].tolist() == batch.examples.tolist()
        sides = (map(BPE.decode, sequences(batch.fields[name])) for name in ("source", "target"))
        seen.update(zip(batch.examples.tolist(), zip(*sides, strict=True), strict=True))
        assert all(field.tokens.size <= 300 for field in batch.fields.values())
    assert seen == {i: (row["source"], row["target"]) for i, row in enumerate(ROWS)}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
@pytest.mark.parametrize("world", [2, 3, 60])
def test_the_parts_of_all_processes_are_the_batch(store: Store, config: BucketedConfig | PackedConfig, world: int):
    batches = config.build(store, tokens_per_batch=400, seed=4)
    for step in range(batches.num_batches(0)):
        whole = batches.batch(0, step)
        parts = [batches.batch(0, step, rank, world) for rank in range(world)]
        assert [i for part in parts for i in part.examples.tolist()] == whole.examples.tolist()
        for name, field in whole.fields.items():
            split = [row for part in parts if len(part.examples) for row in sequences(part.fields[name])]
            assert split == sequences(field)


def same(one: Batch, other: Batch) -> bool:
    return all(
        np.array_equal(field.tokens, other.fields[name].tokens)
        and np.array_equal(field.lengths, other.fields[name].lengths)
        for name, field in one.fields.items()
    )


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
def test_a_batch_is_the_same_whenever_it_is_asked_for(store: Store, config: BucketedConfig | PackedConfig):
    batches = config.build(store, tokens_per_batch=300, seed=4)
    first = [batches.batch(2, step) for step in range(batches.num_batches(2))]
    batches.batch(0, 0)
    resumed = config.build(store, tokens_per_batch=300, seed=4)
    assert all(same(resumed.batch(2, step), batch) for step, batch in reversed(list(enumerate(first))))
    assert not same(batches.batch(3, 0), first[0])


def test_the_kinds_of_arrays(store: Store):
    assert isinstance(BucketedConfig().build(store, tokens_per_batch=300).batch(0, 0).fields["source"], Padded)
    packed = PackedConfig().build(store, tokens_per_batch=300).batch(0, 0).fields["source"]
    assert isinstance(packed, Packed)
    assert packed.tokens.shape == (1, packed.lengths.sum())


def test_a_stream_of_a_field_that_is_not_there(tmp_path: Path):
    store = open_store(lambda: ({"text": s} for s in SENTENCES), {"text": TextField(BPE)}, cache=tmp_path)
    with pytest.raises(
        ConfigError, match=r"data.batching.field: the examples have no field 'txt'; did you mean 'text'"
    ):
        StreamConfig(field="txt").build(store, tokens_per_batch=64)


@pytest.mark.parametrize("order", ["random", "shuffled", "sequential"])
def test_stream_rows_are_stretches_of_the_text(tmp_path: Path, order: str):
    store = open_store(lambda: ({"text": s} for s in SENTENCES), {"text": TextField(BPE)}, cache=tmp_path)
    stream = store.stream("text").tolist()
    batches = StreamConfig(context=16, order=order).build(store, tokens_per_batch=64, seed=1)
    for step in range(batches.num_batches(0)):
        batch = batches.batch(0, step)
        for start, row in zip(batch.examples.tolist(), sequences(batch.fields["text"]), strict=True):
            assert row == stream[start : start + 17]
        halves = [batches.batch(0, step, rank, 2) for rank in range(2)]
        rows = [row for half in halves if len(half.examples) for row in sequences(half.fields["text"])]
        assert rows == sequences(batch.fields["text"])


def test_text_may_be_measured_in_longer_rows_than_it_is_learnt_in(tmp_path: Path):
    store = open_store(lambda: ({"text": s} for s in SENTENCES), {"text": TextField(BPE)}, cache=tmp_path)
    stream = store.stream("text").tolist()
    batches = measuring_batches(store, StreamConfig(context=4, measured_context=16), 32)
    read = [batches.batch(0, step) for step in range(batches.num_batches(0))]
    rows = [row for batch in read for row in sequences(batch.fields["text"])]
    assert rows[0] == stream[:17]
    assert sum(len(row) - 1 for row in rows) == len(stream) - 1


def test_sampled_text_cannot_be_streamed(tmp_path: Path):
    fields = {"text": TextField(BPE, BpeDropout(BPE.core, dropout=0.1))}
    store = open_store(lambda: [{"text": "The street"}], fields, cache=tmp_path)
    with pytest.raises(ConfigError, match="tokenizer: text that is cut at random"):
        StreamConfig(context=2).build(store, tokens_per_batch=64)


class _Recipe(Config):
    batching: BatchingConfig = BucketedConfig()
    "How batches are made."


def test_the_family_is_chosen_by_kind():
    assert _Recipe.from_tree({"batching": "packed"}).batching == PackedConfig()
    assert _Recipe.from_tree({"batching": {"kind": "stream", "context": 64}}).batching == StreamConfig(context=64)
    with pytest.raises(ConfigError, match=r"batching\.context: expected greater than or equal to 1"):
        _Recipe.from_tree({"batching": {"kind": "stream", "context": 0}})
