"""The tokenizers that transformers' classes build from a vocabulary, each as its class does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Core

from regard.export.huggingface.config_keys import Json
from regard.export.huggingface.tokenizer_config import NAMED, Token

SPACE = "▁"
Value = TypeVar("Value")


@dataclass
class TokenizerFiles:
    """What a class is built from."""

    kwargs: Json
    vocab: Any
    """A table or list of the vocabulary, or the path of its file."""
    merges: list[tuple[str, str]] | str | None = None
    characters: bytes | None = None
    """SentencePiece's compiled table of character replacements."""
    post_processor: processors.PostProcessor | None = None

    def take(self, key: str, default: Value) -> Value:
        """An argument of the class, with its default."""
        return self.kwargs.setdefault(key, default)


def _bert(files: TokenizerFiles) -> Core:
    take = files.take
    lower, chinese, accents = (
        take("do_lower_case", True),
        take("tokenize_chinese_chars", True),
        take("strip_accents", None),
    )
    unknown = take("unk_token", "[UNK]")
    for key in ("sep", "pad", "cls", "mask"):
        take(f"{key}_token", f"[{key.upper()}]")
    core = Core(models.WordPiece(files.vocab, unk_token=str(unknown)))
    core.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=chinese, strip_accents=accents, lowercase=lower
    )
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece(prefix="##")
    core = with_tokens(core, files.kwargs, files.post_processor)
    begin, end = str(files.kwargs["cls_token"]), str(files.kwargs["sep_token"])
    core.post_processor = processors.TemplateProcessing(
        single=f"{begin}:0 $A:0 {end}:0",
        pair=f"{begin}:0 $A:0 {end}:0 $B:1 {end}:1",
        special_tokens=[(begin, core.token_to_id(begin)), (end, core.token_to_id(end))],
    )
    return core


def _byte_level(files: TokenizerFiles, normalizer: normalizers.Normalizer | None, pad: str | None) -> Core:
    for key in ("unk_token", "bos_token", "eos_token"):
        files.take(key, "<|endoftext|>")
    files.take("pad_token", pad)
    model = models.BPE(
        files.vocab, files.merges, dropout=None, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False
    )
    core = Core(model)
    core.normalizer = normalizer
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=files.take("add_prefix_space", False))
    core.decoder = decoders.ByteLevel()
    return with_tokens(core, files.kwargs, files.post_processor)


def _gpt2(files: TokenizerFiles) -> Core:
    return _byte_level(files, None, None)


def _gpt_neox(files: TokenizerFiles) -> Core:
    core = _byte_level(files, normalizers.NFC(), "<|padding|>")
    return _around_texts(core, files.kwargs)  # also where tokenizer.json has another post-processor


def _llama(files: TokenizerFiles) -> Core:
    for key, token in (("unk_token", "<unk>"), ("bos_token", "<s>"), ("eos_token", "</s>")):
        files.take(key, token)
    prefix, legacy = files.kwargs.get("add_prefix_space"), files.take("legacy", False)
    prefix = True if prefix is None else prefix
    core = Core(models.BPE(files.vocab, files.merges, fuse_unk=True, byte_fallback=True, dropout=None))
    scheme = ("always" if legacy else "first") if prefix else "never"
    core.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme, split=False)
    steps: list[decoders.Decoder] = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    core.decoder = decoders.Sequence([*steps, decoders.Strip(content=" ", left=1)] if prefix else steps)
    return with_tokens(core, files.kwargs, files.post_processor)


def _t5(files: TokenizerFiles) -> Core:
    for key, token in (("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")):
        files.take(key, token)
    count, extra = files.take("extra_ids", 100), files.kwargs.get("additional_special_tokens")
    sentinels = [f"<extra_id_{number}>" for number in range(count)]
    if extra is None:
        extra = sentinels
    elif not any("<extra_id_" in str(token) for token in extra):
        extra = [*extra, *sentinels]
    elif count > 0 and count != sum("<extra_id_" in str(token) for token in extra):
        raise ValueError(f"extra_ids is {count}, and additional_special_tokens has another number of them")
    files.kwargs["additional_special_tokens"] = extra
    core = Core(models.Unigram(files.vocab, unk_id=2, byte_fallback=False))
    if files.characters is not None:
        core.normalizer = normalizers.Precompiled(files.characters)
    spaces = pre_tokenizers.Metaspace(SPACE, prepend_scheme="always", split=True)
    core.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), spaces])
    core.decoder = decoders.Metaspace(SPACE, prepend_scheme="always", split=True)
    core = with_tokens(core, files.kwargs, files.post_processor)
    end = core.token_to_id(str(files.kwargs["eos_token"]))
    core.post_processor = processors.TemplateProcessing(
        single=["$A", "</s>"], pair=["$A", "</s>", "$B", "</s>"], special_tokens=[("</s>", end)]
    )
    return core


