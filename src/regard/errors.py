"""Every mistake of a user ends in one of these: one sentence that says where, what was expected, what came."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

MOST_NAMES = 40
"""Names that a sentence lists at most."""


class RegardError(Exception):
    """A mistake that the user can mend; the command line prints its sentence and exits with `exit_code`."""

    exit_code = 2


class ConfigError(RegardError):
    """A setting that cannot be: `path` is where it stands in the recipe, such as `model.position.theta`."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path


class ShapeError(RegardError):
    """Tensors whose sizes do not go together."""


class DataError(RegardError):
    """Something wrong in a file: `line` counts from one."""

    def __init__(self, file: object, problem: str, line: int | None = None) -> None:
        super().__init__(f"{file}:{line}: {problem}" if line else f"{file}: {problem}")
        self.file = str(file)
        self.line = line


class InputError(RegardError):
    """Something wrong with one of the texts given to a model: `number` counts from one.

    A model knows only which text of its batch it is; `located` turns it into a DataError with file and line.
    """

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(f"input {number}: {problem}")
        self.number = number
        self.problem = problem


class OverlongError(InputError):
    """Inputs with more tokens than a model takes: `inputs` has the problem of each by its number, from one."""

    def __init__(self, inputs: Mapping[int, str]) -> None:
        number, problem = next(iter(inputs.items()))
        more = f"; so have {len(inputs) - 1} more" if len(inputs) > 1 else ""
        super().__init__(number, f"{problem}{more}")
        self.inputs = dict(inputs)


@contextmanager
def located(origins: Sequence[tuple[object, int]]) -> Iterator[None]:
    """Says of an input that is refused which file it came from, and which line; `origins` has both for each input."""
    try:
        yield
    except InputError as error:
        file, line = origins[error.number - 1]
        raise DataError(file, error.problem, line) from None


@contextmanager
def readable(file: object, expected: str) -> Iterator[None]:
    """Says of a file that cannot be opened or read why."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(file, "no such file") from None
    except IsADirectoryError:
        raise DataError(file, f"expected {expected}, got a folder") from None
    except PermissionError:
        raise DataError(file, "may not be read (permission denied)") from None
    except OSError as error:
        raise DataError(file, f"cannot be read ({error.strerror})") from None


class RunError(RegardError):
    """A run folder that cannot be used as asked: missing, locked, damaged."""


class Failure(RegardError):  # noqa: N818
    """Nobody's mistake, but the work could not go on: a full disk, a loss that is not a number."""

    exit_code = 1


class Interrupted(RegardError):  # noqa: N818
    """Ended because somebody asked for it, by Ctrl-C or SIGTERM; what was done is saved."""

    exit_code = 130


def nearest(name: str, names: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the closest known one, or all of them."""
    parts = lambda one: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", one)]  # noqa: E731
    names = sorted(names, key=parts)  # f2 before f10
    close = get_close_matches(name, names, n=1)
    if close:
        return f"did you mean '{close[0]}'?"
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return f"known: {', '.join(shortened(one, 60) for one in names[:MOST_NAMES])}{more}"


def shortened(text: str, most: int = 800) -> str:
    """A text without its middle where it is longer: what is wrong stands at the start, what to do at the end."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[len(text) - most // 3 :]}"


def counted(number: int, noun: str) -> str:
    """A number and what is counted: `1 part`, `1,024 parts`; for nouns whose plural ends in s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
