"""`regard demo`: the main job on the embedded corpus, into runs/demo."""

import shutil
import textwrap
from pathlib import Path
from typing import Annotated

import typer

SAMPLES = 4


def demo(
    settings: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings on top.")] = None,
    out: Annotated[Path, typer.Option(help="Run folder; a run that is there is replaced.")] = Path("runs/demo"),
    words: Annotated[bool, typer.Option("--words", help="List the words that the demo knows; train nothing.")] = False,
) -> None:
    """Train a small English-German translator. It learns from the embedded corpus, is tested, and translates."""
    if words:
        _list_words()
        return
    from regard import api
    from regard.data.street import LECTURE_SENTENCES, pairs
    from regard.errors import RunError, counted
    from regard.files.run_folder import is_run
    from regard.progress import shown_on
    from regard.progress.display import make_display
    from regard.run.demo import demo_recipe

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
    print("\nWhat does 'it' mean? The German pronoun tells:")
    written = api.translate(run, [source for source, _ in LECTURE_SENTENCES])
    for (source, target), german in zip(LECTURE_SENTENCES, written, strict=True):
        print(f"  {source}\n    → {german}" + ("" if german == target else f"   (expected: {target})"))
    print(f"\nThe run is in {out}: its recipe, weights, metrics.jsonl, curves.png and README.md.")
    print(f"Try: echo 'The dog sleeps because it is tired.' | regard translate {out}")
    print("The words that it knows: regard demo --words")


def _list_words() -> None:
    """The English words of the embedded corpus, a group a paragraph."""
    from regard.data.street.lexicon import lexicon

    print("The demo knows these English words, in all their forms (slept, sleeping, dogs, older):")
    width = min(shutil.get_terminal_size().columns, 100)
    for group, members in lexicon().items():
        print(f"\n{group}")
        print(textwrap.fill(", ".join(members), width, initial_indent="  ", subsequent_indent="  "))
