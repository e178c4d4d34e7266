"""`regard init`: from a person's files to a recipe."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from regard.data.guess.task import Guess


def init(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Your data: two aligned texts, a table (.tsv, .csv, .jsonl, .parquet), one text, a .conllu file, or a "
            "folder of them or of images by class. Names with train, valid or test in them become the splits."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The recipe to write.")] = Path("mine.toml"),
    task: Annotated[
        str | None,
        typer.Option(
            help="translation, classification, language_model, summarisation, tagging, masked_language_model, "
            "image_classification or image_description; guessed when left out."
        ),
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of texts, by name or number.")] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of labels.")] = None,
    source: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column to translate from; of text files, a word of the name: en."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column, or file, to translate into.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the recipe if it exists.")] = False,
) -> None:
    """Write a recipe for your own files. Says what they hold, which task that is for, and what to do next."""
    from regard.data.guess.columns import GuessOptions
    from regard.data.guess.recipe_text import recipe_text
    from regard.data.guess.task import guess_data
    from regard.errors import DataError

    if out.exists() and not force:
        raise DataError(out, "exists already; choose another name with --out, or overwrite it with --force")
    if not out.parent.is_dir():
        raise DataError(out.parent, "no such folder")
    guess = guess_data(files, out.parent, GuessOptions(task, text, label, source, target))
    out.write_text(recipe_text(guess, shlex.join(map(str, files))), encoding="utf-8")
    _report(guess, out)


def _report(guess: "Guess", out: Path) -> None:
    for split, count in guess.counts.items():
        print(f"{split}: {count}")
    for line in guess.seen:
        print(f"  {line}")
    print(f"first example: {guess.sample}")
    why = f" ({'; '.join(guess.reasons)})" if guess.reasons else ""
    print(f"task: {guess.task}{why}")
    for remark in guess.remarks:
        print(f"note: {remark}")
    recipe = shlex.quote(str(out))
    print(f"written: {out}")
    print(f"training: {_expected(out)}; why: regard config --check {recipe}")
    print(f"next: regard train {recipe} --out {shlex.quote(str(Path('runs') / out.stem))}")


def _expected(recipe: Path) -> str:
    """How long training will take, or what the data lacks for it."""
    from regard.errors import RegardError
    from regard.run import plan_recipe

    try:
        return plan_recipe(recipe).announcement or "as long as the recipe says"
    except RegardError as error:
        return str(error)
