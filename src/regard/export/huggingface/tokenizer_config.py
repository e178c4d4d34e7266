"""The settings of a Hugging Face tokenizer folder, merged as `AutoTokenizer` merges them.

Every key of `tokenizer_config.json` and `special_tokens_map.json` is in one of two tables here: honoured, or without
effect on text and ids, with the reason. Any other key refuses the import by its name.
"""

from collections.abc import Mapping
from pathlib import Path

from tokenizers import AddedToken

from regard.errors import DataError
from regard.export.huggingface.config_keys import Json, read_table

CONFIG, SPECIAL_MAP, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
TOKENIZER = "tokenizer.json"
SAVE_AGAIN = (
    "save it once where transformers is installed: "
    "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER), then import again"
)

NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""Special tokens that have a name of their own, in the order in which the library adds them."""
BOOLEANS = (
    "add_bos_token",
    "add_eos_token",
    "add_prefix_space",
    "clean_up_tokenization_spaces",
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
    "do_lower_case",
    "legacy",
    "separate_vocabs",
    "split_special_tokens",
    "strip_accents",
    "tokenize_chinese_chars",
)
HONOURED = frozenset(
    {
        *NAMED,
        *BOOLEANS,
        "added_tokens_decoder",
        "additional_special_tokens",
        "extra_special_tokens",
        "model_specific_special_tokens",
        "tokenizer_class",
        "extra_ids",
        "offset",
        "mask_token_sent",
    }
)
"""Keys that decide how text is tokenised or decoded; each class reads those that the library's class reads."""

ONLY_ON_REQUEST = "acts only where a caller asks for truncation or padding, and batches here are made by the task"
PATH = "the library takes the files of the folder instead"
CHAT = "formats conversations, which are no part of tokenising a text"
BOOKKEEPING = "says how the files were made, and is not read"
FAST_ONLY = "read by the Python tokenizers of older versions; AutoTokenizer loads none of these"
IRRELEVANT: Mapping[str, str] = {
    "model_max_length": ONLY_ON_REQUEST,
    "max_len": ONLY_ON_REQUEST,
    "max_length": ONLY_ON_REQUEST,
    "stride": ONLY_ON_REQUEST,
    "truncation": ONLY_ON_REQUEST,
    "truncation_strategy": ONLY_ON_REQUEST,
    "padding": ONLY_ON_REQUEST,
    "pad_to_multiple_of": ONLY_ON_REQUEST,
    "pad_token_type_id": ONLY_ON_REQUEST,
    "model_input_names": "names what a model is given beside the ids; all type ids of one text are 0 here and there",
    "return_token_type_ids": "chooses what is returned beside the ids",
    "return_attention_mask": "chooses what is returned beside the ids",
    "return_tensors": "chooses the type that is returned",
    "trim_offsets": "moves the offsets of tokens, not the tokens",
    "errors": "the tokenizers library always replaces bytes that are no UTF-8",
    "verbose": "chooses what is logged",
    "chat_template": CHAT,
    "chat_control_tokens": CHAT,
    "response_template": CHAT,
    "response_schema": CHAT,
    "use_default_system_prompt": CHAT,
    "vocab_file": PATH,
    "merges_file": PATH,
    "tokenizer_file": PATH,
    "full_tokenizer_file": PATH,
    "special_tokens_map_file": PATH,
    "added_tokens_file": PATH,
    "tokenizer_config_file": PATH,
    "source_spm": PATH,
    "target_spm": PATH,
    "target_vocab_file": PATH,
    "name_or_path": BOOKKEEPING,
    "_name_or_path": BOOKKEEPING,
    "_commit_hash": BOOKKEEPING,
    "backend": BOOKKEEPING,
    "is_local": BOOKKEEPING,
    "local_files_only": BOOKKEEPING,
    "files_loaded": BOOKKEEPING,
    "processor_class": BOOKKEEPING,
    "tokenizer_type": BOOKKEEPING,
    "transformers_version": BOOKKEEPING,
    "from_slow": BOOKKEEPING,
    "use_fast": BOOKKEEPING,
    "device_map": BOOKKEEPING,
    "vocab_size": "the size is that of the files",
    "do_basic_tokenize": FAST_ONLY,
    "never_split": FAST_ONLY,
    "spaces_between_special_tokens": FAST_ONLY,
    "source_lang": "chooses a punctuation normaliser that the library does not apply to texts",
    "target_lang": "chooses a punctuation normaliser that the library does not apply to texts",
    "language_codes": "the codes are those of vocab.json",
}
"""Keys without effect on ids and decoded text, with the reason."""

