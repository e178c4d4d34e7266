import dataclasses
import errno
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_corpus import SENTENCES, tiny_tokenizer

from regard.data import store_writer as store_writing
from regard.data.fields import NumbersField, TextField
from regard.data.store import Store, file_sha256, open_store
from regard.data.store_writer import Row, chunks
from regard.errors import ConfigError, DataError, Failure
from regard.text.special_tokens import BOS, EOS
from regard.text.subword_sampling import BpeDropout, UnigramSampling
from regard.text.tokenizer import Tokenizer

PAIRS = [{"source": SENTENCES[i % 8], "target": SENTENCES[(i + 3) % 8], "label": i % 3} for i in range(40)]
BPE = tiny_tokenizer("bpe")
DROPOUT = BpeDropout(BPE.core, dropout=0.2)
FIELDS = {"source": TextField(BPE), "target": TextField(tiny_tokenizer("byte"), begin=True, end=False)}


def build(cache: Path, rows: list[Row] = PAIRS, fields: dict[str, TextField] = FIELDS, **options) -> Store:
    labels = ["label"] if rows and "label" in rows[0] else []
    return open_store(lambda: rows, fields, labels, cache=cache, **options)


def everything(store: Store, field: str, **key: int) -> list[list[int]]:
    return store.gather(field, np.arange(len(store)), **key).rows()


def test_examples_come_back_as_encoded(tmp_path: Path):
    store = build(tmp_path)
    assert len(store) == 40
    assert everything(store, "source") == [[*BPE.encode(str(row["source"])), EOS] for row in PAIRS]
    assert everything(store, "target") == [[BOS, *(7 + b for b in str(row["target"]).encode())] for row in PAIRS]
    assert store.labels["label"].tolist() == [row["label"] for row in PAIRS]
    assert store.lengths["target"].tolist() == [1 + len(str(row["target"]).encode()) for row in PAIRS]
    assert store.skipped == store.cut == {}
    some = np.array([7, 0, 39, 7])
    assert store.gather("source", some).rows() == [everything(store, "source")[i] for i in some]
    assert store.gather("source", some[:0]).rows() == []


def test_stream_is_all_examples_in_order(tmp_path: Path):
    store = build(tmp_path)
    assert store.stream("source").tolist() == [i for row in everything(store, "source") for i in row]


def test_token_arrays_are_as_small_as_the_vocabulary_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert build(tmp_path / "small").stream("source").dtype == np.uint16
    large = Tokenizer(BPE.core)
    monkeypatch.setattr(large, "vocab_size", 70_000)
    assert build(tmp_path / "large", fields={"source": TextField(large)}).stream("source").dtype == np.uint32


