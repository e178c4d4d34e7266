import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_corpus import CONFIGS, LOSSLESS, tiny_tokenizer

from regard.errors import DataError
from regard.text import tokenizer_file
from regard.text.tokenizer import Tokenizer


def tree_of(kind: str) -> dict[str, Any]:
    return json.loads(tiny_tokenizer(kind).core.to_str())


def write(folder: Path, tree: object) -> Path:
    file = folder / "tokenizer.json"
    file.write_text(tree if isinstance(tree, str) else json.dumps(tree), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"model": ' + "9" * 5000 + "}", "not JSON"),
        ("[]", "expected a table with a table 'model'"),
        ('{"model": 3}', "expected a table with a table 'model'"),
        ('{"model": {"type": "Mystery"}}', "model.type: expected one of BPE, Unigram, WordLevel, got 'Mystery'"),
        ('{"model": {"type": ["BPE"]}}', "model.type"),
    ],
)
def test_what_is_no_tokenizer_is_refused(text: str, problem: str, tmp_path: Path):
    with pytest.raises(DataError, match=r"tokenizer\.json: .*" + problem):
        Tokenizer.load(write(tmp_path, text))


def padding(tree: dict[str, Any]) -> None:
    tree["padding"] = {"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_id": 0, "pad_token": "<pad>"}


def foreign_pattern(tree: dict[str, Any]) -> None:
    tree["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}


def foreign_part(tree: dict[str, Any]) -> None:
    tree["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": "AAAA"}]}


def gap_in_ids(tree: dict[str, Any]) -> None:
    tree["model"]["vocab"][list(tree["model"]["vocab"])[-1]] = 4_000_000_000


def other_specials(tree: dict[str, Any]) -> None:
    tree["added_tokens"][0]["content"] = "[PAD]"


def specials_moved(tree: dict[str, Any]) -> None:
    vocabulary = tree["model"]["vocab"]
    vocabulary["<pad>"], vocabulary["<eos>"] = vocabulary["<eos>"], vocabulary["<pad>"]


def byte_missing(tree: dict[str, Any]) -> None:
    vocabulary = tree["model"]["vocab"]
    vocabulary["zzz"] = vocabulary.pop("!")


def no_unknown(tree: dict[str, Any]) -> None:
    tree["model"]["unk_token"] = "unknown"


def dropout(tree: dict[str, Any]) -> None:
    tree["model"]["dropout"] = 0.5


def merges_of_nothing(tree: dict[str, Any]) -> None:
    tree["model"]["merges"].append(["no", "such"])


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (padding, "padding: expected null"),
        (foreign_pattern, "normalizer, pre_tokenizer or decoder is another's"),
        (foreign_part, "not a tokenizer that regard can use"),
        (gap_in_ids, "without a gap"),
        (other_specials, "added_tokens: expected <pad>"),
        (specials_moved, "model.vocab: expected <pad>"),
        (byte_missing, "1 of the 256 bytes are missing"),
        (dropout, "model.dropout: expected null, got 0.5"),
        (no_unknown, "model.unk_token: expected <unk>, got 'unknown'"),
        (merges_of_nothing, "not a tokenizer that regard can use"),
    ],
)
def test_harm_is_refused_by_name(harm: Any, problem: str, tmp_path: Path):
    tree = tree_of("bpe")
    harm(tree)
    with pytest.raises(DataError, match=problem):
        Tokenizer.load(write(tmp_path, tree))


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(DataError, match="no such file"):
        Tokenizer.load(tmp_path / "none.json")
    with pytest.raises(DataError, match="got a folder"):
        Tokenizer.load(tmp_path)
    (tmp_path / "latin.json").write_bytes(b'{"model": "\xe9"}')
    with pytest.raises(DataError, match="not UTF-8"):
        Tokenizer.load(tmp_path / "latin.json")
    monkeypatch.setattr(tokenizer_file, "LARGEST_FILE", 10)
    with pytest.raises(DataError, match="bytes, but a tokenizer has at most 10; is this the right file"):
        Tokenizer.load(write(tmp_path, tree_of("byte")))


def places(tree: Any, path: tuple = ()) -> list[tuple]:
    """Paths to everything in a tree; of long tables and lists, to some of it."""
    below = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    some = below if len(below) < 30 else [*below[:8], *below[-3:]]
    return [path, *(deeper for key, value in some for deeper in places(value, (*path, key)))]


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just([]), st.just({}),
    st.sampled_from(["ByteLevel", "Fuse", 2**40, -1, {"type": "Sequence"}, {"Regex": "\n"}, [["a", 1]]]),
)  # fmt: skip


@pytest.mark.parametrize("kind", CONFIGS)
def test_any_change_is_either_harmless_or_refused(kind: str, tmp_path: Path):
    original = tree_of(kind)
    paths = [path for path in places(original) if path]

    @given(st.sampled_from(paths), JUNK)
    @settings(max_examples=120, deadline=None)
    def holds(path: tuple, junk: object):
        tree = copy.deepcopy(original)
        owner = tree
        for key in path[:-1]:
            owner = owner[key]
        owner[path[-1]] = junk
        try:
            tokenizer = Tokenizer.load(write(tmp_path, tree))
        except DataError:
            return
        assert all(0 <= i < tokenizer.vocab_size for i in tokenizer.encode("The animal <eos>\n€"))
        assert len(tokenizer.tokens(range(tokenizer.vocab_size))) == tokenizer.vocab_size

    holds()


def test_pieces_that_are_no_bytes_are_shown_as_they_are(tmp_path: Path):
    tree = tree_of("bpe")
    tree["model"]["vocab"]["道"] = len(tree["model"]["vocab"])
    loaded = Tokenizer.load(write(tmp_path, tree))
    assert loaded.tokens([loaded.vocab_size - 1]) == ["道"]
    assert loaded.encode("道") == tiny_tokenizer("bpe").encode("道")


@pytest.mark.parametrize("kind", LOSSLESS)
def test_extra_tokens_beside_the_special_ones_are_refused(kind: str, tmp_path: Path):
    tree = tree_of(kind)
    tree["added_tokens"].append({**tree["added_tokens"][-1], "id": 9_999, "content": "<extra>"})
    with pytest.raises(DataError, match="added_tokens"):
        Tokenizer.load(write(tmp_path, tree))