EXPECTED: Mapping[str, tuple[object, ...]] = {
    "init_inputs": ([], None),
    "fix_mistral_regex": (False, None),
    "wordpieces_prefix": ("##",),
    "clean_text": (True,),
    "padding_side": ("left", "right"),
    "truncation_side": ("left", "right"),
    "sp_model_kwargs": ({}, None),
    "is_fast": (True, None),
}
"""Keys of which only these values are the same as none."""

REFUSED = frozenset({"auto_map", "fast_tokenizer_files"})
"""Keys that say that the tokenizer is another: a program in the folder, or a file of another name."""

TOKEN_KEYS = frozenset({"content", "single_word", "lstrip", "rstrip", "normalized", "special"})
Token = str | AddedToken


def read_tokenizer_config(folder: Path) -> Json:
    """`tokenizer_config.json`, or nothing where there is none; DataError names a key that cannot be honoured."""
    file = folder / CONFIG
    config = read_table(file) if file.is_file() else {}
    require_known(file, config)
    return config


def require_known(file: Path, config: Mapping[str, object]) -> None:
    """Refuses keys and values that this package does not know."""
    auto_map = config.get("auto_map")
    if auto_map is not None and (not isinstance(auto_map, dict) or auto_map.get("AutoTokenizer")):
        raise DataError(file, f"auto_map: its tokenizer is a program of its own, which is not run; {SAVE_AGAIN}")
    if files := config.get("fast_tokenizer_files"):
        raise DataError(
            file,
            f"fast_tokenizer_files: expected none, got {_short(files)}; leave one tokenizer.json, and the key out",
        )
    for key, value in config.items():
        if key in EXPECTED:
            if value not in EXPECTED[key]:
                expected = " or ".join(map(repr, EXPECTED[key]))
                raise DataError(file, f"{key}: expected {expected}, got {_short(value)}; {SAVE_AGAIN}")
        elif key in BOOLEANS and type(value) is not bool and value is not None:
            raise DataError(file, f"{key}: expected true or false, got {_short(value)}")
        elif not _is_known(key, value):
            raise DataError(
                file,
                f"{key}: regard does not know this setting and whether it changes the tokens (got {_short(value)}); "
                f"leave it out where it has no effect, or {SAVE_AGAIN}",
            )


def _is_known(key: str, value: object) -> bool:
    names_token = key.endswith("_token") and isinstance(value, str | dict)
    return key in HONOURED or key in IRRELEVANT or names_token or key in REFUSED


def merged(folder: Path, config: Mapping[str, object], tree: Json | None) -> Json:
    """The arguments of the library's class: the folder's settings with its special and added tokens.

    `tree` is the content of tokenizer.json. Where the settings list the added tokens, the two older files are ignored;
    otherwise special_tokens_map.json overrides the settings.
    """
    file = folder / CONFIG
    kwargs: Json = {key: value for key, value in config.items() if key != "tokenizer_class"}
    if tree is not None:  # what stands around texts is then the file's to say
        kwargs.pop("add_bos_token", None)
        kwargs.pop("add_eos_token", None)
    if "additional_special_tokens" in kwargs and not kwargs.get("extra_special_tokens"):
        kwargs["extra_special_tokens"] = kwargs.pop("additional_special_tokens")
    specific = {
        key: kwargs.pop(key)
        for key in list(kwargs)
        if key not in NAMED and key.endswith("_token") and isinstance(kwargs[key], str)
    }
    if isinstance(kwargs.get("extra_special_tokens"), dict):
        specific |= kwargs.pop("extra_special_tokens")
    if specific:
        kwargs["model_specific_special_tokens"] = specific
    listed = kwargs.pop("added_tokens_decoder", None)
    added = _listed(file, listed) if listed is not None else _older(folder, kwargs, tree)
    kwargs = {key: _token(file, key, value) for key, value in kwargs.items()}
    by_name = {str(token): token for token in added.values()}
    for key in NAMED:
        if kwargs.get(key) is not None:
            if not isinstance(kwargs[key], Token):
                raise DataError(file, f"{key}: expected a token, got {_short(kwargs[key])}")
            kwargs[key] = by_name.get(str(kwargs[key]), kwargs[key])
    return {**kwargs, "added_tokens_decoder": added}


