"""A Marian's tokenizer beside transformers' own class, with SentencePiece's encoder written out in Python.

The sentencepiece library is no requirement, so the class runs over the reference below: SentencePiece's normalisation
and its search for the likeliest pieces as its documents define them, with nothing in common with `text/marian.py`.
"""

import importlib
import json
import math
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from foreign_folders import charsmap, marian, sentencepiece, typed
from odd_texts import SURROGATES, TEXTS

from regard.errors import DataError
from regard.export.exported_model import ExportedModel
from regard.export.huggingface.tokenizer_files import write_tokenizers
from regard.export.huggingface.vocabulary import read_vocabularies
from regard.text.id_mapping import IdMapping
from regard.text.marian import CharacterTable
from regard.text.special_tokens import EOS
from regard.text.tokenizer import Tokenizer

REPLACED = {"\t": " ", "\n": " ", "\u00a0": " ", "\u3000": " ", "ﬁ": "fi", "…": "...", "e\u0301": "é", "e": "e",
            "½": "1 2", "\u200b": "", "Ａ": "A", "＜": "<", "＞": ">", "\x01": ""}  # fmt: skip
ENGLISH = [
    "▁the",
    "▁cat",
    "▁",
    "t",
    "h",
    "e",
    "c",
    "a",
    "s",
    "▁s",
    "ee",
    "x",
    "▁a",
    "é",
    "1",
    "2",
    ".",
    "<",
    ">",
    "d",
    "i",
]
GERMAN = [
    "▁die",
    "▁katze",
    "▁",
    "d",
    "i",
    "e",
    "k",
    "a",
    "t",
    "z",
    "s",
    "▁sah",
    "h",
    "ß",
    "世",
    "zk",
    "世界",
    "<",
    ">",
    "é",
]

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


class Processor:
    """SentencePiece's unigram encoder and its decoder."""

    def __init__(self, **settings: Any) -> None:
        assert not settings

    def Load(self, path: str) -> None:
        from transformers.convert_slow_tokenizer import import_protobuf

        proto = import_protobuf().ModelProto()
        proto.ParseFromString(Path(path).read_bytes())
        self.pieces = [(one.piece, one.score, one.type) for one in proto.pieces]
        self.scores = {text: score for text, score, kind in self.pieces if kind == 1}
        self.unknown = min(self.scores.values()) - 10.0
        self.replaced = REPLACED if proto.normalizer_spec.precompiled_charsmap else {}

    def encode(self, text: str, out_type: type) -> list[str]:
        assert out_type is str
        text = self._normalised(text)
        best: list[tuple[float, int, bool]] = [(0.0, 0, False)] + [(-math.inf, 0, False)] * len(text)
        for start in range(len(text)):
            single = False
            for end in range(start + 1, min(start + 9, len(text) + 1)):  # no piece is longer than eight
                if (score := self.scores.get(text[start:end])) is not None:
                    single = single or end == start + 1
                    best[end] = max(best[end], (best[start][0] + score, start, False), key=lambda one: one[0])
            if not single:
                reached = (best[start][0] + self.unknown, start, True)
                best[start + 1] = max(best[start + 1], reached, key=lambda one: one[0])
        spans, end = [], len(text)
        while end:
            _, start, unknown = best[end]
            spans.append((start, end, unknown))
            end = start
        merged: list[tuple[str, bool]] = []
        for start, end, unknown in reversed(spans):
            if unknown and merged and merged[-1][1]:
                merged[-1] = merged[-1][0] + text[start:end], True
            else:
                merged.append((text[start:end], unknown))
        return [piece for piece, _ in merged]

    def _normalised(self, text: str) -> str:
        result, start = "", 0
        while start < len(text):
            keys = [text[start : start + size] for size in (2, 1) if text[start : start + size] in self.replaced]
            result += self.replaced[keys[0]] if keys else text[start]
            start += len(keys[0]) if keys else 1
        words = [word for word in result.split(" ") if word]
        return "".join(f"▁{word}" for word in words).rstrip("▁")

    def decode_pieces(self, pieces: list[str]) -> str:
        return "".join(pieces).replace("▁", " ").removeprefix(" ")

    def IdToPiece(self, index: int) -> str:
        return self.pieces[index][0]


