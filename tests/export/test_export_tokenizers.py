"""Our own tokenizers of every kind and setting, exported: `AutoTokenizer` gives the run's ids and the run's text."""

import json
from pathlib import Path
from typing import Any

import pytest
from odd_texts import TEXTS
from tiny import ENGLISH, GERMAN
from transformers import AutoTokenizer

from regard.export.exported_model import ExportedModel
from regard.export.huggingface.tokenizer_files import write_tokenizer
from regard.export.huggingface.vocabulary import read_vocabularies
from regard.text.special_tokens import BOS, EOS, SPECIAL_TOKENS, UNK
from regard.text.tokenizer import BpeConfig, ByteConfig, CharConfig, Tokenizer, UnigramConfig, WordConfig

TRAINED = (ENGLISH + GERMAN) * 4
KINDS: dict[str, Any] = {
    "bpe": BpeConfig(size=300),
    "bpe with a space": BpeConfig(size=300, prefix_space=True),
    "bpe with dropout": BpeConfig(size=300, dropout=0.3),
    "bpe lower nfkc": BpeConfig(size=300, lowercase=True, normalise="nfkc", prefix_space=True),
    "unigram": UnigramConfig(size=300),
    "unigram sampled nfc": UnigramConfig(size=300, alpha=0.2, normalise="nfc", prefix_space=True),
    "words": WordConfig(),
    "words and marks": WordConfig(split="punctuation", lowercase=True, size=20),
    "words nfkc": WordConfig(normalise="nfkc", min_count=5),
    "characters": CharConfig(),
    "characters lower nfc": CharConfig(lowercase=True, normalise="nfc", size=280),
    "bytes": ByteConfig(),
    "bytes lower nfkc": ByteConfig(lowercase=True, normalise="nfkc"),
}
TASKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "translation": ("pegasus", "encoder-decoder", {}),
    "classification": ("bert", "encoder", {}),
    "language_model": ("gpt2", "decoder", {"documents": True}),
    "running text": ("llama", "decoder", {"documents": False}),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("task", TASKS)
def test_an_exported_tokenizer_gives_the_ids_of_the_run(name: str, task: str, tmp_path: Path) -> None:
    ours = Tokenizer.train(TRAINED, KINDS[name])
    model_type, shape, more = TASKS[task]
    kind = "language_model" if task == "running text" else task
    exported = ExportedModel(None, None, kind, {"text": ours}, length=48, **more)  # type: ignore[arg-type]
    write_tokenizer(ours, exported, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    ids = ours.encode_batch(TEXTS)
    assert theirs(TEXTS, add_special_tokens=False, verbose=False)["input_ids"] == ids
    before, after = {"encoder": ([], [EOS]), "encoder-decoder": ([], [EOS])}.get(shape, ([BOS], []))
    if task == "running text":
        before = []
    assert theirs(TEXTS, verbose=False)["input_ids"] == [[*before, *one, *after] for one in ids]
    known = [one for one in ids if UNK not in one]  # transformers leaves unknown words out, we show them
    assert theirs.batch_decode(known, skip_special_tokens=True) == ours.decode_batch(known)
    (again,) = read_vocabularies(tmp_path, {"model_type": model_type}, shape, [ours.vocab_size])
    assert again.id_mapping is None
    assert again.identity == ours.identity


@pytest.mark.parametrize(
    "change",
    [{"split_special_tokens": False}, {"clean_up_tokenization_spaces": True}, {"additional_special_tokens": ["cat"]}],
)
def test_settings_of_an_export_that_somebody_changed_are_honoured(change: dict[str, Any], tmp_path: Path) -> None:
    ours = Tokenizer.train(TRAINED, WordConfig())
    exported = ExportedModel(None, None, "classification", {"text": ours}, length=48)  # type: ignore[arg-type]
    write_tokenizer(ours, exported, tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**config, **change}))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    (again,) = read_vocabularies(tmp_path, {"model_type": "bert"}, "encoder", [len(theirs)])
    assert again.id_mapping is not None
    texts = [*TEXTS, *SPECIAL_TOKENS, "a <eos> cat , sleeps ."]
    ids = theirs(texts, add_special_tokens=False, verbose=False)["input_ids"]
    assert [again.id_mapping.to_foreign(one) for one in again.encode_batch(texts, prefix=False)] == ids
    decoded = [theirs.decode(one, skip_special_tokens=True) for one in ids]
    assert [again.decode(again.id_mapping.from_foreign(one)) for one in ids] == decoded
