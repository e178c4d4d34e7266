"""Tokenizers as the classes of transformers build them from a folder's files, without transformers.

`AutoTokenizer` chooses a class by `tokenizer_class` and the model's type. A class of its own rebuilds the tokenizer
from the vocabulary (of tokenizer.json, or of older files) and ignores the rest of tokenizer.json; the generic class
takes tokenizer.json as it is. The steps here are those of the library, so the result is the same to the byte.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, decoders, models, normalizers
from tokenizers import Tokenizer as Core

from regard.errors import DataError
from regard.export.huggingface.config_keys import Json, read_small, read_table
from regard.export.huggingface.tokenizer_builders import CLASSES, SPACE, TokenizerFiles, with_tokens
from regard.export.huggingface.tokenizer_config import (
    CONFIG,
    NAMED,
    SAVE_AGAIN,
    TOKENIZER,
    merged,
    read_tokenizer_config,
)
from regard.text.sentencepiece import UNIGRAM, SentencePieceModel, read_sentencepiece
from regard.text.tokenizer_file import TRIAL

GENERIC = "TokenizersBackend"
"""The class that takes tokenizer.json as it is."""
GENERIC_NAMES = ("TokenizersBackend", "PreTrainedTokenizer", "PreTrainedTokenizerFast", "PythonBackend")
OF_MODEL = {
    "bert": "BertTokenizer",
    "gpt2": "GPT2Tokenizer",
    "gpt_neox": "GPTNeoXTokenizer",
    "marian": "MarianTokenizer",
    "pegasus": "PegasusTokenizer",
    "t5": "T5Tokenizer",
}
"""The class of a model's type, where the settings name none; of all others the generic one."""
TOP_KEYS = frozenset(
    {
        "version",
        "truncation",
        "padding",
        "added_tokens",
        "normalizer",
        "pre_tokenizer",
        "post_processor",
        "decoder",
        "model",
    }
)
SAMPLING = ("dropout", "alpha", "nbest_size")


@dataclass(frozen=True)
class LoadedTokenizer:
    """A tokenizer with what the library's class knows beside it."""

    core: Core
    named: Mapping[str, str]
    """The special tokens that have a name: `bos_token` and so on."""
    tidy: bool
    """Whether decoded text loses the spaces before punctuation."""
    split_special: bool
    """Whether special tokens spelt in a text are text."""
    emulated: bool = True
    """Whether the class is one that this package builds; others are tokenizer.json as it is, which must be checked."""
    marian: bool = False
    """Whether it is one side of a MarianTokenizer."""


def class_name(folder: Path, settings: Mapping[str, object], config: Mapping[str, object]) -> str:
    """The class that `AutoTokenizer` takes, without the `Fast` of older versions."""
    declared = config.get("tokenizer_class") or settings.get("tokenizer_class")
    if declared is None:
        return OF_MODEL.get(str(settings.get("model_type")), GENERIC)
    if not isinstance(declared, str):
        raise DataError(folder / CONFIG, f"tokenizer_class: expected a name, got {declared!r}")
    name = declared.removesuffix("Fast")
    file = folder / TOKENIZER
    byte_level_llama = name == "LlamaTokenizer" and file.is_file() and '"ByteLevel"' in read_small(file)
    return GENERIC if name in GENERIC_NAMES or byte_level_llama else name


