"""Tokenizer folders of every kind that can be imported, in many settings, made with transformers and tokenizers."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import transformers
from foreign_folders import (
    BYTES,
    REPLACED,
    bert_tokenizer,
    gpt2_tokenizer,
    llama_tokenizer,
    pairs,
    pieces,
    sentencepiece,
    t5_tokenizer,
    trained,
    typed,
    without_json,
)
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Core

SHAPES = {"bert": "encoder", "t5": "encoder-decoder", "pegasus": "encoder-decoder"}

FLAGS = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": False}
ADDED = {
    "900": {"content": "Zebra", **FLAGS, "normalized": True},
    "901": {"content": "<x>", **FLAGS, "special": True, "lstrip": True},
    "902": {"content": "sleeps", **FLAGS, "single_word": True, "rstrip": True},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "without a class": {"tokenizer_class": None},
    "general class": {"tokenizer_class": "PreTrainedTokenizerFast"},
    "class as once called": {"tokenizer_class": "Fast"},
    "added tokens": {"added_tokens_decoder": ADDED},
    "additional special tokens": {"additional_special_tokens": ["<x>", "Zebra"]},
    "extra special tokens": {"extra_special_tokens": {"image_token": "<x>"}},
    "token of its own": {"image_token": "<x>"},
    "split special tokens": {"split_special_tokens": True},
    "cleaned up": {"clean_up_tokenization_spaces": True},
    "cleaned up whatever the model": {
        "clean_up_tokenization_spaces": True,
        "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": True,
    },
    "padded": {"pad_token": "<x>", "padding_side": "left", "model_max_length": 7, "truncation_side": "left"},
    "prefix space": {"add_prefix_space": True},
    "no prefix space": {"add_prefix_space": False},
    "legacy": {"legacy": True},
    "cased": {"do_lower_case": False},
    "accents kept": {"strip_accents": False},
    "accents taken off": {"strip_accents": True, "do_lower_case": False},
    "Chinese in words": {"tokenize_chinese_chars": False},
    "unknown": {"unk_token": "the", "errors": "strict", "spaces_between_special_tokens": True},
    "few sentinels": {"extra_ids": 3},
    "begin": {"add_bos_token": True},
}
OLDER: dict[str, dict[str, Any]] = {
    "added_tokens.json": {"Zebra": 500, "<x>": 501, "the": 502},
    "special_tokens_map.json": {
        "pad_token": {"content": "<x>", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False},
        "mask_token": "[MASK]",
    },
}


@cache
def gpt_neox_tokenizer() -> Any:
    vocab, merges = pairs(["<|endoftext|>", "<|padding|>"], pre_tokenizers.ByteLevel(add_prefix_space=False),
                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # fmt: skip
    return transformers.GPTNeoXTokenizer(vocab=vocab, merges=merges)


@cache
def pegasus_tokenizer() -> Any:
    first = ["<pad>", "</s>", "<mask_1>", "<mask_2>", *(f"<unk_{number}>" for number in range(2, 103)), "<unk>"]
    vocab = [*((token, 0.0) for token in first), *pieces()[3:]]
    return transformers.PegasusTokenizer(vocab=vocab, _spm_precompiled_charsmap=REPLACED)


def general(core: Core, **named: str) -> Any:
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, **named)


def word_level() -> Any:
    trainer = trainers.WordLevelTrainer(
        special_tokens=["[UNK]", "[PAD]", "[SEP]", "[CLS]", "[MASK]"], show_progress=False
    )
    tree = trained(models.WordLevel(unk_token="[UNK]"), trainer, pre_tokenizers.Whitespace())
    core = Core(models.WordLevel(tree["vocab"], unk_token="[UNK]"))
    core.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 3))
    core.add_special_tokens([AddedToken("[MASK]", lstrip=True)])
    return general(
        core, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]"
    )


def unigram() -> Any:
    core = Core(models.Unigram([*pieces(), *((byte, -9.0) for byte in BYTES)], unk_id=2, byte_fallback=True))
    core.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    core.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    core.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return general(core, unk_token="<unk>", pad_token="<pad>", eos_token="</s>")


def byte_level_llama() -> Any:
    """As Llama 3 has it: a regular expression of its own, bytes, and the begin token before texts."""
    vocab, merges = pairs([], pre_tokenizers.ByteLevel(add_prefix_space=False),
                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # fmt: skip
    core = Core(models.BPE({**vocab, "<s>": len(vocab), "</s>": len(vocab) + 1}, merges, ignore_merges=True))
    split = pre_tokenizers.Split(" ?[^ ]+| +", "isolated")
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    core.decoder = decoders.ByteLevel()
    begin = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", len(vocab))])
    core.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), begin])
    return general(core, bos_token="<s>", eos_token="</s>")


KINDS: dict[str, tuple[str, Callable[[], Any]]] = {
    "BERT": ("bert", bert_tokenizer),
    "T5": ("t5", t5_tokenizer),
    "Llama": ("llama", llama_tokenizer),
    "GPT-2": ("gpt2", gpt2_tokenizer),
    "GPT-NeoX": ("gpt_neox", gpt_neox_tokenizer),
    "Pegasus": ("pegasus", pegasus_tokenizer),
    "words": ("bert", word_level),
    "unigram with bytes": ("t5", unigram),
    "byte-level Llama": ("llama", byte_level_llama),
}
OLDER_KINDS = ("BERT", "T5", "Llama", "GPT-2", "GPT-NeoX", "Pegasus")


@cache
def _files(kind: str, base: Path) -> Path:
    folder = base / kind.replace(" ", "-")
    KINDS[kind][1]().save_pretrained(folder)
    return folder


def make_folder(kind: str, setting: str, base: Path, files: str = "tokenizer.json") -> Path:
    """A folder of a kind with one change of its settings; `files`: tokenizer.json, or the older ones of its class."""
    folder = base / f"{kind} {setting} {files}".replace(" ", "-")
    folder.mkdir()
    for file in _files(kind, base).iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "config.json").write_text(json.dumps({"model_type": KINDS[kind][0]}))
    config = json.loads((folder / "tokenizer_config.json").read_text()) | SETTINGS[setting]
    if config["tokenizer_class"] == "Fast":
        config["tokenizer_class"] = f"{KINDS[kind][1]().__class__.__name__.removesuffix('Fast')}Fast"
    config = {key: value for key, value in config.items() if value is not None}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if files != "tokenizer.json":
        _older_files(kind, folder)
    if files == "older with added tokens":
        for name, table in OLDER.items():
            (folder / name).write_text(json.dumps(table))
    return folder


def _older_files(kind: str, folder: Path) -> None:
    if kind != "Pegasus":
        without_json(kind, folder)
        return
    (folder / "tokenizer.json").unlink()
    first = [("<pad>", 0.0, 3), ("</s>", 0.0, 3), ("<unk>", 0.0, 2)]
    model = sentencepiece([*first, *typed(pieces()[3:])], precompiled_charsmap=REPLACED)
    (folder / "spiece.model").write_bytes(model)
