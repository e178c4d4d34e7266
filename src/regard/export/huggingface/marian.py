"""A Marian's tokenizer, as Opus-MT's folders have it: two SentencePiece models and the ids of one vocabulary or two."""

from pathlib import Path

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Core

from regard.errors import DataError
from regard.export.huggingface.config_keys import Json, read_table
from regard.export.huggingface.tokenizer_classes import LoadedTokenizer
from regard.export.huggingface.tokenizer_config import CONFIG, NAMED, merged, read_tokenizer_config
from regard.text.marian import HIDDEN, SPACE, CharacterTable
from regard.text.sentencepiece import UNIGRAM, SentencePieceModel, read_sentencepiece

MARIAN = "MarianTokenizer"
FILES = ("source.spm", "target.spm", "vocab.json")
DEFAULTS = {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>"}


def read_marian(folder: Path, sizes: list[int]) -> list[LoadedTokenizer]:
    """The source's and the target's tokenizer; `sizes` are the rows of the model's tables."""
    if missing := [name for name in FILES if not (folder / name).is_file()]:
        raise DataError(folder, f"has no {missing[0]}; a {MARIAN} needs {', '.join(FILES)}")
    config = read_tokenizer_config(folder)
    kwargs = {**DEFAULTS, **merged(folder, config, None)}
    separate = bool(kwargs.get("separate_vocabs"))
    tables = [_numbers(folder / "vocab.json"), _numbers(folder / ("target_vocab.json" if separate else "vocab.json"))]
    special = _special(folder, kwargs, tables)
    split, tidy = bool(kwargs.get("split_special_tokens")), bool(kwargs.get("clean_up_tokenization_spaces"))
    loaded = []
    for side, table, size in zip(("source", "target"), tables, sizes, strict=True):
        if len(table) != size:
            raise DataError(folder, f"the {side}'s vocabulary has {len(table):,} tokens, its embedding {size:,} rows")
        core = _core(folder / f"{side}.spm", table, special)
        loaded.append(LoadedTokenizer(core, special, tidy, split, marian=True))
    return loaded


def _numbers(file: Path) -> dict[str, int]:
    if not file.is_file():
        raise DataError(file, "no such file, which separate_vocabs needs")
    table = read_table(file)
    if not all(type(number) is int for number in table.values()):
        raise DataError(file, "expected each piece with its id")
    if sorted(table.values()) != list(range(len(table))):
        raise DataError(file, "expected the ids 0, 1, 2, … without a gap, each once")
    return table


def _special(folder: Path, kwargs: Json, tables: list[dict[str, int]]) -> dict[str, str]:
    """The names of the special tokens, of which a Marian has three."""
    names = {key: str(kwargs[key]) for key in NAMED if kwargs.get(key) is not None}
    if other := sorted(names.keys() - DEFAULTS.keys()):
        raise DataError(folder / CONFIG, f"{other[0]}: expected none for a {MARIAN}, got {names[other[0]]!r}")
    more = [*kwargs["added_tokens_decoder"].values(), *(kwargs.get("extra_special_tokens") or [])]
    more += kwargs.get("additional_special_tokens") or []
    more += [*(kwargs.get("model_specific_special_tokens") or {}).values()]
    for token in more:
        plain = not isinstance(token, AddedToken) or not (token.lstrip or token.rstrip or token.single_word)
        if str(token) not in names.values() or not plain:
            raise DataError(
                folder,
                f"added token {str(token)!r}: expected only {', '.join(names.values())} without lstrip, rstrip or "
                f"single_word for a {MARIAN}",
            )
    for number, token in kwargs["added_tokens_decoder"].items():
        if any(table.get(str(token)) != number for table in tables):
            raise DataError(folder, f"added token {str(token)!r}: expected the id of vocab.json, got {number}")
    for name in DEFAULTS:
        if name not in names or any(names[name] not in table for table in tables):
            raise DataError(folder / "vocab.json", f"has no {names.get(name)!r}, the {name}")
    if len({tuple(table[name] for name in names.values()) for table in tables}) > 1:
        raise DataError(folder, "its two vocabularies have different special tokens")
    return names


def _core(file: Path, table: dict[str, int], special: dict[str, str]) -> Core:
    """Pieces of this side and names of the other under the ids of vocab.json; `text/marian.py` tokenises with it."""
    model = read_sentencepiece(file)
    _require_plain(file, model, table, special)
    scores = {one.text: one.score for one in model.subwords if one.kind == "normal"}
    names = sorted(table, key=table.__getitem__)
    listed = [name if name in scores or name in special.values() else HIDDEN + name for name in names]
    listed += [piece for piece in scores if piece not in table]
    core = Core(models.Unigram([(name, scores.get(name, 0.0)) for name in listed], unk_id=table[special["unk_token"]]))
    if model.characters:
        core.normalizer = normalizers.Precompiled(model.characters)
    core.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme="always", split=False)
    core.decoder = decoders.Sequence([decoders.Replace(HIDDEN, ""), decoders.Metaspace(SPACE)])
    core.add_special_tokens([special[key] for key in DEFAULTS])
    end = special["eos_token"]
    core.post_processor = processors.TemplateProcessing(single=f"$A {end}", special_tokens=[(end, table[end])])
    return core


def _require_plain(file: Path, model: SentencePieceModel, table: dict[str, int], special: dict[str, str]) -> None:
    """Refuses what a SentencePiece model may ask for and Marian's do not."""
    kinds = sorted({one.kind for one in model.subwords} - {"normal", "unknown", "control", "unused"})
    hidden = [one.text for one in model.subwords if one.kind == "control" and one.text in table]
    stray = [name for name in hidden if name not in special.values()]
    problems = {
        f"model_type: expected unigram (1), got {model.algorithm}": model.algorithm != UNIGRAM,
        f"pieces: expected normal ones alone, got {'/'.join(kinds)}": bool(kinds),
        f"pieces: {stray[:1]} is a control symbol with an id in vocab.json": bool(stray),
        "add_dummy_prefix: expected true, got false": not model.dummy_prefix,
        "remove_extra_whitespaces: expected true, got false": not model.squeeze,
        "escape_whitespaces: expected true, got false": not model.escape,
        "treat_whitespace_as_suffix: expected false, got true": model.suffix,
        "denormalizer_spec: expected none": model.denormalised,
    }
    if problem := next((text for text, wrong in problems.items() if wrong), None):
        raise DataError(file, f"not a model that regard can use for a Marian: {problem}")
    try:
        CharacterTable(model.characters)
    except ValueError as error:
        raise DataError(file, f"not a SentencePiece model ({error})") from None