def load_tokenizer(folder: Path, settings: Mapping[str, object]) -> LoadedTokenizer:
    """The tokenizer of a folder as `AutoTokenizer` loads it; `settings` are those of config.json."""
    config = read_tokenizer_config(folder)
    name = class_name(folder, settings, config)
    file = folder / TOKENIZER
    tree = _tree(file) if file.is_file() else None
    kwargs = merged(folder, config, tree)
    build = CLASSES.get(name)
    emulated = build is not None or name == GENERIC
    if not emulated and tree is None:
        raise DataError(
            folder / CONFIG,
            f"tokenizer_class: expected {', '.join([*CLASSES, GENERIC])}, or a {TOKENIZER}; got {name}; {SAVE_AGAIN}",
        )
    try:
        if build is None:
            core, kwargs = _generic(folder, tree, kwargs)
            core = with_tokens(core, kwargs)
        else:
            core = build(_files(folder, name, tree, kwargs))
        core.decode(core.encode(TRIAL).ids)
    except (DataError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the library derives from BaseException
        what = f"it does not make a {name} ({type(error).__name__}: {error})"
        raise DataError(folder if tree is None else file, f"not a tokenizer that regard can use: {what}") from None
    core.no_truncation()
    core.no_padding()
    named = {key: str(kwargs[key]) for key in NAMED if kwargs.get(key) is not None}
    bpe_too = kwargs.get("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output")
    tidy = bool(kwargs.get("clean_up_tokenization_spaces")) and bool(not isinstance(core.model, models.BPE) or bpe_too)
    return LoadedTokenizer(core, named, tidy, bool(kwargs.get("split_special_tokens")), emulated)


def _tree(file: Path) -> Json:
    tree = read_table(file)
    if unknown := sorted(tree.keys() - TOP_KEYS):
        raise DataError(file, f"{unknown[0]}: expected the keys {', '.join(sorted(TOP_KEYS))}; {SAVE_AGAIN}")
    if not isinstance(tree.get("model"), dict):
        raise DataError(file, "model: expected a table")
    return tree


def _generic(folder: Path, tree: Json | None, kwargs: Json) -> tuple[Core, Json]:
    """The generic class: tokenizer.json, or what a SentencePiece model alone says."""
    if tree is not None:
        for key in SAMPLING:
            if tree["model"].get(key):
                raise DataError(
                    folder / TOKENIZER,
                    f"model.{key}: expected null, got {tree['model'][key]!r}: it tokenises at random; set it to null",
                )
        core = Core.from_str(read_small(folder / TOKENIZER))
        if core.padding is not None:
            kwargs.setdefault("pad_token", core.padding["pad_token"])
        return core, kwargs
    file = folder / "tokenizer.model"
    if not file.is_file():
        raise DataError(folder, f"has no {TOKENIZER}, which the tokenizer_class {GENERIC} needs; {SAVE_AGAIN}")
    return _of_sentencepiece(read_sentencepiece(file), kwargs)


def _of_sentencepiece(model: SentencePieceModel, kwargs: Json) -> tuple[Core, Json]:
    """A SentencePiece model without a class of its own: spaces are pieces, and none is put before a text."""
    names = [one.text for one in model.subwords]
    if model.algorithm == UNIGRAM:
        scored = [(one.text, one.score) for one in model.subwords]
        core = Core(models.Unigram(scored, unk_id=model.unknown_id, byte_fallback=model.byte_fallback))
    else:
        numbers = {name: number for number, name in enumerate(names)}
        by_number = {number: name for name, number in numbers.items()}
        pairs = generate_merges(numbers)
        for number, token in kwargs["added_tokens_decoder"].items():  # ids reserved for tokens named elsewhere
            before = by_number.get(number)
            if before and before != str(token) and str(token) not in numbers:
                numbers[str(token)] = numbers.pop(before)
                by_number[number] = str(token)
        unknown = model.unknown_piece
        core = Core(models.BPE(numbers, pairs, unk_token=unknown, fuse_unk=True, byte_fallback=model.byte_fallback))
    steps = [normalizers.Replace(" ", SPACE)]
    core.normalizer = normalizers.Sequence(
        [normalizers.Precompiled(model.characters), *steps] if model.characters else steps
    )
    parts: list[decoders.Decoder] = [decoders.Replace(SPACE, " ")]
    core.decoder = decoders.Sequence(
        [*parts, decoders.ByteFallback(), decoders.Fuse()] if model.byte_fallback else parts
    )
    for key, number, piece in model.named:
        if number >= 0:
            kwargs.setdefault(key, piece)
    kwargs["additional_special_tokens"] = _spm_tokens(model)
    return core, kwargs


FILES = {
    "BertTokenizer": ("vocab.txt",),
    "GPT2Tokenizer": ("vocab.json", "merges.txt"),
    "GPTNeoXTokenizer": ("vocab.json", "merges.txt"),
    "LlamaTokenizer": ("tokenizer.model",),
    "T5Tokenizer": ("spiece.model",),
    "PegasusTokenizer": ("spiece.model",),
}
PREFERRED_FILES = ("tekken.json", "tiktoken.model", "tokenizer.model")
"""Files that the library prefers to those of the class."""
BPE_CLASSES = ("GPT2Tokenizer", "GPTNeoXTokenizer", "LlamaTokenizer")
UNIGRAM_CLASSES = ("T5Tokenizer", "PegasusTokenizer")


def _files(folder: Path, name: str, tree: Json | None, kwargs: Json) -> TokenizerFiles:
    if tree is not None:
        return _of_tree(folder, name, tree, kwargs)
    preferred = next((one for one in PREFERRED_FILES if (folder / one).is_file()), None)
    files = FILES[name]
    if preferred is not None and files != (preferred,):
        expected = " and ".join(files)
        raise DataError(folder / preferred, f"a {name} is not made from it; expected {expected}; {SAVE_AGAIN}")
    if missing := [one for one in files if not (folder / one).is_file()]:
        raise DataError(
            folder, f"has neither {TOKENIZER} nor {missing[0]}, which the tokenizer_class {name} needs; {SAVE_AGAIN}"
        )
    paths = [folder / one for one in files]
    if files[0].endswith(".model"):
        return _of_model(name, read_sentencepiece(paths[0]), kwargs)
    for path in paths:
        read_small(path)  # its size and encoding
    return TokenizerFiles(kwargs, str(paths[0]), str(paths[-1]) if len(paths) > 1 else None)


def _of_tree(folder: Path, name: str, tree: Json, kwargs: Json) -> TokenizerFiles:
    """Vocabulary, merges, replaced characters and post-processor of a tokenizer.json; the class has the rest."""
    whole = Core.from_str(read_small(folder / TOKENIZER))
    if whole.padding is not None:
        kwargs.setdefault("pad_token", whole.padding["pad_token"])
    vocab, merges = tree["model"].get("vocab"), None
    if name in UNIGRAM_CLASSES:
        if isinstance(vocab, list):
            vocab = [tuple(item) for item in vocab]
    elif isinstance(vocab, list):
        vocab = {item[0] if isinstance(item, list) else item: number for number, item in enumerate(vocab)}
    if name in BPE_CLASSES and "merges" in tree["model"]:
        pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in tree["model"]["merges"]]
        merges = [(left, right) for left, right in pairs]
    elif name in BPE_CLASSES:
        merges = []
    return TokenizerFiles(kwargs, vocab, merges, _characters(tree.get("normalizer")), whole.post_processor)


