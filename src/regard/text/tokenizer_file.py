"""Reading a `tokenizer.json` that anyone may have written: what does not fit is refused with a sentence.

Only what this package's own tokenizers consist of is let through: a regular expression from elsewhere, a padding to a
billion tokens or ids with gaps would harm later, in places where nobody looks for the cause.
"""

import json
from pathlib import Path

from tokenizers import Tokenizer as Core
from tokenizers.models import BPE

from regard.config.values import Tree, is_list, is_table
from regard.errors import DataError, readable
from regard.text.pretokenizer import BYTE_CHARACTERS, BYTE_TOKENS, describe, known_pipelines
from regard.text.special_tokens import SPECIAL_TOKENS, UNK

LARGEST_FILE = 200_000_000  # bytes; vocabularies of a quarter of a million pieces take about a tenth of it

TRIAL = "Ä trial: 1 €, 世界.\n"
"""What a tokenizer from elsewhere must be able to cut and write, since its parts may not fit each other."""

MODELS = ("BPE", "Unigram", "WordLevel")
MUST_BE_EMPTY = ("truncation", "padding", "post_processor")
MODEL_MUST_NOT_HAVE = ("dropout", "alpha", "nbest_size", "continuing_subword_prefix", "end_of_word_suffix")


def read_core(file: Path) -> Core:
    """The library's tokenizer in a file; DataError where the file is no tokenizer of this package."""
    text = _read(file)
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(file, f"not JSON: {error}") from None
    if problem := find_problem(tree):
        raise DataError(file, f"not a tokenizer that regard can use: {problem}")
    core = _build(file, text)
    if describe(core) not in known_pipelines():
        raise DataError(
            file, "not a tokenizer that regard can use: its normalizer, pre_tokenizer or decoder is another's"
        )
    return core


def read_any_core(file: Path) -> Core:
    """The library's tokenizer in a file, whoever made it; it neither cuts off nor fills up, nor draws lots."""
    core = _build(file, _read(file), tried=True)
    core.no_truncation()
    core.no_padding()
    if isinstance(core.model, BPE):
        core.model.dropout = None
    return core


def _build(file: Path, text: str, tried: bool = False) -> Core:
    try:
        core = Core.from_str(text)
        if tried:
            core.decode(core.encode(TRIAL).ids)
        return core
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the library derives from BaseException
        raise DataError(file, f"not a tokenizer that regard can use: {error}") from None


def _read(file: Path) -> str:
    with readable(file, "a tokenizer.json"):
        if (size := file.stat().st_size) > LARGEST_FILE:
            raise DataError(
                file, f"{size:,} bytes, but a tokenizer has at most {LARGEST_FILE:,}; is this the right file?"
            )
        data = file.read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise DataError(file, "not UTF-8 text, so no tokenizer.json") from None


def find_problem(tree: object) -> str | None:
    """What is wrong with the special tokens and the model in the tree of a tokenizer.json, if anything."""
    if not is_table(tree) or not is_table(model := tree.get("model")):
        return "expected a table with a table 'model'"
    return _forbidden_setting(tree, model) or _wrong_specials(tree) or _wrong_vocabulary(tree, model)


def _forbidden_setting(tree: Tree, model: Tree) -> str | None:
    if model.get("type") not in MODELS:
        return f"model.type: expected one of {', '.join(MODELS)}, got {_short(model.get('type'))}"
    for owner, keys, path in ((tree, MUST_BE_EMPTY, ""), (model, MODEL_MUST_NOT_HAVE, "model.")):
        for key in keys:
            if owner.get(key) is not None:
                return f"{path}{key}: expected null, got {_short(owner[key])}"
    key, unknown = ("unk_id", UNK) if model["type"] == "Unigram" else ("unk_token", SPECIAL_TOKENS[UNK])
    return None if model.get(key) == unknown else f"model.{key}: expected {unknown}, got {_short(model.get(key))}"


def _wrong_specials(tree: Tree) -> str | None:
    added = tree.get("added_tokens")
    tokens = [token if is_table(token) else {} for token in added] if is_list(added) else []
    specials = [(token.get("id"), token.get("content"), token.get("special")) for token in tokens]
    if specials != [(i, token, True) for i, token in enumerate(SPECIAL_TOKENS)]:
        return f"added_tokens: expected {', '.join(SPECIAL_TOKENS)} with the ids 0 to {len(SPECIAL_TOKENS) - 1}"
    return None


def _wrong_vocabulary(tree: Tree, model: Tree) -> str | None:
    tokens = _tokens(model)
    if tokens is None:
        return "model.vocab: expected each token once, with the ids 0, 1, 2, … without a gap"
    if tuple(tokens[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS:
        return f"model.vocab: expected {', '.join(SPECIAL_TOKENS)} first"
    decoder = json.dumps(tree.get("decoder"))
    needed = BYTE_CHARACTERS if '"ByteLevel"' in decoder else BYTE_TOKENS if '"ByteFallback"' in decoder else ()
    if missing := {*needed} - {*tokens}:
        return f"model.vocab: {len(missing)} of the 256 bytes are missing, so some text could not be written"
    return None


def _tokens(model: Tree) -> list[str] | None:
    """The tokens of a model by id; None where the ids are not 0, 1, 2, … or a token stands twice."""
    vocabulary = model.get("vocab")
    if model["type"] == "Unigram" and is_list(vocabulary):
        tokens = [item[0] if is_list(item) and item else None for item in vocabulary]
    elif is_table(vocabulary) and all(type(i) is int for i in vocabulary.values()):
        by_id = {i: token for token, i in vocabulary.items()}
        tokens = [by_id.get(i) for i in range(len(vocabulary))]
    else:
        return None
    names = [token for token in tokens if isinstance(token, str)]
    return names if len({*names}) == len(tokens) else None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
