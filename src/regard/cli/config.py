"""`regard config`: every setting, its default, its help; is this recipe valid?"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.complete import complete_path, complete_recipe, complete_setting

if TYPE_CHECKING:
    from regard.config import Config, Setting


def config(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings on top.", autocompletion=complete_setting)
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="SETTING|WORD",
            autocompletion=complete_path,
            help="A setting, such as model.position: what it is and takes. Any other word, such as lr or dropout: the "
            "settings that have it in their name or help, or that other programs call so.",
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
    from regard.config import json_schema
    from regard.errors import ConfigError
    from regard.run import Recipe

    for option, given in {"--schema": schema, "--explain": explain is not None}.items():
        if given and (check is not None or overrides or (schema and explain is not None)):
            raise ConfigError(option, "shows what every recipe may say; leave out what checks or explains another")
    if schema:
        print(json.dumps(json_schema(Recipe), indent=2, ensure_ascii=False))
    elif check is not None or overrides:
        _check(check, overrides or [], as_json)
    else:
        settings, whole = _found(Recipe, explain or "")
        if as_json:
            print(json.dumps([vars(setting) for setting in settings], indent=2, ensure_ascii=False))
        else:
            _show(settings, whole)


def _found(root: "type[Config]", word: str) -> "tuple[list[Setting], bool]":
    """The settings at a path; or those that a word may mean, of whose help the beginning is enough."""
    from regard.config import explain, search
    from regard.errors import ConfigError

    try:
        return explain(root, word), True
    except ConfigError:
        if "." in word:
            raise
        return search(root, word), False


def _check(file: Path | None, overrides: list[str], as_json: bool) -> None:
    """Prints a recipe with every setting resolved; before it, line by line, what was decided and why."""
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
