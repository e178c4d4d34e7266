"""`regard init`, `recipes`, `config`, `data check`: write a recipe for your files, list the shipped ones, explain
settings, find what is wrong with files.
"""

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import complete_data, complete_path, complete_recipe, complete_setting, complete_shipped
from regard.cli.output import Verbs

if TYPE_CHECKING:
    from regard.config import Config, Setting
    from regard.data.guess.task import Guess


def init(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Your data: two aligned texts, a table (.tsv, .csv, .jsonl, .parquet), a translator's "
            "file (.tmx, .xliff, .po), one text, a .conllu file, or a "
            "folder of them or of images by class. Names with train, valid or test in them become the splits."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The recipe to write.")] = Path("mine.toml"),
    task: Annotated[
        str | None,
        typer.Option(
            help="translation, classification, multi_label_classification, language_model, summarisation, tagging, "
            "masked_language_model, image_classification or image_description; guessed when left out."
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
    from regard.data.guess.task import guess_data, recipe_text
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


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Print this recipe or sweep: regard recipes pairs > mine.toml", autocompletion=complete_shipped
        ),
    ] = None,
    copy: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Copy all recipes and example data there, as recipes/ and examples/."),
    ] = None,
) -> None:
    """List the recipes that come with regard, print one, or copy all. Each name works in place of a file."""
    from regard.config.shipped import recipe_file, shipped

    if copy is not None:
        _copy(copy)
    elif name is not None:
        by_name = shipped()
        print(by_name[name].to_copy() if name in by_name else recipe_file(name).read_text(encoding="utf-8"), end="")
    else:
        _list()


def _list() -> None:
    from regard.config.shipped import shipped

    all_recipes = list(shipped().values())
    widths = (
        [max(len(getattr(one, part)) for one in all_recipes) for part in ("name", "task")] if all_recipes else [0, 0]
    )
    group = ""
    for one in all_recipes:
        if one.group != group:
            print(f"{'' if not group else chr(10)}{one.group}")
            group = one.group
        print(f"  {one.name:{widths[0]}}  {one.task:{widths[1]}}  {one.description}")
    print(
        "\nregard train NAME trains one, regard compare NAME runs a sweep, regard recipes NAME > mine.toml copies one."
    )
    print('Recipes with data.folder = "data/…" need data that you fetch; their comments say which.')


def _copy(folder: Path) -> None:
    """Copies what is not there yet; files that exist stay as they are."""
    from regard.config.shipped import FOLDERS, root
    from regard.errors import counted

    copied = existing = 0
    for name in FOLDERS:
        for file in sorted((root() / name).rglob("*")):
            target = folder / file.relative_to(root())
            if file.is_dir() or "__pycache__" in file.parts:
                continue
            if target.exists():
                existing += 1
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            copied += 1
    there = f"; {existing} {'was' if existing == 1 else 'were'} there already and stay as they are" if existing else ""
    print(f"{counted(copied, 'file')} copied into {folder / 'examples'} and {folder / 'recipes'}{there}")


def config(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings on top.", autocompletion=complete_setting)
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="SETTING|WORD",
            autocompletion=complete_path,
            help="A setting, such as model.position: its help and values. Any other word, such as lr: the settings "
            "with it in their name or help, or in the names of other programs.",
        ),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            help="A recipe (a file, or a shipped one's name) to check; prints what was decided for "
            "it and why, then every setting resolved.",
            autocompletion=complete_recipe,
        ),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="JSON Schema of recipes, for editors; JSON in any case.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Explain every setting, or check a recipe. Without options: all settings, their defaults and their help."""
    from regard.errors import ConfigError
    from regard.run import Recipe

    for option, present in {"--schema": schema, "--explain": explain is not None}.items():
        if present and (check is not None or overrides or (schema and explain is not None)):
            raise ConfigError(option, "shows what every recipe may say; leave out what checks or explains another")
    if schema:
        print(json.dumps(Recipe.model_json_schema(), indent=2, ensure_ascii=False))
    elif check is not None or overrides:
        _check(check, overrides or [], as_json)
    else:
        settings, whole = _settings(Recipe, explain or "")
        if as_json:
            print(json.dumps([vars(setting) for setting in settings], indent=2, ensure_ascii=False))
        else:
            _show(settings, whole)


