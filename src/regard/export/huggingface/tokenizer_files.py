"""Tokenizers as `AutoTokenizer` loads them: ours with what the task puts around texts, others as they came."""

import base64
import json
from pathlib import Path
from typing import Any

from regard.export.exported_model import Subject
from regard.text.id_mapping import IdMapping
from regard.text.marian import HIDDEN
from regard.text.sentencepiece import write_unigram
from regard.text.special_tokens import BOS, CLS, EOS, MASK, PAD, SEP, SPECIAL_TOKENS, UNK
from regard.text.tokenizer import Tokenizer

NAMED = {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS, "mask": MASK, "sep": SEP, "cls": CLS}


def write_tokenizers(subject: Subject, folder: Path) -> None:
    """tokenizer.json and tokenizer_config.json; a target with a vocabulary of its own has them in `target/`."""
    if subject.source.id_mapping is not None and subject.source.id_mapping.marian:
        _write_marian(subject, subject.source.id_mapping, folder)
        return
    write_tokenizer(subject.source, subject, folder)
    if not subject.joint:
        (folder / "target").mkdir()
        write_tokenizer(subject.target, subject, folder / "target")


def write_tokenizer(tokenizer: Tokenizer, subject: Subject, folder: Path) -> None:
    """The two files of one tokenizer."""
    if tokenizer.id_mapping is not None:
        _write_as_it_came(tokenizer, tokenizer.id_mapping, subject, folder)
    else:
        _write_own(tokenizer, subject, folder)


def _write_own(tokenizer: Tokenizer, subject: Subject, folder: Path) -> None:
    tree = json.loads(tokenizer.core.to_str())
    tree["post_processor"] = _around(subject)
    (folder / "tokenizer.json").write_text(json.dumps(tree, ensure_ascii=False), encoding="utf-8")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": subject.input_tokens or subject.length,
        "padding_side": "left" if subject.continues else "right",
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # "<eos>" in a text is text
        **{f"{name}_token": SPECIAL_TOKENS[number] for name, number in NAMED.items()},
    }
    _write_settings(settings, folder)


def _write_as_it_came(tokenizer: Tokenizer, id_mapping: IdMapping, subject: Subject, folder: Path) -> None:
    """A tokenizer from elsewhere, with its own numbers and what it puts around texts."""
    core = tokenizer.core
    (folder / "tokenizer.json").write_text(core.to_str(), encoding="utf-8")
    special = {number for number, token in core.get_added_tokens_decoder().items() if token.special}
    # a piece that only the model's settings name would become a special token by its name
    named = {name: id_mapping.special[own] for name, own in NAMED.items() if id_mapping.special[own] in special}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": subject.input_tokens or subject.length,
        "padding_side": "left" if subject.continues else "right",
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": id_mapping.tidy,
        "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": id_mapping.tidy,
        "split_special_tokens": id_mapping.split_special,
        **{f"{name}_token": core.id_to_token(number) for name, number in named.items()},
    }
    _write_settings(settings, folder)


def _write_marian(subject: Subject, id_mapping: IdMapping, folder: Path) -> None:
    """The files of a MarianTokenizer: no tokenizer.json can say how it tokenises."""
    tables = []
    for side, tokenizer in (("source", subject.source), ("target", subject.target)):
        tree = json.loads(tokenizer.core.to_str())
        special = {token["content"] for token in tree["added_tokens"]}
        pieces = [(name, score) for name, score in tree["model"]["vocab"] if name[0] != HIDDEN and name not in special]
        characters = base64.b64decode(tree["normalizer"]["precompiled_charsmap"]) if tree["normalizer"] else b""
        (folder / f"{side}.spm").write_bytes(write_unigram(pieces, characters))
        names = [name.removeprefix(HIDDEN) for name, _ in tree["model"]["vocab"][: id_mapping.size]]
        tables.append({name: number for number, name in enumerate(names)})
    separate = tables[0] != tables[1]
    for name, table in zip(("vocab.json", "target_vocab.json")[: 1 + separate], tables, strict=False):
        (folder / name).write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")
    named = {name: subject.source.core.id_to_token(id_mapping.special[NAMED[name]]) for name in ("unk", "eos", "pad")}
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "model_max_length": subject.input_tokens or subject.length,
        "separate_vocabs": separate,
        "clean_up_tokenization_spaces": id_mapping.tidy,
        "split_special_tokens": id_mapping.split_special,
        **{f"{name}_token": token for name, token in named.items()},
    }
    _write_settings(settings, folder)


def _write_settings(settings: dict[str, Any], folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


def _around(subject: Subject) -> dict[str, Any] | None:
    """What stands before or after a text: its end or a separator, or where a model knows documents, their beginning."""
    if subject.kind == "language_model" and not subject.documents:
        return None
    text = {"Sequence": {"id": "A", "type_id": 0}}
    number = BOS if subject.kind == "language_model" else subject.after_input
    token = {"SpecialToken": {"id": SPECIAL_TOKENS[number], "type_id": 0}}
    single = [token, text] if number == BOS else [text, token]
    known = {"id": SPECIAL_TOKENS[number], "ids": [number], "tokens": [SPECIAL_TOKENS[number]]}
    second = [
        {key: {**value, "type_id": 1} for key, value in part.items()} for part in ({"Sequence": {"id": "B"}}, token)
    ]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, *(second[::-1] if number == BOS else second)],
        "special_tokens": {SPECIAL_TOKENS[number]: known},
    }
