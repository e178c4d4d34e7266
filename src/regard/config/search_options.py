"""A run's own search with the options of a request on top: one rule for both engines, the command line and the server.

A search is here what its config's `tree()` gives. An option of the search's own kind changes that setting and nothing
else. An option of another kind changes the kind: what all kinds share (`SHARED`) stays as the recipe has it, the rest
is the new kind's default. An option that would do nothing is refused.
"""

from collections.abc import Callable, Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any, Literal, Protocol, Self, TypeVar

from regard.errors import ConfigError, nearest

Search = Mapping[str, Any]
"""Settings of a search by name, or some of them: values of the types that its config gives them."""

SHARED = ("max_length", "max_length_ratio", "max_length_offset", "min_length", "no_repeat_ngram", "forbid_unknown")
"""Settings of every kind of search."""
OF_BEAM = ("size", "n_best", "length_penalty", "length_formula")
OF_SAMPLING = ("top_k", "top_p", "min_p", "seed")
"""Settings of sampling that do nothing at temperature 0."""
OF_SAMPLE = ("temperature", *OF_SAMPLING, "repetition_penalty", "samples")
Formula = Literal["power", "gnmt"]
AS_NAMED: Mapping[str, str] = MappingProxyType({})


def is_sampling(search: Search) -> bool:
    return search["kind"] == "sample" and search["temperature"] > 0


class Length(Protocol):
    """A length, or a tensor of lengths."""

    def __add__(self, other: int, /) -> Self: ...
    def __truediv__(self, other: int, /) -> Self: ...
    def __pow__(self, other: float, /) -> Self: ...


AnyLength = TypeVar("AnyLength", bound=Length)


def length_divisor(length: AnyLength, alpha: float, formula: Formula = "power") -> AnyLength:
    """lp(l): what a beam search divides the log-probability of l tokens by, the end token counted.

    `power`: l^alpha, so that the score is the mean log-probability at alpha 1.
    `gnmt`: ((5 + l) / 6)^alpha, which is milder for short sequences.
    Both are 1 everywhere at alpha 0, and never fall as l grows.
    """
    return (length if formula == "power" else (length + 5) / 6) ** alpha


def requested_kind(usual: str, options: Search) -> str:
    """The kind of search that options ask for; a seed alone asks for none, nor does one output of each input."""
    if "kind" in options:
        return options["kind"]
    if options.get("n_best", 1) > 1 or any(name in options for name in OF_BEAM if name != "n_best"):
        return "beam"
    return "sample" if any(name in options for name in OF_SAMPLE if name != "seed") else usual


def with_options(
    usual: Search, options: Search, defaults: Mapping[str, Search], called: Mapping[str, str] = AS_NAMED
) -> Search:
    """A search with options on top; those that are None are not given.

    `defaults` has the settings of each kind where nobody says any, `called` what the person calls an option.
    """
    chosen = {name: value for name, value in options.items() if value is not None}

    def name(option: str) -> str:
        return called.get(option, option)

    for option, value in chosen.items():
        _refuse_range(name(option), option, value)
    kind = requested_kind(usual["kind"], chosen)
    if kind not in defaults:
        raise ConfigError(name("kind"), f"unknown kind '{kind}'; {nearest(str(kind), defaults)}")
    base = dict(usual)
    if kind != usual["kind"]:
        base = {**defaults[kind], **{setting: usual[setting] for setting in SHARED if setting in usual}}
    if kind == "sample" and chosen.get("temperature", base["temperature"]) == 0:  # then none of them does anything
        base = {setting: value for setting, value in base.items() if setting not in OF_SAMPLING}
        base |= {setting: value for setting, value in defaults[kind].items() if setting in OF_SAMPLING}
    search = {**base, **_outputs(kind, base, chosen, name), "kind": kind}
    if not is_sampling(search):
        _refuse_sampling_options(search, chosen, name)
    if "max_length" in chosen and "min_length" not in chosen and search["min_length"] >= search["max_length"]:
        raise ConfigError(
            name("max_length"), f"expected more than min_length ({search['min_length']}), got {search['max_length']}"
        )
    return search


def _outputs(kind: str, base: Search, chosen: Search, name: Callable[[str], str]) -> Search:
    """What is given, with a beam wide enough for as many outputs as are wanted; of the other kinds, one is wanted."""
    if kind != "beam":
        rest = {option: value for option, value in chosen.items() if option != "n_best"}
        return {**rest, "samples": 1} if kind == "sample" and "n_best" in chosen else rest
    size, outputs = chosen.get("size", base["size"]), chosen.get("n_best", base["n_best"])
    if "size" not in chosen:
        return {**chosen, "size": max(size, outputs)}
    if outputs > size:
        if "n_best" in chosen:
            raise ConfigError(name("n_best"), f"expected at most the beam's size ({size}), got {outputs}")
        raise ConfigError(name("size"), f"expected at least the run's n_best ({outputs}), got {size}")
    return chosen


def _refuse_sampling_options(search: Search, chosen: Search, name: Callable[[str], str]) -> None:
    """Refuses options that only act where something is drawn."""
    for option in (option for option in OF_SAMPLING if option in chosen):
        how = "at temperature 0" if search["kind"] == "sample" else f"by {search['kind']} search"
        raise ConfigError(
            name(option),
            f"nothing is drawn {how}; ask for sampling with {name('temperature')} above 0, or leave it out",
        )


def _refuse_range(called: str, option: str, value: object) -> None:
    """Refuses values that no search has; the engine without torch has no configs that would."""
    if isinstance(value, float) and not isfinite(value):
        raise ConfigError(called, f"expected a finite number, got {value}")
    is_share = isinstance(value, int | float) and 0 <= value <= 1 and (value > 0 or option == "min_p")
    if option in ("top_p", "min_p") and not is_share:
        raise ConfigError(called, f"expected a share between 0 and 1, got {value}")
