"""Which engine runs a model, and why: said in one line, so that nobody wonders where speed or a difference comes from.

CTranslate2 is taken where it writes what torch would write. Its greedy search does, by the parity check of the export;
its beams end a little differently from ours, so each beam is tried on held-out text first, and what was found is kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from regard.config.search_options import is_sampling
from regard.ctranslate2.model_folder import Converted, Precision, Unfit, folder_for, is_ready, ready, verb_of
from regard.ctranslate2.search import Search, unable
from regard.errors import ConfigError
from regard.files.run_folder import is_run

ENGINES = ("auto", "torch", "ctranslate2")
SAME = 0.999
"""Share of held-out inputs that must be written alike."""
INSTALL = "pip install 'regard[ctranslate2]'"

Ask = Callable[[Converted], Search]
"""The search that is wanted, once the run's own is known."""


@dataclass(frozen=True)
class Choice:
    """An engine and the reason for it."""

    engine: Literal["torch", "ctranslate2"]
    why: str = ""
    converted: Converted | None = None
    search: Search | None = None

    def __str__(self) -> str:
        kind = f" ({self.converted.precision})" if self.converted else ""
        return f"engine {self.engine}{kind}: {self.why}"


def choose(
    run: Path,
    wanted: str,
    task: str,
    ask: Ask,
    *,
    int8: bool = False,
    device: str = "cpu",
    obstacles: Sequence[str] = (),
    say: Callable[[str], None] = lambda sentence: None,
) -> Choice:
    """The engine for a run and a search; `obstacles` are what the caller knows that only torch can do."""
    if wanted not in ENGINES:
        raise ConfigError("--engine", f"expected one of {', '.join(ENGINES)}, got '{wanted}'")
    if wanted == "torch" and int8:
        raise ConfigError("--int8", "torch computes in floating point here; use --engine ctranslate2 with --int8")
    if wanted == "torch" or not is_run(run):  # what is no run, torch's way explains
        return Choice("torch", "asked for" if wanted == "torch" else "")
    forced = int8 or wanted == "ctranslate2"
    try:
        _refuse_obstacles(obstacles, device)
        return _fast(run, task, ask, "int8" if int8 else "float32", forced, say)
    except Unfit as error:
        if forced:
            raise ConfigError("--engine", f"ctranslate2 cannot do this: {error}") from None
        return Choice("torch", str(error))


def _refuse_obstacles(obstacles: Sequence[str], device: str) -> None:
    """Unfit where the library is missing, or the caller or the machine asks for torch."""
    if find_spec("ctranslate2") is None:
        raise Unfit(f"ctranslate2 is not installed ({INSTALL})")
    if obstacles:
        raise Unfit(obstacles[0])
    if device != "cpu":
        from ctranslate2 import get_cuda_device_count

        if device != "auto" or get_cuda_device_count():
            raise Unfit("torch runs the model on the GPU")


def _fast(run: Path, task: str, ask: Ask, precision: Precision, forced: bool, say: Callable[[str], None]) -> Choice:
    """CTranslate2 for the run, or Unfit with the reason."""
    try:
        if not is_ready(folder_for(run, precision)):
            say(f"{run}: converting the model for CTranslate2, once")
        converted = ready(run, precision)
    except OSError as error:
        raise Unfit(f"{error.filename}: {error.strerror}") from None
    if converted.verb != verb_of(task):  # torch's way says what the run can do
        raise Unfit(f"a run of {converted.task}")
    search = converted.limited(ask(converted))
    why = _reason(run, converted, search, forced, say)
    return Choice("ctranslate2", why, converted, search)


def _reason(run: Path, converted: Converted, search: Search, forced: bool, say: Callable[[str], None]) -> str:
    """Why CTranslate2 will do; Unfit where it will not."""
    room = converted.room - (converted.input_tokens or 0 if converted.prompted else 0)
    if search["max_length"] > room:
        raise Unfit(f"{search['max_length']} tokens to write, the converted model has room for {room}")
    if problem := unable(search, converted.searches, converted.task, converted.prompted, forced):
        raise Unfit(problem)
    if forced:
        own = "; it draws with random numbers of its own, so seeds mean other texts than with torch"
        return f"asked for{own if is_sampling(search) else ''}"
    if search["kind"] != "beam":
        return "installed, and its greedy text is torch's"
    if converted.agreement(search) is None:
        say(f"{run}: comparing both engines with this search, once")
    same, of = ready(run, converted.precision, search).agreement(search) or (0, 1)
    if same < SAME * of:
        raise Unfit(f"with this search CTranslate2 writes {of - same} of {of} held-out texts differently")
    return f"installed, and it wrote {same} of {of} held-out texts as torch does"
