"""Which languages a translation run stands between: what its recipe's data is called tells, or the user does."""

import re
from pathlib import Path
from typing import NamedTuple

from regard.data.sources import SourceConfig
from regard.errors import ConfigError

NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German",
    "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque",
    "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian",
    "hu": "Hungarian", "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ko": "Korean",
    "la": "Latin", "lt": "Lithuanian", "lv": "Latvian", "nb": "Norwegian", "nl": "Dutch", "pl": "Polish",
    "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian",
    "sr": "Serbian", "sv": "Swedish", "sw": "Swahili", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu",
    "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip

LANGUAGE_TAG = re.compile(r"([A-Za-z]{2,3})(?:[-_](?:[A-Z]{2}|[A-Z][a-z]{3}|\d{3}))+")


class Pair(NamedTuple):
    """From one language into another, by their codes."""

    source: str
    target: str


def pair_of(data: SourceConfig | None) -> Pair:
    """The languages as the recipe's data names them; `source` and `target` where it names none that are known."""
    if data is None:
        return Pair("source", "target")
    if data.street is not None:
        return Pair("en", "de")
    codes = [code_of(str(column)) for column in (data.source, data.target)]
    return Pair(codes[0] or "source", codes[1] or "target")


def known_codes(pair: Pair) -> tuple[str, str]:
    """The codes of a pair; empty where its data does not name them."""
    return ("" if pair.source == "source" else pair.source, "" if pair.target == "target" else pair.target)


def parse_pair(text: str) -> Pair:
    """`en-de` as a pair."""
    source, dash, target = text.partition("-")
    if not dash or not source.isalnum() or not target.isalnum():
        raise ConfigError("languages", f"expected two codes such as 'en-de', got '{text}'")
    return Pair(source, target)


def code_of(name: str) -> str | None:
    """The language code in a column's or a file's name, such as `train.en.gz`, `translation.en` or `en-CA`."""
    tag = LANGUAGE_TAG.fullmatch(name)
    if tag and tag.group(1).lower() in NAMES:
        return tag.group(1).lower()
    parts = Path(name).name.lower().replace("_", ".").replace("-", ".").split(".")
    return next((part for part in reversed(parts) if part in NAMES), None)
