"""`regard look`: one offline page that shows what a trained model does with a text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from regard.run import Run

WIDEST = 60
"""Most tokens whose pattern fits on a terminal."""


def look(
    run: Annotated[Path | None, typer.Argument(help="A run folder.")] = None,
    text: Annotated[str | None, typer.Argument(help="Source, prompt or text to classify; or an image file.")] = None,
    target: Annotated[str | None, typer.Option(help="Forced target; default: the model generates.")] = None,
    against: Annotated[Path | None, typer.Option(help="Another run, to compare on the same text.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The page to write, page.html; with --pattern the picture, pattern.png.")
    ] = None,
    pattern: Annotated[
        bool,
        typer.Option("--pattern", help="Print and draw the attention pattern; without a run, the lecture's panels."),
    ] = False,
    which: Annotated[str | None, typer.Option(help="Checkpoint of RUN: best (if left out), last, or step-N.")] = None,
    device: Annotated[str | None, typer.Option(help="auto (if left out), cpu or cuda.")] = None,
) -> None:
    """Look inside a trained model. One page shows attention, generation, positions, training; it needs no network."""
    from regard import api
    from regard.errors import ConfigError, RunError

    if pattern and against is not None:
        raise ConfigError("--against", "--pattern shows one run; leave one of them out")
    if pattern and run is None:
        for option, value in {"--target": target, "--which": which, "--device": device}.items():
            if value is not None:
                raise ConfigError(option, "without a run, --pattern shows the lecture's panels; name a run and a text")
    which, device = which or "best", device or "auto"
    file = out or Path("pattern.png" if pattern else "page.html")
    if not file.absolute().parent.is_dir():
        raise RunError(f"{file}: cannot be written, there is no folder {file.parent}")
    try:
        if pattern:
            _show_patterns(run, text, target, file, which, device)
            return
        if run is None or text is None:
            raise RunError("say what to look at: regard look RUN TEXT")
        opened, other = api.load(run, device, which), api.load(against, device) if against is not None else None
        page = api.look(opened, text, target, against=other, out=file)
    except OSError as error:
        raise RunError(f"{file}: cannot be written ({error.strerror})") from None
    print(f"{file}: {len(page.encode()) / 1e6:.1f} MB; open it in a browser, no network is needed")


def _show_patterns(run: Path | None, text: str | None, target: str | None, file: Path, which: str, device: str) -> None:
    from regard import api
    from regard.errors import RunError
    from regard.look.pattern_figure import draw_lecture, draw_patterns

    if run is None:
        panels = draw_lecture(file)
    elif text is None:
        raise RunError("say on which text the pattern is to be shown: regard look RUN TEXT --pattern")
    else:
        opened = api.load(run, device, which)
        _print_patterns(opened, text, target)
        panels = draw_patterns(opened, text, target, file)
    print(f"{file}: {', '.join(panels)}")


def _print_patterns(opened: "Run", text: str, target: str | None) -> None:
    """The pattern of each attention of the first layer: ■ where a token (row) may attend to another (column)."""
    from regard.look.pattern_figure import patterns

    for name, rows, columns, allowed in patterns(opened, text, target):
        print(f"{name}: {len(rows)} × {len(columns)}")
        margin = max((len(token) for token in rows[:WIDEST]), default=0)
        for token, row in zip(rows[:WIDEST], allowed, strict=False):
            print(f"  {token:>{margin}} " + "".join("■" if pair else "·" for pair in row[:WIDEST]))
        if max(len(rows), len(columns)) > WIDEST:
            print(f"  (the first {WIDEST} tokens)")
