"""Tokenizers as `AutoTokenizer` loads them: ours with the special tokens around texts, imported ones as they were."""

import base64
import json
from pathlib import Path

from regard.export.exported_model import ExportedModel
from regard.export.huggingface.config_keys import Json
from regard.text.id_mapping import IdMapping
from regard.text.marian import HIDDEN
from regard.text.sentencepiece import write_unigram
from regard.text.special_tokens import BOS, CLS, EOS, MASK, PAD, SEP, SPECIAL_TOKENS, UNK
from regard.text.tokenizer import Tokenizer

NAMED = {"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS, "mask": MASK, "sep": SEP, "cls": CLS}


def write_tokenizers(exported: ExportedModel, folder: Path) -> None:
    """tokenizer.json and tokenizer_config.json; a target with a vocabulary of its own has them in `target/`."""
    if exported.source.id_mapping is not None and exported.source.id_mapping.marian:
        _write_marian(exported, exported.source.id_mapping, folder)
        return
    write_tokenizer(exported.source, exported, folder)
    if not exported.joint:
        (folder / "target").mkdir()
        write_tokenizer(exported.target, exported, folder / "target")


def write_tokenizer(tokenizer: Tokenizer, exported: ExportedModel, folder: Path) -> None:
    """The two files of one tokenizer."""
    if tokenizer.id_mapping is not None:
        tree, settings = tokenizer.core.to_str(), _imported_settings(tokenizer, tokenizer.id_mapping)
    else:
        post_processor = _post_processor(exported)
        tree = json.dumps({**json.loads(tokenizer.core.to_str()), "post_processor": post_processor}, ensure_ascii=False)
        settings = {
            "clean_up_tokenization_spaces": False,
            "split_special_tokens": True,  # "<eos>" in a text is text
            **{f"{name}_token": SPECIAL_TOKENS[token] for name, token in NAMED.items()},
        }
    (folder / "tokenizer.json").write_text(tree, encoding="utf-8")
    common = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": exported.input_tokens or exported.length,
        "padding_side": "left" if exported.continues else "right",
        "model_input_names": ["input_ids", "attention_mask"],
    }
    _write_settings({**common, **settings}, folder)


def _imported_settings(tokenizer: Tokenizer, id_mapping: IdMapping) -> Json:
    """Settings of an imported tokenizer, under its own ids."""
    core = tokenizer.core
    special = {number for number, token in core.get_added_tokens_decoder().items() if token.special}
    # a piece that only the model's settings name would become a special token by its name
    named = {name: id_mapping.special[token] for name, token in NAMED.items() if id_mapping.special[token] in special}
    return {
        "clean_up_tokenization_spaces": id_mapping.tidy,
        "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": id_mapping.tidy,
        "split_special_tokens": id_mapping.split_special,
        **{f"{name}_token": core.id_to_token(number) for name, number in named.items()},
    }


def _write_marian(exported: ExportedModel, id_mapping: IdMapping, folder: Path) -> None:
    """The files of a MarianTokenizer: no tokenizer.json can express how it tokenises."""
    tables = []
    for side, tokenizer in (("source", exported.source), ("target", exported.target)):
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
    named = {name: exported.source.core.id_to_token(id_mapping.special[NAMED[name]]) for name in ("unk", "eos", "pad")}
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "model_max_length": exported.input_tokens or exported.length,
        "separate_vocabs": separate,
        "clean_up_tokenization_spaces": id_mapping.tidy,
        "split_special_tokens": id_mapping.split_special,
        **{f"{name}_token": token for name, token in named.items()},
    }
    _write_settings(settings, folder)


def _write_settings(settings: Json, folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


def _post_processor(exported: ExportedModel) -> Json | None:
    """Puts the end token or a separator after a text; of a language model of documents, the begin token before it."""
    if exported.task == "language_model" and not exported.documents:
        return None
    text = {"Sequence": {"id": "A", "type_id": 0}}
    number = BOS if exported.task == "language_model" else exported.after_input
    name = SPECIAL_TOKENS[number]
    token = {"SpecialToken": {"id": name, "type_id": 0}}
    single = [token, text] if number == BOS else [text, token]
    second = [
        {key: {**value, "type_id": 1} for key, value in part.items()} for part in ({"Sequence": {"id": "B"}}, token)
    ]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, *(second[::-1] if number == BOS else second)],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]}},
    }