@pytest.fixture(scope="module")
def library() -> Iterator[Any]:
    """transformers' MarianTokenizer over the reference."""
    module = ModuleType("sentencepiece")
    module.SentencePieceProcessor = Processor  # type: ignore[attr-defined]
    before = sys.modules.get("sentencepiece")
    sys.modules["sentencepiece"] = module
    try:
        yield importlib.import_module("transformers.models.marian.tokenization_marian").MarianTokenizer
    finally:
        sys.modules.pop("sentencepiece")
        if before is not None:
            sys.modules["sentencepiece"] = before


def written(folder: Path, **settings: Any) -> Path:
    folder.mkdir(exist_ok=True)
    names = list(dict.fromkeys(["</s>", "<unk>", *ENGLISH[:-1], *GERMAN, ">>de<<", "<pad>"]))
    names = [name for name in names if name != "ee"]  # a piece without an id
    tables = {"vocab.json": names}
    if settings.get("separate_vocabs"):
        tables = {"vocab.json": names, "target_vocab.json": [*names[:2], *reversed(names[2:-1]), names[-1]]}
    for name, table in tables.items():
        (folder / name).write_text(json.dumps({one: number for number, one in enumerate(table)}))
    for side, found in (("source", ENGLISH), ("target", GERMAN)):
        first = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)]
        scored = [*first, *((text, -2.0 - place / 8) for place, text in enumerate(found))]
        (folder / f"{side}.spm").write_bytes(sentencepiece(typed(scored), precompiled_charsmap=charsmap(REPLACED)))
    config = {
        "model_type": "marian",
        "eos_token_id": 0,
        "pad_token_id": len(names) - 1,
        "decoder_start_token_id": len(names) - 1,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer", **settings}))
    return folder


def read(folder: Path) -> list[Tokenizer]:
    size = len(json.loads((folder / "vocab.json").read_text()))
    return read_vocabularies(folder, json.loads((folder / "config.json").read_text()), "encoder-decoder", [size, size])


LISTED = {"0": {"content": "</s>", "special": True}, "1": {"content": "<unk>", "special": True}}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "as Opus-MT": {"source_lang": "en", "target_lang": "de", "added_tokens_decoder": LISTED,
                   "additional_special_tokens": [], "model_max_length": 512, "sp_model_kwargs": {},
                   "clean_up_tokenization_spaces": True},
    "two vocabularies": {"separate_vocabs": True},
    "split special tokens": {"split_special_tokens": True},
}  # fmt: skip


def compare(ours: list[Tokenizer], theirs: Any) -> None:
    for side, tokenizer in zip(("text", "text_target"), ours, strict=True):
        assert tokenizer.id_mapping is not None
        for text in [
            *TEXTS,
            "Straße katze 世界",
            "zkx",
            "＜/s＞",
            ">>de<< the>>de<<cat",
            "</s>>>de<<the",
            ">>a</s>b<<",
            "the e\u0301",
        ]:
            ids = theirs(**{side: text}, add_special_tokens=False, verbose=False)["input_ids"]
            assert tokenizer.id_mapping.to_foreign(tokenizer.encode(text, prefix=False)) == ids, (side, text)
            assert [piece.id for piece in tokenizer.pieces(text)] == tokenizer.encode(text, prefix=False)
            assert all(0 <= piece.start <= piece.end <= len(text) for piece in tokenizer.pieces(text))
            whole = theirs(**{side: text}, verbose=False)["input_ids"]
            assert tokenizer.id_mapping.to_foreign([*tokenizer.encode(text), EOS]) == whole
    target = ours[-1]
    assert target.id_mapping is not None
    for text in TEXTS:
        ids = theirs(text_target=text, verbose=False)["input_ids"]
        assert target.decode(target.id_mapping.from_foreign(ids)) == theirs.decode(ids, skip_special_tokens=True), text


@pytest.mark.parametrize("name", SETTINGS)
def test_texts_are_tokenised_as_by_marian_tokenizer(name: str, library: Any, tmp_path: Path) -> None:
    folder = written(tmp_path, **SETTINGS[name])
    compare(read(folder), library.from_pretrained(folder))


