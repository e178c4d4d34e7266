"""Every key of a tokenizer folder is honoured, listed as without effect, or refuses the import by its name."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
import transformers
from tokenizer_folders import make_folder
from transformers import tokenization_utils_base, tokenization_utils_tokenizers

from regard.errors import DataError
from regard.export.huggingface.tokenizer_config import BOOLEANS, EXPECTED, HONOURED, IRRELEVANT, REFUSED
from regard.export.huggingface.vocabulary import read_vocabularies

CLASSES = ("BertTokenizer", "GPT2Tokenizer", "GPTNeoXTokenizer", "LlamaTokenizer", "T5Tokenizer", "PegasusTokenizer")
INSIDE = {
    "vocab", "merges", "_spm_precompiled_charsmap", "tokenizer_object", "gguf_file", "_json_truncation",
    "_json_padding", "tokenizer_truncation", "tokenizer_padding", "post_processor", "unk_id", "tokenizer", "self",
    "kwargs",
}  # fmt: skip
"""Arguments that the library passes to itself; in a file they are refused."""


def library_keys() -> set[str]:
    """The keys that the installed library reads: arguments of the classes, and what the base classes take."""
    keys = set()
    for name in CLASSES:
        keys |= inspect.signature(getattr(transformers, name).__init__).parameters.keys()
    base, backend = tokenization_utils_base.PreTrainedTokenizerBase, tokenization_utils_tokenizers.TokenizersBackend
    for function in (base.__init__, backend.__init__):
        keys |= set(re.findall(r'kwargs\.(?:pop|get|setdefault)\("(\w+)"', inspect.getsource(function)))
    keys |= set(re.findall(r'init_kwargs(?:\.pop\(|\[)"(\w+)"', inspect.getsource(base._from_pretrained)))
    return keys


def test_every_key_that_the_library_reads_is_in_a_list() -> None:
    known = HONOURED | IRRELEVANT.keys() | EXPECTED.keys() | REFUSED | INSIDE
    assert library_keys() - known == set()


def test_no_key_is_in_two_lists_and_each_has_its_reason() -> None:
    assert not HONOURED & IRRELEVANT.keys()
    assert not HONOURED & EXPECTED.keys()
    assert not IRRELEVANT.keys() & EXPECTED.keys()
    assert all(len(reason) > 20 for reason in IRRELEVANT.values())
    assert set(BOOLEANS) <= HONOURED


def changed(folder: Path, name: str, change: dict[str, Any]) -> Path:
    file = folder / name
    table = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps({**table, **change}))
    return folder


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("tokenizer_config.json", {"brand_new": 1}, "brand_new: regard does not know this setting"),
        ("tokenizer_config.json", {"vocab": {"a": 1}}, "vocab: regard does not know this setting"),
        (
            "tokenizer_config.json",
            {"auto_map": {"AutoTokenizer": ["a.B", None]}},
            "auto_map: its tokenizer is a program",
        ),
        ("tokenizer_config.json", {"auto_map": ["a.B", None]}, "auto_map: its tokenizer is a program"),
        (
            "tokenizer_config.json",
            {"fast_tokenizer_files": ["tokenizer.4.0.json"]},
            "fast_tokenizer_files: expected none",
        ),
        ("tokenizer_config.json", {"fix_mistral_regex": True}, "fix_mistral_regex: expected False or None, got True"),
        ("tokenizer_config.json", {"init_inputs": [1]}, "init_inputs: expected [] or None, got [1]"),
        ("tokenizer_config.json", {"do_lower_case": "no"}, "do_lower_case: expected true or false, got 'no'"),
        ("tokenizer_config.json", {"split_special_tokens": 1}, "split_special_tokens: expected true or false, got 1"),
        ("tokenizer_config.json", {"wordpieces_prefix": "@@"}, "wordpieces_prefix: expected '##', got '@@'"),
        ("tokenizer_config.json", {"padding_side": "top"}, "padding_side: expected 'left' or 'right', got 'top'"),
        ("tokenizer_config.json", {"tokenizer_class": 3}, "tokenizer_class: expected a name, got 3"),
        ("tokenizer_config.json", {"pad_token": 7}, "pad_token: expected a token, got 7"),
        (
            "tokenizer_config.json",
            {"mask_token": {"content": "[MASK]", "special": True}},
            "mask_token: expected a token",
        ),
        ("tokenizer_config.json", {"added_tokens_decoder": {"a": {"content": "x"}}}, "expected ids as keys, got 'a'"),
        ("tokenizer_config.json", {"added_tokens_decoder": []}, "added_tokens_decoder: expected a table of tokens"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"3": "x"}}, "added_tokens_decoder.3: expected a token"),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": {"3": {"content": "x", "lstrip": 1}}},
            "added_tokens_decoder.3.lstrip: expected true or false, got 1",
        ),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": {"3": {"content": "x", "strip": True}}},
            "added_tokens_decoder.3: expected the keys content, lstrip,",
        ),
        ("special_tokens_map.json", {"brand_new": 1}, "special_tokens_map.json: brand_new: regard does not know"),
        ("special_tokens_map.json", {"pad_token": {"content": 1}}, "pad_token: expected a token as a table"),
        ("added_tokens.json", {"x": "1"}, "added_tokens.json: x: expected an id, got '1'"),
        ("tokenizer.json", {"brand_new": 1}, "tokenizer.json: brand_new: expected the keys added_tokens, decoder"),
        ("tokenizer.json", {"model": 3}, "tokenizer.json: model: expected a table"),
        ("tokenizer.json", {"normalizer": {"type": "Unheard"}}, "tokenizer.json: not a tokenizer that regard can use"),
    ],
)
def test_what_is_not_known_refuses_the_import_by_its_name(
    name: str, change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    folder = changed(make_folder("BERT", "plain", tmp_path), name, change)
    with pytest.raises(DataError) as error:
        read_vocabularies(folder, {"model_type": "bert"}, "encoder", [500])
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("words", {"post_processor": None}, "post_processor: expected one token after every text of an encoder"),
        ("unigram with bytes", {"post_processor": None}, "post_processor: expected nothing before a text and its end"),
        ("byte-level Llama", {"post_processor": "end"}, "post_processor: expected at most a begin token before a text"),
        ("words", {"post_processor": "twice"}, "post_processor: expected the text once, in one piece"),
        ("words", {"post_processor": "typed"}, "post_processor: expected the type ids of one text to be 0"),
        ("byte-level Llama", {"dropout": 0.1}, "model.dropout: expected null, got 0.1: it tokenises at random"),
    ],
)
def test_what_stands_around_texts_is_honoured_or_refused(
    kind: str, change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    folder = make_folder(kind, "plain", tmp_path)
    tree = json.loads((folder / "tokenizer.json").read_text())
    text, begin = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
    special = {"[CLS]": {"id": "[CLS]", "ids": [3], "tokens": ["[CLS]"]}}
    made = {
        "type": "TemplateProcessing",
        "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": special,
    }
    end = {"</s>": {"id": "</s>", "ids": [tree["model"].get("vocab", {}).get("</s>", 0)], "tokens": ["</s>"]}} if (
        kind == "byte-level Llama"
    ) else {}  # fmt: skip
    processors = {
        "end": {**made, "single": [text, {"SpecialToken": {"id": "</s>", "type_id": 0}}], "special_tokens": end},
        "twice": {**made, "single": [text, begin, text]},
        "typed": {**made, "single": [{"Sequence": {"id": "A", "type_id": 1}}, begin]},
    }
    if "dropout" in change:
        tree["model"]["dropout"] = change["dropout"]
    else:
        tree["post_processor"] = processors.get(change["post_processor"])
    (folder / "tokenizer.json").write_text(json.dumps(tree))
    config = json.loads((folder / "config.json").read_text())
    shape = {"words": "encoder", "unigram with bytes": "encoder-decoder"}.get(kind, "decoder")
    with pytest.raises(DataError) as error:
        read_vocabularies(folder, config, shape, [900])
    assert words in str(error.value)


def test_a_class_that_builds_another_tokenizer_than_its_file_is_refused(tmp_path: Path) -> None:
    folder = changed(
        make_folder("BERT", "plain", tmp_path), "tokenizer_config.json", {"tokenizer_class": "RobertaTokenizer"}
    )
    with pytest.raises(DataError, match=r"AutoTokenizer tokenises .* otherwise"):
        read_vocabularies(folder, {"model_type": "bert"}, "encoder", [500])


def test_a_class_that_is_not_built_here_is_taken_where_the_library_agrees(tmp_path: Path) -> None:
    folder = changed(
        make_folder("BERT", "plain", tmp_path), "tokenizer_config.json", {"tokenizer_class": "ElectraTokenizer"}
    )
    (ours,) = read_vocabularies(folder, {"model_type": "bert"}, "encoder", [500])
    assert ours.id_mapping is not None


def test_a_class_that_is_not_built_here_needs_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = changed(
        make_folder("BERT", "plain", tmp_path), "tokenizer_config.json", {"tokenizer_class": "ElectraTokenizer"}
    )
    monkeypatch.setattr("regard.export.huggingface.vocabulary.find_spec", lambda _: None)
    with pytest.raises(DataError, match="its tokenizer_class is none that regard builds"):
        read_vocabularies(folder, {"model_type": "bert"}, "encoder", [500])
    folder = changed(folder, "tokenizer_config.json", {"tokenizer_class": "BertTokenizer"})
    assert len(read_vocabularies(folder, {"model_type": "bert"}, "encoder", [500])) == 1


@pytest.mark.parametrize(
    ("kind", "missing", "words"),
    [
        (
            "BERT",
            "vocab.txt",
            "has neither tokenizer.json nor vocab.txt, which the tokenizer_class BertTokenizer needs",
        ),
        ("GPT-2", "merges.txt", "has neither tokenizer.json nor merges.txt"),
        ("T5", "spiece.model", "has neither tokenizer.json nor spiece.model"),
        ("Llama", "tokenizer.model", "has neither tokenizer.json nor tokenizer.model"),
    ],
)
def test_a_folder_without_the_files_of_its_class_is_refused(
    kind: str, missing: str, words: str, tmp_path: Path
) -> None:
    folder = make_folder(kind, "plain", tmp_path, "older")
    (folder / missing).unlink()
    with pytest.raises(DataError) as error:
        read_vocabularies(folder, json.loads((folder / "config.json").read_text()), "decoder", [500])
    assert words in str(error.value)
    assert "save_pretrained" in str(error.value)


def test_special_tokens_without_a_row_are_refused_where_a_text_has_them(tmp_path: Path) -> None:
    folder = make_folder("GPT-NeoX", "extra special tokens", tmp_path)
    rows = len(transformers.AutoTokenizer.from_pretrained(folder)) - 1
    (ours,) = read_vocabularies(folder, {"model_type": "gpt_neox"}, "decoder", [rows])
    assert ours.encode("the cat")
    with pytest.raises(DataError, match="holds the special token"):
        ours.encode("the <x> cat")
    with pytest.raises(DataError, match="tokens, its model's embedding 50 rows"):
        read_vocabularies(folder, {"model_type": "gpt_neox"}, "decoder", [50])
