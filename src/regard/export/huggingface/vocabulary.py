"""The vocabulary of a Hugging Face folder: the tokenizer as it is, under ids that begin with our special tokens.

Text is tokenised as by `AutoTokenizer`; only the ids change, and the rows of the model's tables with them. A token of
ours that the other model does not have is never generated and takes no probability.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol
from warnings import catch_warnings, simplefilter

from tokenizers import Tokenizer as Core

from regard.errors import DataError
from regard.export.huggingface.config_keys import Json
from regard.export.huggingface.export import quiet
from regard.export.huggingface.marian import MARIAN, read_marian
from regard.export.huggingface.tokenizer_classes import LoadedTokenizer, class_name, load_tokenizer
from regard.export.huggingface.tokenizer_config import CONFIG, TOKENIZER, read_tokenizer_config
from regard.text.id_mapping import NONE, IdMapping
from regard.text.pretokenizer import describe, known_pipelines
from regard.text.special_tokens import BOS, CLS, EOS, MASK, PAD, SEP, SPECIAL_TOKENS, UNK
from regard.text.tokenizer import Tokenizer
from regard.text.tokenizer_file import find_problem

KEYS = {PAD: "pad", UNK: "unk", BOS: "bos", EOS: "eos", MASK: "mask", SEP: "sep", CLS: "cls"}
OUR_SURROUNDINGS = {
    "encoder": [([], [EOS])],
    "encoder-decoder": [([], [EOS])],
    "decoder": [([], []), ([BOS], []), ([], [SEP]), ([], [EOS])],  # the last is the end of a document, not of a prompt
}
"""Special tokens that our own tokenizers put before and after a text."""
PROBES = ("a", "the", "1", ".", "x y", "\u4e16")
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


def read_vocabularies(folder: Path, settings: Json, shape: str, sizes: Sequence[int]) -> list[Tokenizer]:
    """The tokenizer of a folder, or the source's and the target's; `sizes` are the rows of the model's tables."""
    if class_name(folder, settings, read_tokenizer_config(folder)) == MARIAN:
        loaded = read_marian(folder, [sizes[0], sizes[-1]])
        sides = zip([folder] * len(loaded), loaded, [sizes[0], sizes[-1]], strict=True)
    else:
        folders = [folder, folder / "target"] if (folder / "target" / TOKENIZER).is_file() else [folder]
        if len(sizes) > len(folders):
            raise DataError(folder, f"has two vocabularies; expected the target's in target/{TOKENIZER}")
        loaded = [load_tokenizer(one, settings) for one in folders]
        sides = zip(folders, loaded, [sizes[0], sizes[-1]], strict=False)
    tokenizers = [_tokenizer(one, side, settings, shape, size) for one, side, size in sides]
    compare_with_library(folder, tokenizers, required=not all(one.emulated for one in loaded))
    return tokenizers


def _tokenizer(
    folder: Path, loaded: LoadedTokenizer, settings: Mapping[str, object], shape: str, size: int
) -> Tokenizer:
    core = loaded.core
    before, after = surroundings(folder, core, shape)
    if not _is_ours(loaded):
        return Tokenizer(core, _id_mapping(folder, loaded, settings, shape, size, before, after))
    if (before, after) not in OUR_SURROUNDINGS[shape]:
        names = [core.decode(ids, skip_special_tokens=False) or "nothing" for ids in (before, after)]
        raise DataError(
            folder / TOKENIZER,
            f"post_processor: expected what an export of this model puts around texts, got {names[0]} before and "
            f"{names[1]} after them",
        )
    core.post_processor = None  # ours, with what an export put around texts
    tokenizer = Tokenizer(core)
    if tokenizer.vocab_size != size:
        raise DataError(
            folder / TOKENIZER, f"has {tokenizer.vocab_size:,} tokens, but the model's embedding has {size:,} rows"
        )
    return tokenizer


def _is_ours(loaded: LoadedTokenizer) -> bool:
    """Whether it is a tokenizer of this package, loaded with the settings of an export of ours."""
    names = {f"{key}_token": SPECIAL_TOKENS[token] for token, key in KEYS.items()}
    ours = loaded.split_special and not loaded.tidy and not loaded.marian and dict(loaded.named) == names
    if not ours or describe(loaded.core) not in known_pipelines():
        return False
    return find_problem({**json.loads(loaded.core.to_str()), "post_processor": None}) is None


