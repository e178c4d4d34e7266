from pathlib import Path

import pytest

from regard.errors import DataError
from regard.text.tokenizer import WordConfig, load_tokenizers, save_tokenizers, train_tokenizers

FIELDS = {"source": lambda: ["a house", "a street"], "target": lambda: ["ein Haus", "eine Straße"]}


def test_a_joint_vocabulary_holds_both_sides(tmp_path: Path):
    tokenizers = train_tokenizers(FIELDS, WordConfig(joint=True))
    assert tokenizers["source"] is tokenizers["target"]
    assert tokenizers["source"].decode(tokenizers["source"].encode("a Haus")) == "a Haus"
    assert save_tokenizers(tokenizers, tmp_path) == [tmp_path / "tokenizer.json"]
    loaded = load_tokenizers(["source", "target"], tmp_path)
    assert loaded["source"] is loaded["target"]
    assert loaded["source"].identity == tokenizers["source"].identity


def test_separate_vocabularies_hold_a_side_each(tmp_path: Path):
    tokenizers = train_tokenizers(FIELDS, WordConfig(joint=False))
    assert tokenizers["source"].decode(tokenizers["source"].encode("a Haus")) == "a <unk>"
    assert tokenizers["target"].decode(tokenizers["target"].encode("a Haus")) == "<unk> Haus"
    written = save_tokenizers(tokenizers, tmp_path)
    assert [file.name for file in written] == ["tokenizer.source.json", "tokenizer.target.json"]
    loaded = load_tokenizers(["source", "target"], tmp_path)
    assert {name: tokenizer.identity for name, tokenizer in loaded.items()} == {
        name: tokenizer.identity for name, tokenizer in tokenizers.items()
    }


def test_a_single_field_has_one_vocabulary_either_way(tmp_path: Path):
    tokenizers = train_tokenizers({"text": lambda: ["a b"]}, WordConfig(joint=False))
    assert [file.name for file in save_tokenizers(tokenizers, tmp_path)] == ["tokenizer.json"]


def test_a_folder_without_tokenizers_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match=r"tokenizer\.json: no such file"):
        load_tokenizers(["source", "target"], tmp_path)