def _characters(normalizer: Json | None) -> bytes | None:
    if not normalizer:
        return None
    steps = normalizer["normalizers"] if normalizer.get("type") == "Sequence" else [normalizer]
    for step in steps:
        if step.get("type") == "Precompiled" and "precompiled_charsmap" in step:
            return base64.b64decode(step["precompiled_charsmap"])
    return None


def _of_model(name: str, model: SentencePieceModel, kwargs: Json) -> TokenizerFiles:
    """Vocabulary and merges of a SentencePiece model; its control and user-defined pieces are added tokens."""
    kwargs["additional_special_tokens"] = _spm_tokens(model)
    characters = model.characters or None
    if name in BPE_CLASSES:
        numbers = {one.text: number for number, one in enumerate(model.subwords)}
        return TokenizerFiles(kwargs, numbers, generate_merges(numbers), characters)
    vocab: list[tuple[str, float]] = [(one.text, one.score) for one in model.subwords]
    if name == "T5Tokenizer":
        vocab += [(f"<extra_id_{number}>", 0.0) for number in reversed(range(kwargs.get("extra_ids", 100)))]
        return TokenizerFiles(kwargs, vocab, None, characters)
    pad, end = str(kwargs.get("pad_token", "<pad>")), str(kwargs.get("eos_token", "</s>"))
    mask, sentence = str(kwargs.get("mask_token", "<mask_1>")), str(kwargs.get("mask_token_sent", "<mask_2>"))
    first = [pad, end, *([mask] if mask != "None" else []), *([sentence] if sentence not in ("None", mask) else [])]
    unused = [(f"<unk_{number}>", -100.0) for number in range(2, kwargs.get("offset", 103))]
    return TokenizerFiles(kwargs, [*((token, 0.0) for token in first), *unused, *vocab[2:]], None, characters)


def _spm_tokens(model: SentencePieceModel) -> list[AddedToken]:
    return [
        AddedToken(one.text, normalized=False, special=one.kind == "control")
        for one in model.subwords
        if one.kind in ("control", "user")
    ]


def generate_merges(numbers: Mapping[str, int]) -> list[tuple[str, str]]:
    """The merges of a BPE vocabulary that come without: every cut of a piece into two, the first pieces first."""
    cuts: list[tuple[int, str, str]] = []
    for piece, number in numbers.items():
        local = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        local = [(left, right) for left, right in local if left in numbers and right in numbers]
        cuts += [(number, left, right) for left, right in sorted(local, key=lambda p: (numbers[p[0]], numbers[p[1]]))]
    cuts.sort(key=lambda cut: (cut[0], len(cut[1]), len(cut[2])))
    return [(left, right) for _, left, right in cuts]