class Counting:
    """Rows that know how often they were read."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows, self.read = rows, 0

    def __call__(self) -> Iterator[Row]:
        self.read += 1
        return iter(self.rows)


def test_a_store_is_used_again_while_nothing_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "train.txt"
    file.write_text("one")
    rows = Counting(PAIRS)

    def opened(fields: dict[str, TextField] = FIELDS, **settings: object) -> Store:
        return open_store(rows, fields, ["label"], cache=tmp_path / "cache", files=[file], settings=settings)

    first = opened(limit=5)
    with monkeypatch.context() as no_encoding:
        no_encoding.setattr(Tokenizer, "encode_batch", None)
        again = opened(limit=5)
    assert rows.read == 1
    assert again.folder == first.folder
    assert everything(again, "source") == everything(first, "source")

    opened(limit=6)
    opened({**FIELDS, "source": TextField(BPE, max_length=9)}, limit=5)
    opened({**FIELDS, "source": TextField(tiny_tokenizer("unigram"))}, limit=5)
    opened({**FIELDS, "source": TextField(BPE, sampler=DROPOUT)}, limit=5)
    opened({**FIELDS, "source": TextField(BPE, sampler=BpeDropout(BPE.core, dropout=0.3))}, limit=5)
    file.write_text("two")
    opened(limit=5)
    assert rows.read == 7


def test_a_store_is_made_anew_when_the_code_that_encodes_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = build(tmp_path)
    monkeypatch.setattr("regard.data.store.code_sha256", lambda *packages: "another version")
    assert build(tmp_path).folder != before.folder


def test_the_fingerprint_is_of_the_rows_and_of_nothing_else(tmp_path: Path):
    store = build(tmp_path)
    assert store.fingerprint["examples"] == 40
    assert build(tmp_path / "other", fields={"source": TextField(BPE, max_length=500)}).fingerprint == store.fingerprint
    assert build(tmp_path, settings={"other": 1}).fingerprint == store.fingerprint
    assert build(tmp_path, [*PAIRS[:-1], {**PAIRS[-1], "label": 7}], settings={"x": 1}).fingerprint != store.fingerprint
    assert build(tmp_path, PAIRS[::-1], settings={"x": 2}).fingerprint != store.fingerprint


def test_every_setting_of_a_field_is_in_its_key():
    """A setting that is added later is in the key without anyone thinking of it."""
    for field in (TextField(BPE, DROPOUT), NumbersField(5)):
        assert field.settings().keys() == {one.name for one in dataclasses.fields(field)}


def test_too_long_examples_are_left_out_and_counted_by_reason(tmp_path: Path):
    byte = tiny_tokenizer("byte")
    rows = [{"source": "a" * n, "target": "b" * m} for n, m in [(3, 3), (9, 3), (3, 9), (9, 9), (4, 4), (5, 3)]]
    store = build(tmp_path, rows, {"source": TextField(byte, max_length=5), "target": TextField(byte, max_length=6)})
    assert len(store) == 2
    assert store.skipped == {"source longer than 5 tokens": 3, "target longer than 6 tokens": 1}
    assert store.lengths["source"].tolist() == [4, 5]
    assert build(tmp_path, rows, store.fields).skipped == store.skipped


def test_too_long_texts_may_be_cut_and_counted_instead(tmp_path: Path):
    byte = tiny_tokenizer("byte")
    cut = TextField(byte, begin=True, max_length=5, overlong="cut")
    store = build(tmp_path, [{"text": "abcdef"}, {"text": "abc"}, {"text": ""}], {"text": cut})
    a, b, c = (7 + ord(letter) for letter in "abc")
    assert everything(store, "text") == [[BOS, a, b, c, EOS], [BOS, a, b, c, EOS], [BOS, EOS]]
    assert store.cut == {"text longer than 5 tokens": 1}
    assert store.skipped == {}


SAMPLED = {"source": TextField(BPE, sampler=DROPOUT), "target": TextField(tiny_tokenizer("bpe"))}


def test_sampled_text_is_a_pure_function_of_seed_epoch_and_example(tmp_path: Path):
    store, other = build(tmp_path / "a", fields=SAMPLED), build(tmp_path / "b", fields=SAMPLED)
    whole = everything(store, "source", seed=1, epoch=2)
    for i in (5, 0, 39):
        assert other.gather("source", np.array([i]), seed=1, epoch=2).rows() == [whole[i]]
    assert everything(store, "source", seed=1, epoch=3) != whole
    assert everything(store, "source", seed=2, epoch=2) != whole
    assert whole[0] != whole[8]  # the same sentence, another example
    assert [BPE.decode(row) for row in whole] == [row["source"] for row in PAIRS]
    assert all(row[-1] == EOS for row in whole)
    assert everything(store, "target", seed=1, epoch=2) == everything(store, "target", seed=5, epoch=5)


@pytest.mark.parametrize("overlong", ["skip", "cut"])
def test_sampled_text_never_needs_more_than_the_planned_room(tmp_path: Path, overlong: str):
    unigram = tiny_tokenizer("unigram")
    field = TextField(unigram, UnigramSampling(unigram.core, alpha=0.1), max_length=48, overlong=overlong)
    store = build(tmp_path, fields={"source": field})
    assert len(store) == (40 if overlong == "cut" else 40 - sum(store.skipped.values()))
    assert store.lengths["source"].max() <= 48
    for epoch in range(10):
        lengths = store.gather("source", np.arange(len(store)), epoch=epoch).lengths
        assert (lengths <= store.lengths["source"]).all()


def test_sampled_text_is_no_stream(tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot be read as one fixed stream"):
        build(tmp_path, fields=SAMPLED).stream("source")


def test_nothing_at_all_is_a_store_too(tmp_path: Path):
    store = build(tmp_path, rows=[])
    assert len(store) == 0
    assert store.lengths["source"].tolist() == []
    assert len(store.stream("source")) == 0


def test_a_wrong_number_in_the_description_is_found(tmp_path: Path):
    file = build(tmp_path).folder / "store.json"
    file.write_text(file.read_text().replace('"examples": 40', '"examples": 39'))
    with pytest.raises(DataError, match=r"the checksum of store\.json is wrong"):
        build(tmp_path)


@pytest.mark.parametrize("junk", ["[]", "3", "null", '{"sha256": 1}', "[" * 100_000])
def test_a_description_that_is_none_is_refused(tmp_path: Path, junk: str):
    (build(tmp_path).folder / "store.json").write_text(junk)
    with pytest.raises(DataError, match="damaged"):
        build(tmp_path)


@pytest.mark.parametrize("name", ["source.tokens", "source.offsets", "label.labels", "store.json"])
@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_any_damage_is_named(tmp_path: Path, name: str, harm: str):
    file = build(tmp_path).folder / name
    data = bytearray(file.read_bytes())
    if harm == "remove":
        file.rename(file.with_name("elsewhere"))
    else:
        data[len(data) // 2] ^= 1
        file.write_bytes(data if harm == "flip" else data[:-1])
    if (name, harm) == ("store.json", "remove"):
        return  # then it is no store, and is written anew
    with pytest.raises(DataError, match=r"damaged .*; delete the folder and run again"):
        build(tmp_path)


def test_what_was_interrupted_leaves_nothing(tmp_path: Path):
    def rows() -> Iterator[Row]:
        yield from PAIRS
        raise DataError("train.txt", "broken", line=41)

    with pytest.raises(DataError, match=r"train\.txt:41"):
        open_store(rows, FIELDS, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert len(build(tmp_path)) == 40


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_writing.ArrayFile, "write", full)
    with pytest.raises(Failure, match="the disk is full"):
        build(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_is_no_folder_is_named(tmp_path: Path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(DataError, match="cache: no folder can be made here"):
        build(tmp_path / "cache")


def test_another_process_may_be_faster(tmp_path: Path):
    def rows() -> Iterator[Row]:
        build(tmp_path)  # the other process, while this one is still writing
        yield from PAIRS

    store = open_store(rows, FIELDS, ["label"], cache=tmp_path)
    assert len(store) == 40
    assert [folder.name for folder in tmp_path.iterdir()] == [store.folder.name]


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"none\.txt: no such file"):
        file_sha256(tmp_path / "none.txt")


@given(st.lists(st.integers(0, 40), max_size=60))
@settings(max_examples=50)
def test_chunks_hold_every_row_once_and_stay_small(lengths: list[int]):
    rows = [{"text": "x" * length, "number": i} for i, length in enumerate(lengths)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_writing, "ROWS_AT_ONCE", 7)
        patch.setattr(store_writing, "CHARACTERS_AT_ONCE", 50)
        parts = list(chunks(rows, ["text"]))
    assert [row for part in parts for row in part] == rows
    assert all(len(part) <= 7 and sum(len(row["text"]) for row in part[:-1]) < 50 for part in parts)


def test_rows_are_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store_writing, "ROWS_AT_ONCE", 4)
    written: list[int] = []
    original = store_writing.ArrayFile.write

    def watch(self: store_writing.ArrayFile, numbers: np.ndarray) -> None:
        written.append(len(numbers))
        original(self, numbers)

    def rows() -> Iterator[Row]:
        for i, row in enumerate(PAIRS):
            assert i < 16 or len(written) > i // 4  # a few chunks are read ahead; what came before is written by then
            yield row

    monkeypatch.setattr(store_writing.ArrayFile, "write", watch)
    assert len(open_store(rows, FIELDS, cache=tmp_path)) == 40