def _settings(root: "type[Config]", word: str) -> "tuple[list[Setting], bool]":
    """The settings at a path; or those that a word may mean, with only the first sentence of their help."""
    from regard.config import explain, search
    from regard.errors import ConfigError

    try:
        return explain(root, word), True
    except ConfigError:
        if "." in word:
            raise
        return search(root, word), False


def _check(file: Path | None, overrides: list[str], as_json: bool) -> None:
    """Prints a recipe with every setting resolved, after the decisions and their reasons."""
    from regard.config import dump_toml
    from regard.errors import RegardError
    from regard.run import Plan, plan_recipe, read_recipe
    from regard.run.unused_settings import refuse_unused

    try:
        plan, undecided = plan_recipe(file, overrides), None
    except RegardError as error:
        plan, undecided = Plan(read_recipe(file, overrides)), error  # whose own mistakes are raised here
    if file is not None:  # what training would refuse at its start
        plan.recipe.check()
        refuse_unused(plan.recipe)
    if as_json:
        print(json.dumps(plan.recipe.tree(), indent=2, ensure_ascii=False), end="")
        return
    for decision in plan.decisions:
        value = dump_toml({"value": decision.value}).removeprefix("value = ").strip()
        print(f"# {decision.path} = {value}   # {decision.why}")
    if undecided is not None:
        print(f"# what is left out is decided once the data can be read; until then as for all data ({undecided})")
    if plan.announcement is not None:
        print(f"# {plan.announcement}")
    print(dump_toml(plan.recipe.tree()), end="")


def _show(settings: "list[Setting]", whole: bool) -> None:
    """One setting a paragraph: path, default and type on one line, below it the help, or its first sentence."""
    for setting in settings:
        print(f"{setting.path} = {setting.default}" + (f"    ({setting.type})" if setting.type else ""))
        if setting.help:
            text = " ".join(setting.help.split())
            print(f"    {text if whole else text.partition('. ')[0].removesuffix('.')}")


data = Verbs(help="Look at data before training on it.", no_args_is_help=True)


@data.callback()
def _group() -> None:
    """Look at data before training on it."""


@data.command()
def check(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES",
            help="Data files; or a recipe (.toml, or a shipped one's name) whose splits are checked, with KEY=VALUE.",
            autocompletion=complete_data,
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Check files for what spoils training: uneven pairs, broken text, leaks, unknown labels; each with its line."""
    from regard.config.shipped import shipped
    from regard.data.check import check_files, check_sources
    from regard.data.settings import SPLITS
    from regard.errors import ConfigError, DataError, counted

    is_recipe = arguments[0].endswith(".toml") or (arguments[0] in shipped() and not Path(arguments[0]).is_file())
    settings = [word for word in arguments[1:] if "=" in word] if is_recipe else []
    files = [Path(word) for word in arguments if word not in settings]
    if settings and len(files) > 1:
        raise ConfigError(
            "", f"{settings[0]} is a setting of a recipe, and files are checked without one; leave it out"
        )
    if len(files) == 1 and is_recipe:
        from regard.run import read_recipe

        recipe = read_recipe(files[0], settings).data
        names = ["train", "valid"] if recipe.holds_out else [name for name in SPLITS if getattr(recipe, name)]
        names += ["test"] if recipe.holds_out and recipe.test else []
        base = Path(os.path.relpath(recipe.folder or ""))  # shorter to read in every finding
        checked = check_sources({name: recipe.split(name) for name in names}, base)
    else:
        for file in files:
            if file.is_dir():
                raise DataError(file, "expected a file, got a folder")
        checked = check_files(files)
    if as_json:
        print(json.dumps(checked.tree(), ensure_ascii=False, indent=2))
    else:
        for name, statistics in checked.statistics.items():
            print(f"{name}: {counted(statistics.examples, statistics.unit)}")
            for side, sizes in statistics.sides.items():
                longest = f"{counted(sizes.longest, 'character')} ({sizes.longest_at})"
                print(f"  {side}: {counted(sizes.words, 'word')}, longest {longest}")
        for finding in checked.findings:
            print(f"{finding.severity}: {finding.where}: {finding.what}")
        print(*checked.summaries or ["nothing wrong was found"], sep="\n")
    if checked.has_errors:
        raise typer.Exit(2)
