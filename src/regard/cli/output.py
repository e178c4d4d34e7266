"""What all commands share on standard error: notes, progress, and how much of both is wanted (`--quiet`, `--verbose`).

Results go to standard output and errors to standard error, whatever is asked for.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Annotated, Any, TextIO

import typer

from regard.errors import ConfigError
from regard.progress import VERBOSITY, Display, phase, shown_on
from regard.progress import tell as tell
from regard.progress.display import LiveDisplay, make_display

SHOWS_ITSELF = {"train", "demo", "compare", "serve", "translate", "generate", "classify", "claims", "bench"}
"""Verbs with progress of their own: watchers of training, counts of lines, a line for each measurement."""

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Results and errors only: no notes, no progress.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say why engine, data type and so on were chosen.")]


class Verbs(typer.Typer):
    """A command line whose verbs all have `--quiet` and `--verbose`, and show their progress."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[..., Any]:  # noqa: ANN401
        """Registers a verb."""
        register = super().command(name, **settings)

        def registered(verb: Callable[..., Any]) -> Callable[..., Any]:
            register(_shared(verb, name or verb.__name__))
            return verb

        return registered


def say(sentence: str) -> None:
    """A note: a line about the work, not of it; with --quiet none."""
    tell(f"regard: {sentence}")


def detail(sentence: str) -> None:
    """The reason of an automatic choice; only with --verbose."""
    if VERBOSITY.get() == "verbose":
        say(sentence)


@contextmanager
def verbosity(quiet: bool, verbose: bool) -> Iterator[None]:
    """How much is said within it; as before where neither is asked for."""
    if quiet and verbose:
        raise ConfigError("--quiet", "says less and --verbose more; leave one of them out")
    before = VERBOSITY.set("quiet" if quiet else "verbose" if verbose else VERBOSITY.get())
    try:
        yield
    finally:
        VERBOSITY.reset(before)


@contextmanager
def counted_lines(label: str, typed: bool) -> Iterator[Callable[[int], None]]:
    """A display of how many lines are done, unless they are typed or come out on the terminal."""
    display = None if typed or sys.stdout.isatty() else make_display()
    with shown_on(display), phase(label, unit="lines") as advance:
        yield advance


class _Results:
    """Standard output of a terminal that also shows a live line: the line goes before a result comes."""

    def __init__(self, stream: TextIO, display: LiveDisplay) -> None:
        self._stream, self._display = stream, display

    def write(self, text: str) -> int:
        """Writes text where the line stood."""
        self._display.stop()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._stream, name)


@contextmanager
def _results_after(display: Display | None) -> Iterator[None]:
    """Within it, results and a live line do not get into one another's way."""
    stream = sys.stdout
    if not isinstance(display, LiveDisplay) or not stream.isatty():
        yield
        return
    sys.stdout = _Results(stream, display)  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.stdout = stream


def _shared(verb: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A verb with the common options, within a display of its progress."""

    @wraps(verb)
    def run(*arguments: Any, quiet: bool = False, verbose: bool = False, **settings: Any) -> Any:  # noqa: ANN401
        with ExitStack() as stack:
            stack.enter_context(verbosity(quiet, verbose))
            if name not in SHOWS_ITSELF:
                display = make_display()
                stack.enter_context(shown_on(display))
                stack.enter_context(_results_after(display))
                stack.enter_context(phase(name))
            return verb(*arguments, **settings)

    options = {"quiet": Quiet, "verbose": Verbose}
    common = [
        inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
        for option, annotation in options.items()
    ]
    signature = inspect.signature(verb)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *common])  # type: ignore[attr-defined]
    run.__annotations__ = {**verb.__annotations__, **options}
    return run