def test_an_exported_marian_is_a_marian_again(library: Any, tmp_path: Path) -> None:
    ours = read(written(tmp_path / "theirs", **SETTINGS["as Opus-MT"]))
    (tmp_path / "out").mkdir()
    exported = ExportedModel(None, None, "translation", dict(zip(("source", "target"), ours, strict=True)), length=48)  # type: ignore[arg-type]
    write_tokenizers(exported, tmp_path / "out")
    compare(ours, library.from_pretrained(tmp_path / "out"))
    (tmp_path / "out" / "config.json").write_text((tmp_path / "theirs" / "config.json").read_text())
    again = read(tmp_path / "out")
    assert [one.id_mapping for one in again] == [one.id_mapping for one in ours]
    for one, other in zip(again, ours, strict=True):
        assert one.encode_batch(TEXTS) == other.encode_batch(TEXTS)


def test_a_saved_marian_is_the_same_when_it_is_loaded(tmp_path: Path) -> None:
    (source, _) = read(written(tmp_path))
    source.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.identity == source.identity
    assert again.encode_batch(TEXTS) == source.encode_batch(TEXTS)
    for text in SURROGATES:
        with pytest.raises(DataError, match="is a lone surrogate"):
            again.encode(text)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bos_token": "<s>"}, "bos_token: expected none for a MarianTokenizer"),
        ({"additional_special_tokens": ["<x>"]}, "added token '<x>'"),
        ({"pad_token": "<nothing>"}, "has no '<nothing>', the pad_token"),
        ({"added_tokens_decoder": {"5": {"content": "</s>", "special": True}}}, "expected the id of vocab.json, got 5"),
        ({"added_tokens_decoder": {"0": {"content": "</s>", "lstrip": True}}}, "without lstrip, rstrip or single_word"),
        ({"sp_model_kwargs": {"enable_sampling": True}}, "sp_model_kwargs: expected {} or None"),
        ({"separate_vocabs": "yes"}, "separate_vocabs: expected true or false"),
    ],
)
def test_settings_that_a_marian_cannot_have_are_refused(settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read(written(tmp_path, **settings))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("algorithm", "normaliser", "words"),
    [
        (2, {}, "model_type: expected unigram"),
        (1, {"add_dummy_prefix": False}, "add_dummy_prefix: expected true"),
        (1, {"remove_extra_whitespaces": False}, "remove_extra_whitespaces: expected true"),
        (1, {"escape_whitespaces": False}, "escape_whitespaces: expected true"),
        (1, {"precompiled_charsmap": b"abc"}, "the table of replaced characters ends too early"),
        (1, {"precompiled_charsmap": struct.pack("<I", 999)}, "has another size than it says"),
    ],
)
def test_models_that_marian_does_not_have_are_refused(
    algorithm: int, normaliser: dict[str, Any], words: str, tmp_path: Path
) -> None:
    folder = written(tmp_path)
    model = sentencepiece(typed([("<unk>", 0.0), ("a", -1.0)]), algorithm, **normaliser)
    (folder / "source.spm").write_bytes(model)
    with pytest.raises(DataError) as error:
        read(folder)
    assert words in str(error.value)


def test_a_folder_without_one_of_the_files_is_refused(tmp_path: Path) -> None:
    marian(tmp_path)
    (tmp_path / "target.spm").unlink()
    with pytest.raises(
        DataError, match=r"has no target.spm; a MarianTokenizer needs source.spm, target.spm, vocab.json"
    ):
        read(tmp_path)


def test_characters_are_replaced_by_the_longest_match() -> None:
    table = CharacterTable(charsmap(REPLACED))
    assert table.normalise(" e\u0301e ﬁ…\t\tx ") == ("▁ée▁fi...▁x", [0, 1, 3, 4, 5, 5, 6, 6, 6, 7, 9, 11])
    assert CharacterTable(b"").normalise("a  b") == ("▁a▁b", [0, 0, 1, 3, 4])
    assert table.normalise("\u200b ") == ("", [2])


def test_numbers_beside_a_tokenizer_keep_its_flags(tmp_path: Path) -> None:
    id_mapping = IdMapping((0, 1, 2, 3, -1, -1, -1), 9, tidy=True, split_special=True, marian=True)
    id_mapping.save(tmp_path / "tokenizer.json")
    assert IdMapping.load(tmp_path / "tokenizer.json") == id_mapping
