"""How text is cut into words before a model of subwords sees it, and how pieces become text again.

Everything here is a part of the `tokenizers` library, so `tokenizer.json` says all of it and other programs agree.
Three ways of reading text cover the five kinds of vocabulary:

    byte level    each byte of the text's UTF-8 has a visible character of its own, so nothing is unknown
    characters    each character is a piece; one outside the vocabulary is written as its bytes, `<0xE2><0x82><0xAC>`
    words         whitespace separates words and is not kept, except the end of a line, which is a word itself
"""

from functools import cache
from itertools import product
from typing import Any, Literal, get_args

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Core

from regard.text.special_tokens import SPECIAL_TOKENS, UNK

Normalisation = Literal["none", "nfc", "nfkc"]
WordBoundary = Literal["spaces", "punctuation"]

LINE_END = "\n"
SPACES = r"[^\S\n]+"
SPELT_LIKE_SPECIAL = "<(?=(?:" + "|".join(token[1:-1] for i, token in enumerate(SPECIAL_TOKENS) if i != UNK) + ")>)"
AROUND_LINE_END = " ?\n ?"


def _byte_characters() -> tuple[str, ...]:
    """GPT-2's visible character for each of the 256 bytes."""
    visible = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    hidden = (chr(256 + index) for index in range(256 - len(visible)))
    return tuple(chr(byte) if byte in visible else next(hidden) for byte in range(256))


BYTE_CHARACTERS = _byte_characters()
BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))


def byte_level(
    model: models.Model,
    *,
    words: bool = True,
    prefix_space: bool = False,
    normalise: Normalisation = "none",
    lowercase: bool = False,
) -> Core:
    """Reads text as bytes; with `words`, no piece crosses from one word to the next."""
    core = Core(model)
    core.normalizer = _normaliser(normalise, lowercase, prefix_space)
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=words)
    join = decoders.ByteLevel()
    core.decoder = decoders.Sequence([join, decoders.Strip(" ", 1, 0)]) if prefix_space else join
    return _with_specials(core)


def characters(model: models.Model, *, normalise: Normalisation = "none", lowercase: bool = False) -> Core:
    """Reads text character by character."""
    core = Core(model)
    core.normalizer = _normaliser(normalise, lowercase)
    core.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return _with_specials(core)


def words(
    model: models.Model,
    *,
    boundary: WordBoundary = "spaces",
    normalise: Normalisation = "none",
    lowercase: bool = False,
) -> Core:
    """Reads text word by word and writes one space between two words, none at the end of a line."""
    core = Core(model)
    core.normalizer = _normaliser(normalise, lowercase)
    cuts: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.Split(Regex(LINE_END), "isolated"),
        pre_tokenizers.Split(Regex(SPACES), "removed"),
        # a word spelt like a special token falls in two, so that text can never name one
        pre_tokenizers.Split(Regex(SPELT_LIKE_SPECIAL), "isolated"),
    ]
    if boundary == "punctuation":
        cuts.append(pre_tokenizers.Punctuation("isolated"))
    core.pre_tokenizer = pre_tokenizers.Sequence(cuts)
    spaced = decoders.WordPiece(prefix=" ", cleanup=False)  # a space before each word but the first
    tidy = decoders.Replace(Regex(AROUND_LINE_END), "\n")
    core.decoder = decoders.Sequence([spaced, decoders.Fuse(), tidy])
    return _with_specials(core)


Description = tuple[bytes | None, ...]


def describe(core: Core) -> Description:
    """How a tokenizer reads and writes text, as JSON of its three parts."""
    parts = (core.normalizer, core.pre_tokenizer, core.decoder)
    return tuple(None if part is None else part.__getstate__() for part in parts)


@cache
def known_pipelines() -> frozenset[Description]:
    """Every pipeline that the functions above can make."""
    cores: list[Core] = []
    for form, lowercase in product(get_args(Normalisation), (False, True)):
        for first, second in product((False, True), repeat=2):
            cores.append(
                byte_level(models.BPE(), words=first, prefix_space=second, normalise=form, lowercase=lowercase)
            )
        for boundary in get_args(WordBoundary):
            cores.append(words(models.WordLevel(), boundary=boundary, normalise=form, lowercase=lowercase))
        cores.append(characters(models.BPE(), normalise=form, lowercase=lowercase))
    return frozenset(map(describe, cores))


def _normaliser(normalise: Normalisation, lowercase: bool, prefix_space: bool = False) -> normalizers.Normalizer | None:
    steps: list[normalizers.Normalizer] = []
    if normalise != "none":
        steps.append(normalizers.NFC() if normalise == "nfc" else normalizers.NFKC())
    if lowercase:
        steps.append(normalizers.Lowercase())
    if prefix_space:
        steps.append(normalizers.Prepend(" "))
    return normalizers.Sequence(steps) if steps else None


def _with_specials(core: Core) -> Core:
    if core.get_vocab_size():
        untyped: Any = core  # its stub leaves the type of a token out
        untyped.add_special_tokens([*SPECIAL_TOKENS])
    return core
