"""A scaling ladder: every size trained on every amount of data, power laws through the losses, a forecast and its test.

base = "../demo.toml"
tokens = [1e5, 2e5, 4e5]
[sizes]
small = ["model.width=16"]
large = ["model.width=64"]
[forecast]
settings = ["model.width=96"]
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveFloat

from regard.compare.budget import Planner, limited
from regard.compare.comparability import refuse_other_split, refuse_other_targets, refuse_other_tasks
from regard.compare.laws import PowerLaw, fit, front
from regard.compare.queue import Job, Outcome, Queue, Watch
from regard.compare.sweep import Seeds, checked_recipe, without_none
from regard.config import Config, read_toml
from regard.config.shipped import recipe_file
from regard.errors import DataError, Failure
from regard.run.defaults.plan import Variants
from regard.run.recipe import Recipe
from regard.train.progress import make_watcher


class ForecastConfig(Config):
    """A run that is forecast from the others before it is made."""

    settings: tuple[str, ...]
    """key=value settings on top of the base: a size that is no rung of the ladder."""
    tokens: PositiveFloat | None = None
    """Training tokens; the largest amount of the ladder when left out."""


class LadderConfig(Config):
    """Sizes and amounts of data, and what is to be forecast."""

    base: str
    """The recipe that all sizes start from; its name starts at the ladder's folder."""
    seeds: Seeds = (1,)
    """Each run is made once with each of these; a number n alone means 1 to n. Losses are their means."""
    settings: tuple[str, ...] = ()
    """key=value settings on top of the base, for all sizes."""
    sizes: dict[str, tuple[str, ...]] = Field(min_length=4)
    """Settings of each size, by name."""
    tokens: Annotated[tuple[PositiveFloat, ...], Field(min_length=4)]
    """Amounts of training tokens."""
    forecast: ForecastConfig
    """The run that checks the law."""
    samples: int = Field(200, ge=20)
    """Resamples behind each interval."""


@dataclass(frozen=True)
class Rung:
    """One size trained on one amount of data: means over the seeds."""

    size: str
    params: int
    tokens: float
    flops: float
    loss: float
    minutes: float


@dataclass(frozen=True)
class Scaling:
    """What a ladder found."""

    rungs: Sequence[Rung]
    by_params: PowerLaw
    """Loss against parameters, at the largest amount of data."""
    by_tokens: PowerLaw
    """Loss against tokens, for the largest size."""
    by_compute: PowerLaw
    """Loss against FLOPs, of the compute-optimal runs."""
    joint: PowerLaw
    """Loss against parameters and tokens, through all runs: what the forecast comes from."""
    optimal: Sequence[int]
    """The compute-optimal runs, by number."""
    forecast: tuple[float, float, float]
    """The forecast loss of a run not made before, and the interval it was expected in."""
    checked: Rung
    """That run."""
    problems: Sequence[str] = ()
    """Runs that failed, and why."""

    @property
    def holds(self) -> bool:
        """Whether the forecast run's loss lies in the interval."""
        _, low, high = self.forecast
        return low <= self.checked.loss <= high

    def tree(self) -> dict[str, object]:
        laws = {name: _law_tree(getattr(self, name)) for name in ("by_params", "by_tokens", "by_compute", "joint")}
        loss, low, high = self.forecast
        return {
            "rungs": [asdict(rung) for rung in self.rungs], "laws": laws, "optimal": list(self.optimal),
            "forecast": {"loss": loss, "low": low, "high": high, "measured": self.checked.loss, "holds": self.holds,
                         "run": asdict(self.checked)},
            "problems": list(self.problems),
        }  # fmt: skip


def _law_tree(law: PowerLaw) -> dict[str, object]:
    intervals = [list(law.exponent_interval(number)) for number in range(len(law.exponents))]
    return {
        "floor": law.floor, "factors": list(law.factors), "exponents": list(law.exponents), "intervals": intervals,
        "points": len(law.residuals),
    }  # fmt: skip


@dataclass(frozen=True)
class Ladder:
    """A ladder whose recipes are read and valid."""

    config: LadderConfig
    recipes: dict[str, Recipe]
    forecast: Recipe


