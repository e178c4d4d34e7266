"""Tokenizers from elsewhere cut and write every text as `AutoTokenizer` does, and go back as they came."""

import json
from pathlib import Path
from typing import Any

import pytest
from foreign_folders import ODD, TOKENIZERS, bert_tokenizer, marian, saved, without_json
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import ENGLISH
from transformers import AutoTokenizer

from regard.errors import ConfigError, DataError
from regard.export.huggingface.import_model import read_folder
from regard.text.id_mapping import IdMapping
from regard.text.special_tokens import BOS, CLS, EOS, MASK, PAD, SEP, SPECIAL_TOKENS, UNK
from regard.text.tokenizer import BpeConfig, Tokenizer

ANY_TEXT = st.one_of(st.sampled_from(ENGLISH + ODD), st.text(), st.text("aecThis .,'▁\t\n<>/s[]MASK", max_size=30))


@pytest.fixture(scope="module", params=TOKENIZERS)
def both(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, Any]:
    folder = tmp_path_factory.mktemp("theirs")
    _, theirs = saved(request.param, folder)
    return read_folder(folder).tokenizers[0], theirs


@settings(max_examples=60, deadline=None)
@given(text=ANY_TEXT)
def test_every_text_has_the_ids_that_auto_tokenizer_gives(both: tuple[Tokenizer, Any], text: str) -> None:
    ours, theirs = both
    assert ours.id_mapping is not None
    plain = theirs(text, add_special_tokens=False)["input_ids"]
    assert ours.id_mapping.to_foreign(ours.encode(text, prefix=False)) == plain
    assert ours.encode_batch([text, text]) == [ours.encode(text)] * 2
    assert ours.decode(ours.encode(text)) == theirs.decode(plain, skip_special_tokens=True)
    assert [piece.id for piece in ours.pieces(text)] == ours.encode(text, prefix=False)
    if ours.prefix_ids:
        assert ours.id_mapping.to_foreign([*ours.encode(text), EOS]) == theirs(text)["input_ids"]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_whatever_a_model_writes_becomes_the_same_text(both: tuple[Tokenizer, Any], data: st.DataObject) -> None:
    ours, theirs = both
    assert ours.id_mapping is not None
    ids = data.draw(st.lists(st.integers(0, ours.id_mapping.size - 1), max_size=12))
    assert ours.decode(ours.id_mapping.from_foreign(ids)) == theirs.decode(ids, skip_special_tokens=True)
    assert ours.id_mapping.to_foreign(ours.id_mapping.from_foreign(ids)) == ids


def test_a_saved_vocabulary_is_the_same_when_it_is_loaded(both: tuple[Tokenizer, Any], tmp_path: Path) -> None:
    ours, theirs = both
    ours.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.identity == ours.identity
    assert again.encode_batch(ENGLISH) == ours.encode_batch(ENGLISH)
    assert len({*again.names}) == again.vocab_size
    assert "".join(again.tokens(again.encode("The cat", prefix=False))).replace("▁", " ").lower().strip() == "the cat"
    kept, given = (json.loads(one.to_str())["model"] for one in (ours.core, theirs.backend_tokenizer))
    assert kept == given


@pytest.mark.parametrize("name", TOKENIZERS)
def test_older_files_give_the_tokenizer_that_transformers_makes_of_them(name: str, tmp_path: Path) -> None:
    _, theirs = saved(name, tmp_path)
    before = read_folder(tmp_path).tokenizers[0]
    without_json(name, tmp_path)
    ours = read_folder(tmp_path).tokenizers[0]
    assert ours.id_mapping == before.id_mapping
    for text in [*ENGLISH, *ODD]:
        plain = theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.id_mapping is not None
        assert ours.id_mapping.to_foreign(ours.encode(text, prefix=False)) == plain, text
        assert ours.decode(ours.encode(text)) == theirs.decode(plain, skip_special_tokens=True)


