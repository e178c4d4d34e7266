"""Every kind of tokenizer folder in many settings beside `AutoTokenizer`: ids, special tokens and decoded text."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import transformers
from odd_texts import SURROGATES, TEXTS
from tokenizer_folders import KINDS, OLDER_KINDS, SETTINGS, SHAPES, make_folder
from tokenizers import processors
from transformers import AutoTokenizer

from regard.errors import DataError
from regard.export.exported_model import ExportedModel
from regard.export.huggingface import vocabulary
from regard.export.huggingface.tokenizer_classes import load_tokenizer
from regard.export.huggingface.tokenizer_files import write_tokenizer
from regard.export.huggingface.vocabulary import read_vocabularies
from regard.text.special_tokens import BOS, EOS
from regard.text.tokenizer import Tokenizer, WordConfig

ALWAYS = {
    "plain": KINDS.keys(),
    "added tokens": KINDS.keys(),
    "general class": ("BERT", "T5"),
    "without a class": ("Llama", "BERT"),
    "class as once called": ("GPT-2",),
    "additional special tokens": ("T5", "Pegasus"),
    "extra special tokens": ("GPT-NeoX",),
    "split special tokens": ("BERT", "words"),
    "cleaned up": ("BERT", "Llama", "unigram with bytes"),
    "prefix space": ("GPT-2", "Llama"),
    "no prefix space": ("Llama",),
    "legacy": ("Llama",),
    "cased": ("BERT",),
    "accents kept": ("BERT",),
    "Chinese in words": ("BERT",),
    "few sentinels": ("T5",),
    "begin": ("GPT-2", "Llama", "byte-level Llama"),
}
"""Settings and the kinds that they change; all others of each kind are compared by the slow tests."""
SLOW = pytest.mark.slow
CASES = [
    pytest.param(kind, setting, files, marks=[] if kind in ALWAYS.get(setting, ()) else SLOW)
    for files, kinds in (("tokenizer.json", KINDS), ("older", OLDER_KINDS))
    for kind in kinds
    for setting in SETTINGS
]
CASES += [pytest.param(kind, "plain", "older with added tokens") for kind in OLDER_KINDS]


def pipeline_json(core: Any) -> str:
    """A tokenizer as JSON, without truncation and padding."""
    tree = json.loads(core.to_str())
    return json.dumps({**tree, "truncation": None, "padding": None}, sort_keys=True)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("folders")


@pytest.fixture(autouse=True)
def without_sentencepiece(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """transformers reads .model files by protobuf alone, but wants sentencepiece installed."""
    # By its name: as an attribute of the package it may be the function of the same name.
    monkeypatch.setattr(import_module("transformers.convert_slow_tokenizer"), "requires_backends", lambda *_: None)
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    yield
    transformers.logging.set_verbosity(level)


def ids_of(theirs: Any, texts: list[str], special: bool) -> list[list[int]]:
    return theirs(texts, add_special_tokens=special, verbose=False)["input_ids"]


@pytest.mark.parametrize(("kind", "setting", "files"), CASES)
def test_ids_and_text_are_those_of_auto_tokenizer(kind: str, setting: str, files: str, base: Path) -> None:
    folder = make_folder(kind, setting, base, files)
    settings = json.loads((folder / "config.json").read_text())
    try:
        theirs = AutoTokenizer.from_pretrained(folder)
    except Exception:  # what the library cannot load is refused here, too
        theirs = None
    if theirs is None:
        assert (setting, files) == ("general class", "older") or (kind, setting) == ("Pegasus", "unknown")
        with pytest.raises(DataError):
            load_tokenizer(folder, settings)
        return
    assert pipeline_json(load_tokenizer(folder, settings).core) == pipeline_json(theirs.backend_tokenizer)
    shape = SHAPES.get(settings["model_type"], "decoder")
    (ours,) = read_vocabularies(folder, settings, shape, [len(theirs)])
    assert ours.id_mapping is not None
    back = ours.id_mapping.to_foreign
    plain, whole = ids_of(theirs, TEXTS, special=False), ids_of(theirs, TEXTS, special=True)
    assert [back(ids) for ids in ours.encode_batch(TEXTS, prefix=False)] == plain
    around = [
        [*ours.prefix_ids, *ids] if shape == "decoder" else [*ours.prefix_ids, *ids, EOS]
        for ids in ours.encode_batch(TEXTS, prefix=False)
    ]
    begins = shape == "decoder" and bool(whole[0])
    assert [back([BOS, *ids] if begins else ids) for ids in around] == whole
    decoded = [theirs.decode(ids, skip_special_tokens=True) for ids in plain]
    assert ours.decode_batch(ours.encode_batch(TEXTS, prefix=False)) == decoded
    exported = AutoTokenizer.from_pretrained(export(ours, settings, shape, folder / "exported"))
    assert ids_of(exported, TEXTS, special=True) == whole
    assert [exported.decode(ids, skip_special_tokens=True) for ids in plain] == decoded


def export(ours: Tokenizer, settings: dict[str, Any], shape: str, folder: Path) -> Path:
    kind = {"encoder": "classification", "decoder": "language_model"}.get(shape, "translation")
    folder.mkdir()
    write_tokenizer(ours, ExportedModel(None, None, kind, {"text": ours}, length=48), folder)  # type: ignore[arg-type]
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def saved_again(ours: Tokenizer, folder: Path) -> Tokenizer:
    ours.save(folder / "tokenizer.json")
    return Tokenizer.load(folder / "tokenizer.json")


def test_a_text_that_is_no_unicode_is_refused_with_a_sentence(tmp_path: Path) -> None:
    folder = make_folder("BERT", "plain", tmp_path, "older")
    (ours,) = read_vocabularies(folder, {"model_type": "bert"}, "encoder", [500])
    own = Tokenizer.train(["a b"], WordConfig(normalise="nfc"))
    for tokenizer in (ours, saved_again(ours, tmp_path), own):
        for text in SURROGATES:
            with pytest.raises(DataError, match="is a lone surrogate"):
                tokenizer.encode(text)
            with pytest.raises(DataError, match="is a lone surrogate"):
                tokenizer.encode_batch([text, "a"])
            with pytest.raises(DataError, match="is a lone surrogate"):
                tokenizer.pieces(text)
            with pytest.raises(DataError, match="is a lone surrogate"):
                tokenizer.normalise(text)


def test_other_special_tokens_around_texts_than_the_librarys_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a class of the library that ignores the post-processor of tokenizer.json."""
    folder = make_folder("byte-level Llama", "plain", tmp_path)
    theirs = AutoTokenizer.from_pretrained(folder)
    read_vocabularies(folder, {"model_type": "llama"}, "decoder", [len(theirs)])
    theirs.backend_tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    monkeypatch.setattr(vocabulary, "_load_library", lambda folder: [theirs])
    with pytest.raises(DataError, match="AutoTokenizer tokenises '' otherwise: with special tokens"):
        read_vocabularies(folder, {"model_type": "llama"}, "decoder", [len(theirs)])
