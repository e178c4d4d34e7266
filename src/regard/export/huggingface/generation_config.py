"""How a Hugging Face folder generates, as our search: generation_config.json, or config.json where that is missing."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.export.huggingface.generation_keys import GENERATION, TOKENS
from regard.export.huggingface.json_files import read_table
from regard.export.huggingface.keys import same

FILE = "generation_config.json"


@dataclass(frozen=True)
class Generation:
    """What a folder says of generation."""

    tokens: dict[str, int]
    """Ids of special tokens that count in place of those in config.json."""
    search: dict[str, Any]
    """Our search's settings."""
    notes: tuple[str, ...] = ()


def read_generation(folder: Path, config: dict[str, Any], pairs: bool) -> Generation:
    """The search of a folder; `config` is its config.json, `pairs` whether the model has an encoder.

    Where nothing is said the library's defaults hold: greedy search. Its limit of 20 tokens does not: nobody means it.
    """
    file = folder / FILE
    if file.is_file():
        tree = read_table(file)
    else:
        file = folder / "config.json"
        known = {*GENERATION.honoured, *GENERATION.refused, *GENERATION.noted}
        tree = {key: value for key, value in config.items() if key in known}
    settings = GENERATION.settled(file, {key: value for key, value in tree.items() if value is not None})
    tokens = {key: settings[key] for key in TOKENS if settings.get(key) is not None}
    search = _search(file, settings)
    limits, notes = _limits(settings, pairs)
    skipped = _skipped(settings, {**config, **tokens}, pairs)
    if settings["do_sample"] and settings["num_beams"] > 1:
        skipped.append("num_beams")  # beams of samples: draws are from one sequence
    if settings["length_penalty"] < 0:
        skipped.append("length_penalty")
    if skipped:
        notes += (f"{file.name} has settings of generation that regard does not: {', '.join(sorted(skipped))}",)
    return Generation(tokens, {**search, **limits}, notes)


def _search(file: Path, settings: dict[str, Any]) -> dict[str, Any]:
    for key in ("num_beams", "top_k", "no_repeat_ngram_size"):
        if settings[key] < 0 or (key == "num_beams" and settings[key] < 1):
            raise DataError(
                file, f"{key}: expected a number of {'beams' if key == 'num_beams' else 'tokens'}, got {settings[key]}"
            )
    if settings["do_sample"]:
        kinds = {"kind": "sample", "temperature": settings["temperature"], "top_p": settings["top_p"]}
        kinds |= {"top_k": settings["top_k"]} if settings["top_k"] else {}
        return kinds | ({"min_p": settings["min_p"]} if settings.get("min_p") else {})
    if settings["num_beams"] > 1:
        return {"kind": "beam", "size": settings["num_beams"], "length_penalty": max(0.0, settings["length_penalty"])}
    return {"kind": "greedy"}


def _limits(settings: dict[str, Any], pairs: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Most and fewest tokens to write, which the library counts with the token or the prompt they begin with."""
    given = 1 if pairs else 0  # of a prompt nobody knows the length yet
    limits, notes = {}, []
    if settings.get("max_new_tokens") is not None:
        limits["max_length"] = settings["max_new_tokens"]
    elif settings["max_length"] != GENERATION.defaults["max_length"]:
        limits["max_length"] = max(1, settings["max_length"] - given)
        notes += [] if pairs else ["max_length counts the prompt there, and here only what is generated"]
    fewest = settings.get("min_new_tokens")
    if fewest is None and settings["min_length"]:
        fewest = settings["min_length"] - given
        notes += [] if pairs else ["min_length counts the prompt there, and here only what is generated"]
    if fewest and fewest > 0:
        limits["min_length"] = fewest
    if settings["no_repeat_ngram_size"]:
        limits["no_repeat_ngram"] = settings["no_repeat_ngram_size"]
    return limits, tuple(notes)


def _skipped(settings: dict[str, Any], tokens: dict[str, Any], pairs: bool) -> list[str]:
    """The settings that a file has, that change the text, and that no search of ours has."""
    never = {tokens.get("pad_token_id")}
    never |= {tokens.get("bos_token_id"), tokens.get("decoder_start_token_id")} if pairs else set()
    as_ours = {
        "suppress_tokens": lambda value: set(value) <= never,
        "bad_words_ids": lambda value: all(len(one) == 1 and one[0] in never for one in value),
        "forced_eos_token_id": lambda value: same(value, tokens.get("eos_token_id")),  # where the text is cut anyway
    }
    found = []
    for key in GENERATION.noted & settings.keys():
        value = settings[key]
        if value is None or same(value, GENERATION.defaults.get(key)):
            continue
        if key not in as_ours or not as_ours[key](value):
            found.append(key)
    return found
