"""Which of our searches CTranslate2 can do, and in its own words.

A search is here what its config's `tree()` gives: plain values, such as {"kind": "beam", "size": 5, …}.
"""

from collections.abc import Mapping
from typing import Any

Search = Mapping[str, Any]
RANDOM = "the search draws at random, and CTranslate2 has random numbers of its own"


def unable(search: Search, task: str, prompted: bool = False) -> str | None:
    """Why CTranslate2 cannot find what this search of ours finds; None where it can.

    `prompted`: the model has one stack, and what it reads is the beginning of its own text.
    """
    if search["kind"] == "sample" and search["temperature"] > 0:
        return RANDOM
    if search["kind"] == "sample" and (search["samples"] > 1 or search["repetition_penalty"] != 1):
        return "samples and repetition_penalty mean something else there"
    if search["kind"] == "beam" and (prompted or task == "language_model"):
        return "its beams end elsewhere in language models" + (", as is a summariser of one stack" if prompted else "")
    if search.get("max_length_ratio") is not None:
        return "it has no max_length_ratio"
    if search["no_repeat_ngram"]:
        return "its no_repeat_ngram has other rules"
    return _differs_in_beams(search) if search["kind"] == "beam" else None


def _differs_in_beams(search: Search) -> str | None:
    """What changes the scores, which a beam compares and a greedy search does not."""
    if search["length_formula"] != "power" and search["length_penalty"]:
        return f"it has no length_formula '{search['length_formula']}'"
    if search["min_length"] or search["forbid_unknown"]:
        return "where tokens are forbidden (min_length, forbid_unknown), it shares out their probability"
    if not 1 <= search["n_best"] <= search["size"]:
        return "this beam cannot be"
    return None


def random(search: Search) -> bool:
    """Whether a search draws its tokens."""
    return search["kind"] == "sample" and search["temperature"] > 0


def undrawable(search: Search) -> str | None:
    """Why CTranslate2 cannot even draw from the distribution that this search of ours draws from."""
    other = [name for name, usual in (("min_p", 0.0), ("repetition_penalty", 1.0)) if search[name] != usual]
    return f"it has no {other[0]} like ours" if other else "it draws one sample" if search["samples"] > 1 else None


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
    if random(search):
        draws = {"sampling_temperature": search["temperature"], "sampling_topp": search["top_p"]}
        return {**said, **draws, "sampling_topk": search.get("top_k") or 0}
    return said


def ranking(total: float, length: int, search: Search) -> float:
    """What a search ranks by, from the sum of log-probabilities and the tokens written, the end token counted."""
    return total / max(1, length) ** search["length_penalty"] if search["kind"] == "beam" else total
