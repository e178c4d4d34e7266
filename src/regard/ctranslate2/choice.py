"""Which engine runs a model, and why, in one line.

CTranslate2 is chosen where it generates the same text as torch. Its greedy search does, by the parity check of the
export; its beams end a little differently from ours, so each beam search is compared on held-out text once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from regard.config.search_options import Search, is_sampling
from regard.ctranslate2.model_folder import (
    ConvertedModel,
    EngineUnavailableError,
    Precision,
    converted_model,
    folder_for,
    is_ready,
    verb_of_task,
)
from regard.errors import ConfigError
from regard.files.run_folder import is_run

ENGINES = ("auto", "torch", "ctranslate2")
IDENTICAL = 0.999
"""Share of held-out inputs whose outputs must be identical."""
INSTALL = "pip install 'regard[ctranslate2]'"

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

RequestedSearch = Callable[[ConvertedModel], Search]
"""The requested search, which may depend on the run's own."""


@dataclass(frozen=True)
class Choice:
    """An engine and the reason for it."""

    engine: Literal["torch", "ctranslate2"]
    why: str = ""
    converted: ConvertedModel | None = None
    search: Search | None = None

    def __str__(self) -> str:
        kind = f" ({self.converted.precision})" if self.converted else ""
        return f"engine {self.engine}{kind}: {self.why}"


def choose(
    run: Path,
    engine: str,
    task: str,
    requested_search: RequestedSearch,
    *,
    int8: bool = False,
    device: str = "cpu",
    obstacles: Sequence[str] = (),
    say: Callable[[str], None] = lambda sentence: None,
) -> Choice:
    """The engine for a run and a search; `obstacles` are the caller's reasons for torch."""
    if engine not in ENGINES:
        raise ConfigError("--engine", f"expected one of {', '.join(ENGINES)}, got '{engine}'")
    if engine == "torch" and int8:
        raise ConfigError("--int8", "torch computes in floating point here; use --engine ctranslate2 with --int8")
    if engine == "torch" or not is_run(run):  # torch reports what is no run
        return Choice("torch", "asked for" if engine == "torch" else "")
    forced = int8 or engine == "ctranslate2"
    try:
        _refuse_obstacles(obstacles, device)
        return _ctranslate2(run, task, requested_search, "int8" if int8 else "float32", forced, say)
    except EngineUnavailableError as error:
        if forced:
            raise ConfigError("--engine", f"ctranslate2 cannot do this: {error}") from None
        return Choice("torch", str(error))


def _refuse_obstacles(obstacles: Sequence[str], device: str) -> None:
    """EngineUnavailableError where the library is missing, or the caller or the device needs torch."""
    if find_spec("ctranslate2") is None:
        raise EngineUnavailableError(f"ctranslate2 is not installed ({INSTALL})")
    if obstacles:
        raise EngineUnavailableError(obstacles[0])
    if device != "cpu":
        from ctranslate2 import get_cuda_device_count

        if device != "auto" or get_cuda_device_count():
            raise EngineUnavailableError("torch runs the model on the GPU")


def _ctranslate2(
    run: Path,
    task: str,
    requested_search: RequestedSearch,
    precision: Precision,
    forced: bool,
    say: Callable[[str], None],
) -> Choice:
    """CTranslate2 for the run, or EngineUnavailableError with the reason."""
    try:
        if not is_ready(folder_for(run, precision)):
            say(f"{run}: converting the model for CTranslate2, once")
        converted = converted_model(run, precision)
    except OSError as error:
        raise EngineUnavailableError(f"{error.filename}: {error.strerror}") from None
    if converted.verb != verb_of_task(task):  # torch reports what the run can do
        raise EngineUnavailableError(f"a run of {converted.task}")
    search = converted.limited(requested_search(converted))
    why = _reason(run, converted, search, forced, say)
    return Choice("ctranslate2", why, converted, search)


def _reason(run: Path, converted: ConvertedModel, search: Search, forced: bool, say: Callable[[str], None]) -> str:
    """Why CTranslate2 is chosen; EngineUnavailableError where it is not."""
    positions = converted.max_positions - (converted.input_tokens or 0 if converted.prompted else 0)
    if search["max_length"] > positions:
        raise EngineUnavailableError(
            f"{search['max_length']} tokens to generate, the converted model has {positions} positions for them"
        )
    if problem := unsupported_reason(search, converted.searches, converted.task, converted.prompted, forced):
        raise EngineUnavailableError(problem)
    if forced:
        note = "; it samples with its own random numbers, so seeds give other texts than with torch"
        return f"asked for{note if is_sampling(search) else ''}"
    if search["kind"] != "beam":
        return "installed, and its greedy text is torch's"
    if converted.agreement(search) is None:
        say(f"{run}: comparing both engines with this search, once")
    same, of = converted_model(run, converted.precision, search).agreement(search) or (0, 1)
    if same < IDENTICAL * of:
        raise EngineUnavailableError(
            f"with this search CTranslate2 generates {of - same} of {of} held-out texts differently"
        )
    return f"installed, and it generates {same} of {of} held-out texts as torch does"


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
