"""Which of our searches CTranslate2 can do, and in its own words.

A search is here what its config's `tree()` gives: plain values, such as {"kind": "beam", "size": 5, …}.
"""

from collections.abc import Mapping
from typing import Any

from regard.config.search_options import Search as Search
from regard.config.search_options import is_sampling

RANDOM = "the search draws at random, and CTranslate2 has random numbers of its own"


ALWAYS = frozenset({"kind", "max_length"})
SAME = {
    "greedy": ALWAYS | {"min_length", "forbid_unknown"},
    "beam": ALWAYS | {"size", "n_best", "length_penalty"},
    "sample": ALWAYS | {"temperature", "min_length", "forbid_unknown"},
}
"""The settings of each kind that CTranslate2 takes as we do, as long as nothing is drawn; all others must be left at
their defaults."""
DRAWN = SAME["sample"] | {"top_k", "top_p", "seed"}
"""Those that it takes where it draws: from the same distribution, with random numbers of its own."""
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


def unable(
    search: Search, defaults: Mapping[str, Search], task: str, prompted: bool = False, forced: bool = False
) -> str | None:
    """Why CTranslate2 cannot find what this search of ours finds; None where it can.

    `defaults` has the settings of each kind where nobody says any. `prompted`: the model has one stack, and what it
    reads is the beginning of its own text. `forced`: other random numbers will do.
    """
    kind = search["kind"]
    if is_sampling(search) and not forced:
        return RANDOM
    if kind == "beam" and (prompted or task == "language_model"):
        return "its beams end elsewhere in language models" + (", as is a summariser of one stack" if prompted else "")
    known = DRAWN if is_sampling(search) else SAME.get(kind, frozenset())
    for setting, value in search.items():
        if setting not in known and value != defaults.get(kind, {}).get(setting):
            return REASONS.get(setting, f"it does not know the setting {setting} of our searches")
    return None


def words(search: Search, task: str, prompted: bool = False) -> dict[str, Any]:
    """A search as arguments of `translate_batch` or, in a model of one stack, of `generate_batch`."""
    alone = task == "language_model"
    limits = "max_decoding_length", "min_decoding_length"
    if alone or prompted:
        limits = "max_length", "min_length"
    never = ["<pad>", *([] if alone else ["<bos>"]), *(["<unk>"] if search["forbid_unknown"] else [])]
    said: dict[str, Any] = {
        limits[0]: search["max_length"],
        limits[1]: search["min_length"],
        "suppress_sequences": [[token] for token in never],
        "beam_size": 1,
        "return_scores": True,
        "return_end_token": True,
    }
    if search["kind"] == "beam":
        # all hypotheses of the beam are asked for: ours ranks those that ended before those that were cut
        beam = {"beam_size": search["size"], "num_hypotheses": search["size"]}
        return {**said, **beam, "length_penalty": search["length_penalty"]}
    if is_sampling(search):
        drawn = {"sampling_temperature": search["temperature"], "sampling_topp": search["top_p"]}
        return {**said, **drawn, "sampling_topk": search.get("top_k") or 0}
    return said


def ranking(total: float, length: int, search: Search) -> float:
    """What a search ranks by, from the sum of log-probabilities and the tokens written, the end token counted."""
    return total / max(1, length) ** search["length_penalty"] if search["kind"] == "beam" else total