def _pegasus(files: TokenizerFiles) -> Core:
    for key, token in (
        ("pad_token", "<pad>"),
        ("eos_token", "</s>"),
        ("unk_token", "<unk>"),
        ("mask_token", "<mask_2>"),
    ):
        files.take(key, token)
    sentence, extra = files.take("mask_token_sent", "<mask_1>"), files.kwargs.get("additional_special_tokens")
    first = [sentence] if sentence is not None and (extra is None or sentence not in extra) else []
    unused = [f"<unk_{number}>" for number in range(2, files.take("offset", 103))]
    files.kwargs["additional_special_tokens"] = [*first, *unused]
    unknown = files.vocab.index((str(files.kwargs["unk_token"]), 0.0), 1)
    core = Core(models.Unigram(files.vocab, unk_id=unknown))
    before = (
        normalizers.Replace(Regex(r"\n"), " ")
        if files.characters is None
        else normalizers.Precompiled(files.characters)
    )
    core.normalizer = normalizers.Sequence([before, normalizers.Replace(Regex(r" {2,}"), " ")])
    core.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme="always", split=True)
    core.decoder = decoders.Metaspace(SPACE, prepend_scheme="always", split=True)
    core = with_tokens(core, files.kwargs, files.post_processor)
    end = str(files.kwargs["eos_token"])
    core.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A $B {end}", special_tokens=[(end, core.token_to_id(end))]
    )
    return core


CLASSES: Mapping[str, Callable[[TokenizerFiles], Core]] = {
    "BertTokenizer": _bert,
    "GPT2Tokenizer": _gpt2,
    "GPTNeoXTokenizer": _gpt_neox,
    "LlamaTokenizer": _llama,
    "T5Tokenizer": _t5,
    "PegasusTokenizer": _pegasus,
}


def with_tokens(core: Core, kwargs: Json, post_processor: processors.PostProcessor | None = None) -> Core:
    """The general part of each class: special and added tokens, and what stands around texts."""
    if post_processor is not None:
        core.post_processor = post_processor
    explicit = "add_bos_token" in kwargs or "add_eos_token" in kwargs
    core.encode_special_tokens = bool(kwargs.get("split_special_tokens"))
    named = {key: kwargs[key] for key in NAMED if kwargs.get(key) is not None}
    automatic = {k: v for k, v in kwargs.items() if k.endswith("_token") and k not in NAMED and isinstance(v, Token)}
    named |= {**automatic, **(kwargs.get("model_specific_special_tokens") or {})}
    extra = kwargs.get("extra_special_tokens", kwargs.get("additional_special_tokens")) or []
    for token in [*named.values(), *extra]:
        if not isinstance(token, Token):
            raise TypeError(f"expected a token, got {token!r}")
    added: list[Token] = [token for _, token in sorted(kwargs["added_tokens_decoder"].items())]
    existing = {*(token.content for token in core.get_added_tokens_decoder().values()), *map(str, added)}
    for token in [*named.values(), *extra]:
        if str(token) not in existing and token not in added:
            added.append(token)
    names = {str(token) for token in named.values()}
    core.add_tokens([_special(token, names) for token in added])
    return _around_texts(core, kwargs) if explicit or core.post_processor is None else core


def _special(token: Token, names: set[str]) -> AddedToken:
    if isinstance(token, str):
        return AddedToken(token, special=True)
    if not token.special and str(token) in names:
        token.special = True
    return token


def _around_texts(core: Core, kwargs: Mapping[str, object]) -> Core:
    """The post-processor of `add_bos_token` and `add_eos_token`."""
    tokens = {key: kwargs.get(f"{key}_token") for key in ("bos", "eos") if kwargs.get(f"add_{key}_token")}
    begin, end = (None if tokens.get(key) is None else str(tokens[key]) for key in ("bos", "eos"))
    single = f"{f'{begin}:0 ' if begin else ''}$A:0{f' {end}:0' if end else ''}"
    pair = f"{single}{f' {begin}:1' if begin else ''} $B:1{f' {end}:1' if end else ''}"
    special = [(token, core.token_to_id(token)) for token in (begin, end) if token]
    core.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)
    return core
