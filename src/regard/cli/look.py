"""`regard look`: one offline page that shows what a trained model does with a text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from regard.run import Run

WIDEST = 60
"""Most tokens whose pattern fits on a terminal."""


def look(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    text: Annotated[str, typer.Argument(help="What the model is to read, or to write on from.")],
    target: Annotated[str | None, typer.Option(help="What it must write; its own words when left out.")] = None,
    against: Annotated[Path | None, typer.Option(help="Another run, to compare on the same text.")] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("page.html"),
    pattern: Annotated[bool, typer.Option("--pattern", help="Print who may attend to whom; write no page.")] = False,
    which: Annotated[str, typer.Option(help="Checkpoint: best, last, or step-N.")] = "best",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Look inside a trained model: attention, generation, positions, training, on one page that needs no network."""
    from regard import api
    from regard.errors import RunError

    opened = api.load(run, device, which)
    if pattern:
        _print_patterns(opened, text, target)
        return
    if not out.absolute().parent.is_dir():
        raise RunError(f"{out}: cannot be written, there is no folder {out.parent}")
    other = api.load(against, device) if against is not None else None
    try:
        page = api.look(opened, text, target, against=other, out=out)
    except OSError as error:
        raise RunError(f"{out}: cannot be written ({error.strerror})") from None
    print(f"{out}: {len(page.encode()) / 1e6:.1f} MB; open it in a browser, no network is needed")


def _print_patterns(opened: "Run", text: str, target: str | None) -> None:
    """The pattern of each attention of the first layer: ■ where a token (row) may attend to another (column)."""
    from regard.look.tracing import patterns

    for name, rows, columns, allowed in patterns(opened.model, opened.task, text, target, opened.documents):
        print(f"{name}: {len(rows)} × {len(columns)}")
        margin = max(len(token) for token in rows[:WIDEST])
        for token, row in zip(rows[:WIDEST], allowed, strict=False):
            print(f"  {token:>{margin}} " + "".join("■" if seen else "·" for seen in row[:WIDEST]))
        if max(len(rows), len(columns)) > WIDEST:
            print(f"  (the first {WIDEST} tokens)")