def _listed(file: Path, listed: object) -> dict[int, AddedToken]:
    if not isinstance(listed, dict):
        raise DataError(file, f"added_tokens_decoder: expected a table of tokens, got {_short(listed)}")
    added: dict[int, AddedToken] = {}
    for index, token in listed.items():
        if not str(index).isascii() or not str(index).isdigit():
            raise DataError(file, f"added_tokens_decoder: expected ids as keys, got {_short(index)}")
        added[int(index)] = _added_token(file, f"added_tokens_decoder.{index}", token)
    return added


def _older(folder: Path, kwargs: Json, tree: Json | None) -> dict[int, AddedToken]:
    """The added tokens of special_tokens_map.json (into `kwargs`), added_tokens.json and tokenizer.json."""
    _read_special_map(folder / SPECIAL_MAP, kwargs)
    added: dict[int, AddedToken] = {}
    file = folder / ADDED
    if file.is_file():
        extra = kwargs.get("extra_special_tokens") or []
        special = {str(kwargs[key]) for key in NAMED if kwargs.get(key)} | set(map(str, extra))
        for name, index in read_table(file).items():
            if type(index) is not int or index < 0:
                raise DataError(file, f"{name}: expected an id, got {_short(index)}")
            added[index] = AddedToken(name, normalized=name not in special, special=name in special)
    for position, token in enumerate((tree or {}).get("added_tokens") or []):
        where = f"added_tokens[{position}]"
        if not isinstance(token, dict) or type(token.get("id")) is not int:
            raise DataError(folder / TOKENIZER, f"{where}: expected a token with its id, got {_short(token)}")
        added[token["id"]] = _added_token(folder / TOKENIZER, where, {k: v for k, v in token.items() if k != "id"})
    return added


def _read_special_map(file: Path, kwargs: Json) -> None:
    if not file.is_file():
        return
    table = read_table(file)
    require_known(file, table)
    for key, value in table.items():
        if isinstance(value, dict) and key != "extra_special_tokens":
            kwargs[key] = _added_token(file, key, {**value, "special": True})
        elif key == "extra_special_tokens" and isinstance(value, list):
            tables = [{**one, "special": True} if isinstance(one, dict) else one for one in value]
            tokens = [_added_token(file, key, one) if isinstance(one, dict) else one for one in tables]
            before = list(kwargs.get(key) or [])
            kwargs[key] = [*before, *(token for token in tokens if token not in before)]
        else:
            kwargs[key] = value
    if isinstance(kwargs.get("extra_special_tokens"), dict):
        kwargs.setdefault("model_specific_special_tokens", {}).update(kwargs.pop("extra_special_tokens"))


def _token(file: Path, key: str, value: object) -> object:
    """A value of which tables that stand for tokens are tokens, also inside lists and tables."""
    if isinstance(value, dict) and value.get("__type") == "AddedToken":
        return _added_token(file, key, value)
    if isinstance(value, list):
        return [_token(file, key, one) for one in value]
    if isinstance(value, dict):
        return {name: _token(file, f"{key}.{name}", one) for name, one in value.items()}
    return value


def _added_token(file: Path, key: str, value: object) -> AddedToken:
    if not isinstance(value, dict) or not isinstance(value.get("content"), str):
        raise DataError(file, f"{key}: expected a token as a table with its content, got {_short(value)}")
    flags = {name: flag for name, flag in value.items() if name not in ("content", "__type")}
    for name, flag in flags.items():
        if name not in TOKEN_KEYS:
            raise DataError(file, f"{key}: expected the keys {', '.join(sorted(TOKEN_KEYS))}, got {name!r}")
        if type(flag) is not bool:
            raise DataError(file, f"{key}.{name}: expected true or false, got {_short(flag)}")
    return AddedToken(value["content"], **flags)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
