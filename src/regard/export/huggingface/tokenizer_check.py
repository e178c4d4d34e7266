"""An imported tokenizer beside `AutoTokenizer`, where transformers is installed: the same ids and the same text."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

from regard.errors import DataError
from regard.text.tokenizer import Tokenizer

TEXTS = (
    "", " ", "  two  spaces ", "a\tb\n\nc\r\n", "\u00a0no\u00a0break\u3000wide", "zero\u200bwidth\u200djoiner\ufeff",
    "The quick brown fox jumps over the lazy dog.", "don't can't I'm we've they're it's", "naïve Größe Straße ﬁsh",
    "e\u0301 \u00e9 A\u030a \u212b", "İstanbul ıi SS ß ẞ", "世界 こんにちは 한국어", "مرحبا بالعالم",
    "สวัสดีชาวโลก", "नमस्ते",
    "🙂 👩‍👩‍👧 🇩🇪 ❤️", "1234567890 3.14 1,000 ½ ²", "https://example.org/a?b=c&d=%20", "x = f(a[0], {'k': 1})  # c",
    "“quotes” ‘single’ … – —", "\x00\x01\x07\x7f\x85", "<s> </s> <pad> <unk> <mask>", "[CLS] [SEP] [PAD] [UNK] [MASK]",
    "<|endoftext|> a<|endoftext|>b <|padding|>", "<extra_id_0> <extra_id_99>", ">>de<< the cat >>fr<<", "a" * 200,
    "ＦＵＬＬ ｗｉｄｔｈ", "A.B.C. U.S.A. e.g. i.e.", "hello , world . how are you ? n't 's",
    "▁already ▁▁ marked", "##piece ##s",
)  # fmt: skip
"""Texts that tokenizers differ on."""


def compare_with_library(folder: Path, tokenizers: Sequence[Tokenizer], required: bool) -> bool:
    """Whether `AutoTokenizer` could be compared; DataError where it tokenises otherwise.

    `required`: the folder's class is none that this package builds itself, so without a comparison it is refused.
    """
    theirs = _load_library(folder)
    if theirs is None:
        if required:
            raise DataError(
                folder,
                "its tokenizer_class is none that regard builds, and AutoTokenizer could not be compared; install "
                "transformers, or save it as PreTrainedTokenizerFast(tokenizer_object=TOKENIZER.backend_tokenizer, "
                "**TOKENIZER.special_tokens_map).save_pretrained(FOLDER)",
            )
        return False
    for ours, other in zip(tokenizers, theirs, strict=False):
        for text in TEXTS:
            if problem := _difference(ours, other, text):
                raise DataError(folder, f"AutoTokenizer tokenises {text!r} otherwise: {problem}")
    return True


def _load_library(folder: Path) -> list[Any] | None:
    """The tokenizers as transformers loads them; None where it is not installed or lacks a library of its own."""
    if find_spec("transformers") is None:
        return None
    from regard.export.huggingface.export import quiet

    with quiet(), catch_warnings():
        simplefilter("ignore")
        from transformers import AutoConfig, AutoTokenizer

        try:
            config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            folders = [folder, folder / "target"] if (folder / "target" / "tokenizer.json").is_file() else [folder]
            return [
                AutoTokenizer.from_pretrained(one, config=config, local_files_only=True, trust_remote_code=False)
                for one in folders
            ]
        except Exception:  # whatever the library lacks, it is then not compared
            return None


def _difference(ours: Tokenizer, theirs: Any, text: str) -> str | None:  # noqa: ANN401
    expected = theirs(text, add_special_tokens=False, verbose=False)["input_ids"]
    try:
        ids = ours.encode(text, prefix=False)
    except DataError:  # a special token that the model has no row for
        return None
    if ours.id_mapping is None:
        return None if ids == expected else f"{ids[:12]} here, {expected[:12]} there"
    if (mapped := ours.id_mapping.to_foreign(ids)) != expected:
        return f"{mapped[:12]} here, {expected[:12]} there"
    decoded = theirs.decode(expected, skip_special_tokens=True)
    if ours.decode(ids) != decoded:
        return f"decoded as {ours.decode(ids)!r} here, {decoded!r} there"
    if ours.id_mapping.marian:  # which puts the same end token after each text
        return None
    whole, expected = ours.core.encode(text).ids, theirs(text, verbose=False)["input_ids"]
    return None if whole == expected else f"with special tokens {whole[:12]} here, {expected[:12]} there"
