"""How a Hugging Face folder generates, as our search: generation_config.json, or config.json where that is missing."""

from dataclasses import dataclass
from pathlib import Path

from regard.errors import DataError
from regard.export.huggingface.config_keys import (
    NO_DEFAULT,
    Json,
    honoured,
    irrelevant,
    noted,
    read_table,
    refused,
    same,
)

FILE = "generation_config.json"
TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")

GENERATION = (
    honoured(
        max_length=20,
        min_length=0,
        do_sample=False,
        num_beams=1,
        temperature=1.0,
        top_k=50,
        top_p=1.0,
        length_penalty=1.0,
        no_repeat_ngram_size=0,
        **dict.fromkeys(("max_new_tokens", "min_new_tokens", "min_p", *TOKENS), NO_DEFAULT),
    )
    | irrelevant(
        "how the same text is computed",
        *("cache_implementation", "cache_config", "max_cache_len", "compile_config", "disable_compile", "low_memory"),
        *("prefill_chunk_size", "continuous_batching_config"),
        use_cache=True,
    )
    | irrelevant(
        "which further outputs the library returns",
        *("output_attentions", "output_hidden_states", "output_logits"),
        output_scores=False,
        return_dict_in_generate=False,
    )
    | irrelevant(
        "a record of where the file comes from",
        *("transformers_version", "_from_model_config", "_commit_hash", "_original_object_hash"),
    )
    | irrelevant(
        "how a second model drafts tokens; the text is the first model's",
        *("assistant_early_exit", "assistant_ensemble_weight", "is_assistant", "max_matching_ngram_size"),
        *("prompt_lookup_num_tokens", "speculation_type", "use_mtp"),
        num_assistant_tokens=20,
        num_assistant_tokens_schedule="constant",
        assistant_confidence_threshold=0.4,
        assistant_lookbehind=10,
        target_lookbehind=10,
    )
    | refused("forced_bos_token_id", None, default=None)
    | noted(
        *("top_h", "constraints", "force_words_ids", "sequence_bias", "guidance_scale", "penalty_alpha"),
        *("stop_strings", "watermarking_config", "token_healing", "dola_layers", "max_time", "renormalize_logits"),
        early_stopping=False,
        typical_p=1.0,
        repetition_penalty=1.0,
        encoder_no_repeat_ngram_size=0,
        bad_words_ids=None,
        num_return_sequences=1,
        exponential_decay_length_penalty=None,
        suppress_tokens=None,
        begin_suppress_tokens=None,
        epsilon_cutoff=0.0,
        eta_cutoff=0.0,
        encoder_repetition_penalty=1.0,
        num_beam_groups=1,
        diversity_penalty=0.0,
        remove_invalid_values=False,
        forced_eos_token_id=None,
    )
)
"""The keys of generation_config.json; one without a default is off where a file does not set it."""


@dataclass(frozen=True)
class Generation:
    """What a folder says of generation."""

    tokens: dict[str, int]
    """Ids of special tokens that override those of config.json."""
    search: Json
    """Our search's settings."""
    notes: tuple[str, ...] = ()


def read_generation(folder: Path, config: Json, encoder_decoder: bool) -> Generation:
    """The search of a folder; `config` is its config.json.

    Where nothing is said the library's defaults hold: greedy search. Its limit of 20 tokens does not: nobody means it.
    """
    file = folder / FILE
    if file.is_file():
        tree = read_table(file)
    else:
        file = folder / "config.json"
        names = {*GENERATION.honoured, *GENERATION.refused, *GENERATION.noted}
        tree = {key: value for key, value in config.items() if key in names}
    settings = GENERATION.resolve(file, {key: value for key, value in tree.items() if value is not None})
    tokens = {key: settings[key] for key in TOKENS if settings.get(key) is not None}
    search = _search(file, settings)
    limits, notes = _limits(settings, encoder_decoder)
    skipped = _skipped(settings, {**config, **tokens}, encoder_decoder)
    if settings["do_sample"] and settings["num_beams"] > 1:
        skipped.append("num_beams")  # our sampling follows one sequence
    if settings["length_penalty"] < 0:
        skipped.append("length_penalty")
    if skipped:
        notes += (f"{file.name} has settings of generation that regard does not: {', '.join(sorted(skipped))}",)
    return Generation(tokens, {**search, **limits}, notes)


def _search(file: Path, settings: Json) -> Json:
    for key in ("num_beams", "top_k", "no_repeat_ngram_size"):
        if settings[key] < 0 or (key == "num_beams" and settings[key] < 1):
            unit = "beams" if key == "num_beams" else "tokens"
            raise DataError(file, f"{key}: expected a number of {unit}, got {settings[key]}")
    if settings["do_sample"]:
        sample = {"kind": "sample", "temperature": settings["temperature"], "top_p": settings["top_p"]}
        sample |= {"top_k": settings["top_k"]} if settings["top_k"] else {}
        return sample | ({"min_p": settings["min_p"]} if settings.get("min_p") else {})
    if settings["num_beams"] > 1:
        return {"kind": "beam", "size": settings["num_beams"], "length_penalty": max(0.0, settings["length_penalty"])}
    return {"kind": "greedy"}


def _limits(settings: Json, encoder_decoder: bool) -> tuple[Json, tuple[str, ...]]:
    """Most and fewest tokens to generate; the library counts the decoder's start token or the prompt with them."""
    start = 1 if encoder_decoder else 0  # the length of a prompt is not known yet
    limits, notes = {}, []
    if settings.get("max_new_tokens") is not None:
        limits["max_length"] = settings["max_new_tokens"]
    elif settings["max_length"] != GENERATION.defaults["max_length"]:
        limits["max_length"] = max(1, settings["max_length"] - start)
        notes += [] if encoder_decoder else ["max_length counts the prompt there, and here only what is generated"]
    fewest = settings.get("min_new_tokens")
    if fewest is None and settings["min_length"]:
        fewest = settings["min_length"] - start
        notes += [] if encoder_decoder else ["min_length counts the prompt there, and here only what is generated"]
    if fewest and fewest > 0:
        limits["min_length"] = fewest
    if settings["no_repeat_ngram_size"]:
        limits["no_repeat_ngram"] = settings["no_repeat_ngram_size"]
    return limits, tuple(notes)


def _skipped(settings: Json, tokens: Json, encoder_decoder: bool) -> list[str]:
    """The settings of a file that change the text and that no search of ours has."""
    never = {tokens.get("pad_token_id")}
    never |= {tokens.get("bos_token_id"), tokens.get("decoder_start_token_id")} if encoder_decoder else set()
    same_here = {
        "suppress_tokens": lambda value: set(value) <= never,
        "bad_words_ids": lambda value: all(len(one) == 1 and one[0] in never for one in value),
        "forced_eos_token_id": lambda value: same(value, tokens.get("eos_token_id")),  # where the text is cut anyway
    }
    changed = {
        key: settings[key]
        for key in GENERATION.noted & settings.keys()
        if settings[key] is not None and not same(settings[key], GENERATION.defaults.get(key))
    }
    return [key for key, value in changed.items() if key not in same_here or not same_here[key](value)]
