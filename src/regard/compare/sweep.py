"""What is compared: a sweep file, or recipes given one by one, as variants by name.

base = "../demo.toml"                       # names of files start at the sweep's folder; shipped recipes have names
seeds = 3
budget = "flops=2e12"                       # what all variants may spend
[variants]
transformer = []                            # the base as it is
rotary = ["model.position.kind=rotary"]     # key=value settings on top
lstm = { recipe = "../baselines/lstm.toml" }   # another recipe
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, PositiveFloat

from regard.config import Config, read_toml
from regard.config.shipped import recipe_file
from regard.errors import ConfigError, DataError, nearest
from regard.metrics.significance import Method
from regard.run.defaults.plan import Variants
from regard.run.recipe import Recipe
from regard.run.unused_settings import refuse_unused

BudgetKind = Literal["flops", "params", "tokens", "steps", "minutes"]
BUDGET_KINDS = get_args(BudgetKind)


class EqualConfig(Config):
    """The budget that is equal for all variants; written as `flops`, or with an amount as `flops=1e12`."""

    by: BudgetKind = "flops"
    """Training FLOPs, parameters (the width is scaled), training tokens, steps or minutes."""
    amount: PositiveFloat | None = None
    """How much; what the first variant's own recipe spends when left out."""


def parse_budget(text: object) -> object:
    """`flops=1e12` as its kind and amount; a table passes through."""
    if not isinstance(text, str):
        return text
    by, equals, amount = (part.strip() for part in text.partition("="))
    if by not in BUDGET_KINDS:
        raise ConfigError("budget", f"cannot match '{by}'; {nearest(by, BUDGET_KINDS)}")
    try:
        return {"by": by, "amount": float(amount)} if equals else {"by": by}
    except ValueError:
        raise ConfigError("budget", f"expected a number such as {by}=1e12, got '{amount}'") from None


def _seeds(value: object) -> object:
    return range(1, value + 1) if type(value) is int else value


Equal = Annotated[EqualConfig, BeforeValidator(parse_budget)]
Seeds = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(_seeds), Field(min_length=1)]


class VariantConfig(Config):
    """One row of the table; a list of settings alone will do."""

    recipe: str | None = None
    """Another recipe than the sweep's base; its name starts at the sweep's folder."""
    settings: tuple[str, ...] = ()
    """key=value settings on top of the recipe."""


Named = Annotated[
    VariantConfig, BeforeValidator(lambda value: {"settings": value} if isinstance(value, list) else value)
]


class SweepConfig(Config):
    """What is compared, and how."""

    base: str | None = None
    """The recipe that variants start from; its name starts at the sweep's folder."""
    seeds: Seeds = (1, 2, 3)
    """Each variant is trained once with each of these; a number n alone means 1 to n."""
    budget: Equal = EqualConfig()
    """The budget that all variants share: flops, params, tokens, steps or minutes; with an amount, "flops=1e12"."""
    tune: bool = False
    """Choose each variant's learning rate first, on a share of the budget and on validation data."""
    tune_share: float = Field(0.1, gt=0, le=1)
    """The share of the budget for each learning rate that is tried."""
    tune_factors: tuple[PositiveFloat, ...] = (1 / 3, 1.0, 3.0)
    """The learning rates that are tried, as multiples of the recipe's own."""
    metric: str | None = None
    """The score of the table; when left out, bleu for translation, rouge_l for summaries, accuracy for labels, and loss
    for language models, or bits_per_byte where their vocabularies differ."""
    method: Method = "bootstrap"
    """How differences between generated texts are tested: paired bootstrap, or approximate randomisation."""
    keep_weights: bool = True
    """Keep the checkpoints of finished runs; off where the disk is small: results stay."""
    settings: tuple[str, ...] = ()
    """key=value settings on top of every variant's recipe, below the variant's own."""
    variants: dict[str, Named] = Field(min_length=1)
    """The rows of the table; the first is what all others are compared with."""


@dataclass(frozen=True)
class Variant:
    """One row of the table: a name and the recipe behind it, or why it cannot be trained."""

    name: str
    recipe: Recipe
    problem: str | None = None

    @property
    def folder(self) -> str:
        """Its name as a folder's: 'GNMT (Wu 2016)' becomes gnmt-wu-2016."""
        return "-".join(re.findall(r"\w+", self.name.lower()))


@dataclass(frozen=True)
class Sweep:
    """A sweep whose recipes are read and valid."""

    config: SweepConfig
    variants: list[Variant]


def read_sweep(files: Sequence[Path], settings: Sequence[str] = (), **changes: object) -> Sweep:
    """One sweep file or several recipes; settings go on top of every variant, changes are the sweep's own settings."""
    if not files:
        raise ConfigError("", "expected a sweep file or recipes to compare")
    files = [recipe_file(file) for file in files]
    trees = {file: read_toml(file) for file in files}
    sweeps = [file for file, tree in trees.items() if "variants" in tree]
    if sweeps and len(files) > 1:
        raise DataError(sweeps[0], "a sweep is compared alone; give one sweep, or recipes only")
    tree = trees[files[0]] if sweeps else {"variants": _named(files)}
    folder = files[0].parent if sweeps else Path()
    config = SweepConfig.from_tree({**tree, **without_none(changes)})
    by, amount = config.budget.by, config.budget.amount
    budget = None if amount is None or by == "params" else f"train.{by}={whole_amount(by, amount)}"
    recipes = Variants(config.settings, budget)
    variants = [_variant(config, name, folder, settings, recipes) for name in config.variants]
    _refuse_one_folder(variants)
    return Sweep(config, variants)


def _refuse_one_folder(variants: Sequence[Variant]) -> None:
    """Runs of different variants lie in different folders."""
    folders: dict[str, str] = {}
    for variant in variants:
        other = folders.setdefault(variant.folder, variant.name)
        if not variant.folder or other != variant.name:
            raise ConfigError(
                f"variants.{variant.name}", f"its folder would be '{variant.folder}', as that of '{other}'"
            )


def _named(files: Sequence[Path]) -> dict[str, object]:
    names = [file.stem for file in files]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ConfigError("", f"two recipes are called '{twice[0]}'; rename one, or write a sweep file")
    return {file.stem: {"recipe": str(file)} for file in files}


def whole_amount(by: str, amount: float) -> float:
    """The amount of a budget as its setting takes it."""
    return max(1, round(amount)) if by in ("steps", "tokens") else amount


def _variant(config: SweepConfig, name: str, folder: Path, settings: Sequence[str], recipes: Variants) -> Variant:
    variant = config.variants[name]
    file = variant.recipe or config.base
    if file is None:
        raise ConfigError(f"variants.{name}", "has no recipe, and the sweep no base; give one of them")
    file = recipe_file(file, folder)
    return Variant(name, checked_recipe(recipes, file, variant.settings, settings, f"variants.{name}"))


def checked_recipe(
    recipes: Variants, file: Path, variant_settings: Sequence[str], settings: Sequence[str], path: str
) -> Recipe:
    """A complete recipe; errors name the path of the variant in its sweep."""
    try:
        recipe = recipes.recipe(file, variant_settings, settings)
        recipe.check()
        refuse_unused(recipe)
    except ConfigError as error:
        raise ConfigError(path, str(error)) from None
    return recipe


def without_none(changes: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in changes.items() if value is not None}