def test_a_marian_cuts_each_side_by_its_own_model(tmp_path: Path) -> None:
    marian(tmp_path)
    source, target = read_folder(tmp_path).tokenizers
    table = json.loads((tmp_path / "vocab.json").read_text())
    assert source.id_mapping is not None
    assert target.id_mapping is not None

    def ids(*names: str) -> list[int]:
        return [table[name] for name in names]

    assert source.id_mapping.to_foreign(source.encode("the cat\tsah", prefix=False)) == ids(
        "▁the", "▁cat", "▁s", "a", "h"
    )
    assert target.id_mapping.to_foreign(target.encode("die katze sah", prefix=False)) == ids("▁die", "▁katze", "▁sah")
    assert source.encode("see x", prefix=False) == [
        *source.encode("s", prefix=False),
        UNK,
        *source.encode("x", prefix=False),
    ]  # 'ee' has no number, 'x' no piece
    assert source.id_mapping.to_foreign(source.encode(">>de<< the", prefix=False)) == ids(">>de<<", "▁the")
    assert target.decode(target.id_mapping.from_foreign(ids("▁die", "▁cat", "s", "</s>"))) == "die cats"
    assert (source.id_mapping.special[PAD], source.id_mapping.special[BOS]) == (table["<pad>"], table["<pad>"])
    assert source.id_mapping.special[EOS] == table["</s>"]


def test_spaces_are_cleaned_up_where_the_folder_wants_it(tmp_path: Path) -> None:
    bert_tokenizer(clean_up_tokenization_spaces=True).save_pretrained(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    core = theirs.backend_tokenizer
    ours = Tokenizer(core, IdMapping((0, 2, -1, 4, 5, 4, 3), len(theirs), (CLS,), tidy=True))
    ids = theirs("the cat ' s don ' t , so .", add_special_tokens=False)["input_ids"]
    assert ours.decode(ours.encode("the cat ' s don ' t , so .", prefix=False)) == theirs.decode(
        ids, skip_special_tokens=True
    )


NUMBERS = st.builds(
    IdMapping,
    st.lists(st.integers(-1, 11), min_size=7, max_size=7).map(tuple),
    st.just(12),
)


@given(NUMBERS)
def test_numbers_lead_there_and_back(id_mapping: IdMapping) -> None:
    assert id_mapping.problem is None
    assert [id_mapping.foreign_ids[own] for own in id_mapping.our_ids] == list(range(id_mapping.size))
    assert {*id_mapping.our_ids} | {*id_mapping.never} == set(range(len(id_mapping.foreign_ids)))
    assert not {*id_mapping.our_ids} & {*id_mapping.never}
    for one, other in id_mapping.same:
        assert id_mapping.foreign_ids[one] == id_mapping.foreign_ids[other]
        assert other in id_mapping.our_ids


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ("{", "not the id mapping of a vocabulary"),
        ('{"special": [0], "size": 9, "first": [], "tidy": false}', "expected 7 special tokens"),
        ('{"special": [0,1,2,3,4,5,99], "size": 9, "first": [], "tidy": false}', "below 9"),
        ('{"special": [0,1,2,3,4,5,6], "size": 999999999999, "first": [], "tidy": false}', "a size up to"),
        ('{"special": [0,1,2,3,4,5,6], "size": 9, "first": [7], "tidy": false}', "first: got [7]"),
        ('{"special": [0,1,2,3,4,5,true], "size": 9, "first": [], "tidy": false}', "expected integers"),
        ('{"special": [0,1,2,3,4,5,6], "size": 9}' + " " * 5000, "more than 4,096 bytes"),
    ],
)
def test_numbers_that_cannot_be_are_refused(tree: str, words: str, tmp_path: Path) -> None:
    Tokenizer.train(ENGLISH, BpeConfig(size=300)).save(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.numbers.json").write_text(tree)
    with pytest.raises(DataError) as error:
        Tokenizer.load(tmp_path / "tokenizer.json")
    assert words in str(error.value)


def test_an_imported_vocabulary_always_cuts_alike(both: tuple[Tokenizer, Any]) -> None:
    ours, _ = both
    assert ours.sampler(BpeConfig()) is None
    with pytest.raises(ConfigError, match="leave dropout and alpha out"):
        ours.sampler(BpeConfig(dropout=0.1))


def test_special_tokens_are_found(tmp_path: Path) -> None:
    saved("BERT", tmp_path)
    ours = read_folder(tmp_path).tokenizers[0]
    assert ours.id_mapping is not None
    names = {own: ours.core.id_to_token(number) for own, number in enumerate(ours.id_mapping.special) if number >= 0}
    assert names == {PAD: "[PAD]", UNK: "[UNK]", EOS: "[SEP]", MASK: "[MASK]", SEP: "[SEP]", CLS: "[CLS]"}
    assert ours.tokens(ours.encode("[MASK] cat"))[:3] == [SPECIAL_TOKENS[CLS], SPECIAL_TOKENS[MASK], "▁cat"]
    assert ours.mask == "[MASK]"
