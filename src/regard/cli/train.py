"""`regard train` and `regard demo`: from a recipe to a trained run folder."""

import shutil
import textwrap
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.arguments import complete_recipe, complete_setting
from regard.cli.output import tell


def train(
    recipe: Annotated[
        Path,
        typer.Argument(
            help="A recipe: a TOML file, or the name of one that comes with regard (regard recipes).",
            autocompletion=complete_recipe,
        ),
    ],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings on top.", autocompletion=complete_setting)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder; default: runs/RECIPE, or with --resume the folder of RECIPE."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the newest complete checkpoint.")] = False,
    data_changed: Annotated[
        bool, typer.Option("--data-changed", help="With --resume: accept that data, tokenizer or seed changed since.")
    ] = False,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Skip batches with a NaN or infinite loss or gradient, and count them."),
    ] = False,
) -> None:
    """Train what a recipe says. Shows progress and metrics; keeps the best and the last checkpoint."""
    from regard import api
    from regard.errors import ConfigError, Interrupted
    from regard.run.conclusion import next_commands
    from regard.train.parallel.processes import is_main_process

    if data_changed and not resume:
        raise ConfigError("--data-changed", "says what a run that resumes accepts; give --resume too, or leave it out")
    overrides = [*(settings or []), *(["train.skip_bad=true"] if skip_bad else [])]
    run_folder = recipe.absolute().parent if resume and _is_of_a_run(recipe) else None
    folder = out or run_folder or Path("runs") / recipe.stem
    try:
        run = api.train(recipe, *overrides, out=folder, resume=resume, data_changed=data_changed)
    except KeyboardInterrupt:
        raise Interrupted(_interrupted(folder)) from None
    if is_main_process():
        tell("go on with:" + "".join(f"\n  {command}" for command in next_commands(run)))


def _interrupted(folder: Path) -> str:
    """What is left of a run that was interrupted at once, or before its first step."""
    from regard.files.run_folder import CHECKPOINTS_FOLDER, list_checkpoints
    from regard.run.conclusion import resume_sentence

    if not list_checkpoints(folder / CHECKPOINTS_FOLDER):
        return "interrupted before the first checkpoint: nothing was trained"
    return f"interrupted; steps since the last checkpoint are lost; {resume_sentence(folder)}"


def _is_of_a_run(recipe: Path) -> bool:
    """Whether a recipe lies in the folder of the run that was made from it."""
    from regard.files.run_folder import CHECKPOINTS_FOLDER, METRICS_FILE, RECIPE_FILE

    traces = (CHECKPOINTS_FOLDER, METRICS_FILE)
    return recipe.name == RECIPE_FILE and any((recipe.parent / name).exists() for name in traces)


SAMPLES = 4


def demo(
    settings: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings on top.")] = None,
    out: Annotated[Path, typer.Option(help="Run folder; a run that is there is replaced.")] = Path("runs/demo"),
    words: Annotated[bool, typer.Option("--words", help="List the demo's vocabulary; train nothing.")] = False,
) -> None:
    """Train a small English-German translator. On the embedded corpus; it is tested and translates."""
    if words:
        _list_words()
        return
    from regard import api
    from regard.data.street import LECTURE_SENTENCES, pairs
    from regard.errors import RunError, counted
    from regard.files.run_folder import is_run
    from regard.progress import shown_on
    from regard.progress.display import make_display
    from regard.run.recipe import demo_recipe

    recipe = demo_recipe(settings or [])
    if out.exists() and not is_run(out) and not (out.is_dir() and not any(out.iterdir())):
        raise RunError(f"{out}: not a run folder, so it is not made anew; choose another --out")
    if out.exists():
        shutil.rmtree(out)
    run = api.train(recipe, out=out)
    with shown_on(make_display()):
        report = api.evaluate(run, "test")
    scores = report.metrics
    print(f"\nOn {counted(report.examples, 'sentence')} never seen in training:")
    print(f"  BLEU {scores['bleu']:.1f}   ({report.signatures['bleu']})")
    print(f"  exact match {scores['exact_match']:.1%}   pronoun accuracy {scores['pronoun']:.1%}")
    print("\nSome of them:")
    chosen = list(pairs("test", size=200))[20 : 20 + SAMPLES * 7 : 7]
    for (source, target), written in zip(chosen, api.translate(run, [one for one, _ in chosen]), strict=True):
        print(f"  {source}\n    → {written}" + ("" if written == target else f"   (expected: {target})"))
    print("\nWhat does 'it' refer to? The German pronoun shows it:")
    written = api.translate(run, [source for source, _ in LECTURE_SENTENCES])
    for (source, target), german in zip(LECTURE_SENTENCES, written, strict=True):
        print(f"  {source}\n    → {german}" + ("" if german == target else f"   (expected: {target})"))
    print(f"\nThe run is in {out}: its recipe, weights, metrics.jsonl, curves.png and README.md.")
    print(f"Try: echo 'The dog sleeps because it is tired.' | regard translate {out}")
    print("The words that it knows: regard demo --words")


def _list_words() -> None:
    """The English words of the embedded corpus, a group a paragraph."""
    from regard.data.street.corpus import lexicon

    print("The demo knows these English words, in all their forms (slept, sleeping, dogs, older):")
    width = min(shutil.get_terminal_size().columns, 100)
    for group, members in lexicon().items():
        print(f"\n{group}")
        print(textwrap.fill(", ".join(members), width, initial_indent="  ", subsequent_indent="  "))