def read_ladder(file: Path, settings: Sequence[str] = (), **changes: object) -> Ladder:
    """A ladder file; settings go on top of every size, changes are the ladder's own settings."""
    file = recipe_file(file)
    tree = read_toml(file)
    if "sizes" not in tree:
        raise DataError(file, "no scaling ladder, it has no [sizes]; see recipes/sweeps/scaling.toml")
    config = LadderConfig.from_tree({**tree, **without_none(changes)})
    recipes = Variants(config.settings, f"train.tokens={max(config.tokens):.0f}")

    def recipe(path: str, changed: Sequence[str]) -> Recipe:
        return checked_recipe(recipes, recipe_file(config.base, file.parent), changed, settings, path)

    sizes = {name: recipe(f"sizes.{name}", changed) for name, changed in config.sizes.items()}
    return Ladder(config, sizes, recipe("forecast", config.forecast.settings))


def train_ladder(ladder: Ladder, out: Path, watch: Watch = make_watcher) -> Scaling:
    """Trains every size and token count into a folder, fits the laws, forecasts a larger run, and trains that."""
    config, queue = ladder.config, Queue(out, watch)
    recipes = {**ladder.recipes, "forecast": ladder.forecast}
    refuse_other_tasks(recipes)
    refuse_other_split(recipes, "valid")  # through whose losses the laws go
    refuse_other_targets(recipes, Planner(out / "plan"), "loss")
    jobs = {(name, tokens): _jobs(name, recipe, tokens, config.seeds)
            for name, recipe in ladder.recipes.items() for tokens in config.tokens}  # fmt: skip
    finished = queue.work([job for rung in jobs.values() for job in rung])
    outcomes = {key: [finished[job.key] for job in rung] for key, rung in jobs.items()}
    problems = [f"{name}, {tokens:,.0f} tokens: {run.problem}"
                for (name, tokens), runs in outcomes.items() for run in runs if run.problem]  # fmt: skip
    rungs = [_rung(name, runs) for (name, _), runs in outcomes.items() if not any(run.problem for run in runs)]
    laws = _laws(rungs, config.samples)
    checked = _checked(ladder, queue)
    at, joint = (checked.params, checked.tokens), laws["joint"]
    forecast = (joint(*at), *joint.forecast_interval(*at))
    return Scaling(rungs, **laws, optimal=_optimal(rungs), forecast=forecast, checked=checked, problems=problems)


def _jobs(name: str, recipe: Recipe, tokens: float, seeds: Sequence[int]) -> list[Job]:
    train = limited(recipe.train, "tokens", tokens)
    return [
        Job(f"runs/{name}/{tokens:.0f}-tokens/seed-{seed}", recipe.but(seed=seed, train=train), tested=False)
        for seed in seeds
    ]


def _rung(name: str, runs: Sequence[Outcome]) -> Rung:
    columns = zip(*((run.tokens, run.flops, run.valid["loss"], run.seconds) for run in runs), strict=True)
    tokens, flops, loss, seconds = (sum(column) / len(runs) for column in columns)
    return Rung(name, runs[0].params, tokens, flops, loss, seconds / 60)


def _laws(rungs: Sequence[Rung], samples: int) -> dict[str, PowerLaw]:
    """The four laws; each through the runs that it is about."""
    if not rungs:
        raise Failure("every run of the ladder failed; see what was said above")
    most, largest = max(rung.tokens for rung in rungs), max(rung.params for rung in rungs)
    about = {
        "by_params": [([rung.params], rung.loss) for rung in rungs if rung.tokens > 0.98 * most],
        "by_tokens": [([rung.tokens], rung.loss) for rung in rungs if rung.params == largest],
        "by_compute": [([rungs[number].flops], rungs[number].loss) for number in _optimal(rungs)],
        "joint": [([rung.params, rung.tokens], rung.loss) for rung in rungs],
    }
    return {
        name: fit([x for x, _ in points], [loss for _, loss in points], samples=samples)
        for name, points in about.items()
    }


def _optimal(rungs: Sequence[Rung]) -> list[int]:
    return front([rung.flops for rung in rungs], [rung.loss for rung in rungs])


def _checked(ladder: Ladder, queue: Queue) -> Rung:
    """The run that was forecast; made last, so that nothing before could know it."""
    config = ladder.config
    tokens = config.forecast.tokens or max(config.tokens)
    jobs = _jobs("forecast", ladder.forecast, tokens, config.seeds)
    finished = queue.work(jobs)
    for job in jobs:
        if (problem := finished[job.key].problem) is not None:
            raise Failure(f"{job.key}: {problem}")
    return _rung("forecast", [finished[job.key] for job in jobs])
