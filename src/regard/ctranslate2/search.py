"""Which of our searches CTranslate2 supports, and as options of the library.

A search is here what its config's `tree()` gives: plain values, such as {"kind": "beam", "size": 5, …}.
"""

from collections.abc import Mapping
from typing import Any

from regard.config.search_options import Search as Search
from regard.config.search_options import is_sampling, length_divisor

RANDOM = "the search samples, and CTranslate2 has random numbers of its own"


ALWAYS = frozenset({"kind", "max_length"})
EXACT = {
    "greedy": ALWAYS | {"min_length", "forbid_unknown"},
    "beam": ALWAYS | {"size", "n_best", "length_penalty"},
    "sample": ALWAYS | {"temperature", "min_length", "forbid_unknown"},
}
"""The settings of each kind that give the same text in CTranslate2 without sampling; others need their defaults."""
SAMPLING = EXACT["sample"] | {"top_k", "top_p", "seed"}
"""The settings of sampling: the same distribution, other random numbers."""
REASONS = {
    "max_length_ratio": "it has no max_length_ratio",
    "no_repeat_ngram": "its no_repeat_ngram has other rules",
    "min_length": "where tokens are forbidden (min_length, forbid_unknown), it shares out their probability",
    "forbid_unknown": "where tokens are forbidden (min_length, forbid_unknown), it shares out their probability",
    "length_formula": "it has no length_formula like ours",
    "min_p": "it has no min_p like ours",
    "repetition_penalty": "it has no repetition_penalty like ours",
    "samples": "it draws one sample",
}


def unsupported_reason(
    search: Search, defaults: Mapping[str, Search], task: str, prompted: bool = False, forced: bool = False
) -> str | None:
    """Why CTranslate2 would not generate what this search generates; None where it does.

    `defaults` has the default settings of each kind. `prompted`: the model is a decoder whose prompt is the input.
    `forced`: other random numbers will do.
    """
    kind = search["kind"]
    if is_sampling(search) and not forced:
        return RANDOM
    if kind == "beam" and (prompted or task == "language_model"):
        return "its beams end elsewhere in language models" + (", as is a summariser of one stack" if prompted else "")
    supported = SAMPLING if is_sampling(search) else EXACT.get(kind, frozenset())
    for setting, value in search.items():
        if setting not in supported and value != defaults.get(kind, {}).get(setting):
            return REASONS.get(setting, f"it does not know the setting {setting} of our searches")
    return None


def library_options(search: Search, task: str, prompted: bool = False) -> dict[str, Any]:
    """A search as arguments of `translate_batch` or, of a decoder, of `generate_batch`."""
    language_model = task == "language_model"
    limits = "max_decoding_length", "min_decoding_length"
    if language_model or prompted:
        limits = "max_length", "min_length"
    suppressed = ["<pad>"] if language_model else ["<pad>", "<bos>"]
    suppressed += ["<unk>"] if search["forbid_unknown"] else []
    options: dict[str, Any] = {
        limits[0]: search["max_length"],
        limits[1]: search["min_length"],
        "suppress_sequences": [[token] for token in suppressed],
        "beam_size": 1,
        "return_scores": True,
        "return_end_token": True,
    }
    if search["kind"] == "beam":
        # all hypotheses: ours ranks finished ones before those that were cut
        options |= {"beam_size": search["size"], "num_hypotheses": search["size"]}
        options["length_penalty"] = search["length_penalty"]
    elif is_sampling(search):
        options |= {"sampling_temperature": search["temperature"], "sampling_topp": search["top_p"]}
        options["sampling_topk"] = search.get("top_k") or 0
    return options


def ranking_score(total: float, length: int, search: Search) -> float:
    """What a search ranks by: the sum of log-probabilities, of beams divided by the length with its end token."""
    if search["kind"] != "beam":
        return total
    return total / length_divisor(float(max(1, length)), search["length_penalty"])