def _id_mapping(
    folder: Path,
    loaded: LoadedTokenizer,
    settings: Mapping[str, object],
    shape: str,
    size: int,
    before: list[int],
    after: list[int],
) -> IdMapping:
    """Their ids of our special tokens, and what their tokenizer puts around texts."""
    core = loaded.core
    if not loaded.marian:
        _require_rows(folder, core, size)
    special = [_special(loaded, settings, token, size) for token in range(len(SPECIAL_TOKENS))]
    starts = _row(settings.get("decoder_start_token_id"), size)
    if shape == "encoder":
        special[EOS] = _end(folder, core, after)
    elif shape == "encoder-decoder":
        if before or after != [special[EOS]]:
            raise _unexpected(folder, core, before, after, "nothing before a text and its end token after it")
        special[BOS] = next((one for one in (starts, special[BOS], special[PAD]) if one != NONE), NONE)
    else:
        if after or len(before) > 1:
            raise _unexpected(folder, core, before, after, "at most a begin token before a text and nothing after it")
        special[BOS] = next((one for one in (*before, special[BOS], special[EOS]) if one != NONE), NONE)
    if special[BOS] == NONE and shape != "encoder":
        raise DataError(folder, f"neither config.json nor {CONFIG} says with which token its texts begin")
    id_mapping = IdMapping(
        tuple(special), size, tidy=loaded.tidy, split_special=loaded.split_special, marian=loaded.marian
    )
    if shape != "encoder":
        return id_mapping
    first = tuple(id_mapping.from_foreign(before))
    if any(token >= len(SPECIAL_TOKENS) for token in first):
        raise _unexpected(folder, core, before, after, "special tokens alone around a text")
    return replace(id_mapping, first=first)


def _require_rows(folder: Path, core: Core, size: int) -> None:
    """Refuses pieces that the model has no row for; special tokens may be missing, since no usual text holds them."""
    special = {number for number, token in core.get_added_tokens_decoder().items() if token.special}
    beyond = [number for number in core.get_vocab().values() if number >= size and number not in special]
    if beyond:
        raise DataError(folder, f"its tokenizer has {max(beyond) + 1:,} tokens, its model's embedding {size:,} rows")


def _end(folder: Path, core: Core, after: list[int]) -> int:
    if len(after) != 1:
        raise _unexpected(folder, core, [], after, "one token after every text of an encoder")
    return after[0]


def _unexpected(folder: Path, core: Core, before: list[int], after: list[int], expected: str) -> DataError:
    names = [" ".join(str(core.id_to_token(one)) for one in ids) or "nothing" for ids in (before, after)]
    return DataError(
        folder,
        f"post_processor: expected {expected}; its tokenizer puts {names[0]} before and {names[1]} after a text",
    )


def surroundings(folder: Path, core: Core, shape: str) -> tuple[list[int], list[int]]:
    """The ids that a tokenizer puts before and after a text; `folder` and the model's `shape` are for errors."""
    for probe in (*PROBES, *map(str, core.get_vocab())):
        plain, whole = core.encode(probe, add_special_tokens=False), core.encode(probe, add_special_tokens=True)
        if not plain.ids:
            continue
        inside = [at for at, sequence in enumerate(whole.sequence_ids) if sequence is not None]
        if [whole.ids[at] for at in inside] != plain.ids or inside != list(range(inside[0], inside[-1] + 1)):
            raise DataError(folder, "post_processor: expected the text once, in one piece")
        if shape == "encoder" and any(whole.type_ids):
            raise DataError(folder, f"post_processor: expected the type ids of one text to be 0, got {whole.type_ids}")
        return whole.ids[: inside[0]], whole.ids[inside[-1] + 1 :]
    raise DataError(folder, "its tokenizer makes no token of any text")


def _special(loaded: LoadedTokenizer, settings: Mapping[str, object], token: int, size: int) -> int:
    """Their id of one of our special tokens: as the model says, or as the tokenizer says."""
    number: object = settings.get(f"{KEYS[token]}_token_id")
    number = number[0] if isinstance(number, list) and number else number
    name = loaded.named.get(f"{KEYS[token]}_token")
    rows = (_row(one, size) for one in (number, None if name is None else loaded.core.token_to_id(name)))
    return next((row for row in rows if row != NONE), NONE)


def _row(number: object, size: int) -> int:
    """An id that is a row of a table, or NONE."""
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < size else NONE


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


class _LibraryTokenizer(Protocol):
    """What is compared of a tokenizer of transformers."""

    def __call__(self, text: str, *, add_special_tokens: bool = True, verbose: bool) -> Mapping[str, list[int]]: ...

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str: ...


def _load_library(folder: Path) -> list[_LibraryTokenizer] | None:
    """The tokenizers as transformers loads them; None where it is not installed or lacks a library of its own."""
    if find_spec("transformers") is None:
        return None
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


def _difference(ours: Tokenizer, theirs: _LibraryTokenizer, text: str) -> str | None:
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
