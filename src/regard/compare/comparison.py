"""A comparison: equal budgets, tuned learning rates, one run per variant and seed, then the table and its plot."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch

from regard import __version__
from regard.compare import table
from regard.compare.budget import Planner, equalised, shortened
from regard.compare.comparability import choose_metric, refuse_other_data, refuse_other_tasks
from regard.compare.queue import Job, Outcome, Queue, Watch, turn
from regard.compare.significance import compare_runs, incomparable, tally
from regard.compare.sweep import Sweep, SweepConfig, Variant
from regard.compare.table import Row
from regard.errors import counted
from regard.files.atomic import write_atomic
from regard.files.machine import cores
from regard.files.strict_json import to_json
from regard.metrics.registry import METRICS
from regard.train.progress import make_watcher

TOLERANCE = 0.01  # a run that spends more than its budget by more than this says so


@dataclass(frozen=True)
class Comparison:
    metric: str
    budget: str
    """What all variants had equally much of, as a sentence."""
    seeds: Sequence[int]
    split: str
    rows: Sequence[Row] = field(default_factory=list)

    @property
    def caption(self) -> str:
        """What one must know to read the table, and how many of many variants differ."""
        read = table.caption_of(self.rows, self.split, len(self.seeds), self.budget)
        return f"{read} {tally([row.verdict for row in self.rows[1:]], self.rows[0].name)}".rstrip()

    def tree(self) -> dict[str, object]:
        """The result as JSON; generated texts stay in the run folders."""
        return {
            "metric": self.metric, "budget": self.budget, "seeds": list(self.seeds), "split": self.split,
            "regard": __version__, "machine": _machine(), "rows": [_row_tree(row) for row in self.rows],
        }  # fmt: skip

    def _repr_markdown_(self) -> str:
        """The table, as a notebook shows it."""
        return table.markdown(self.rows, self.metric, self.caption)

    def write(self, folder: Path) -> None:
        """table.md, table.tex and table.json."""
        texts = {
            "table.md": self._repr_markdown_(),
            "table.tex": table.latex(self.rows, self.metric, self.caption),
            "table.json": to_json(self.tree(), indent=1) + "\n",
        }
        for name, text in texts.items():
            write_atomic(folder / name, text)

    def write_plot(self, file: Path) -> str | None:
        """Plots the table; returns a sentence instead of failing where the file cannot be written."""
        try:
            table.write_figure(table.draw(self.rows, self.metric), file)
        except Exception as error:
            return f"{file} could not be written ({error}); the tables beside it are whole"
        return None


def _machine() -> str:
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{cores()} CPU cores"
    return f"{device}, torch {torch.__version__}"


def _row_tree(row: Row) -> dict[str, object]:
    verdict = None if row.verdict is None else asdict(row.verdict) | {"significant": row.verdict.significant}
    runs = [{name: value for name, value in asdict(run).items() if name != "evidence"} for run in row.outcomes]
    return {
        "name": row.name, "mean": row.mean, "deviation": row.deviation, "scores": list(row.scores),
        "against_first": verdict, "learning_rate": row.learning_rate, "parameters": row.params, "flops": row.flops,
        "minutes": row.minutes, "comparable": not row.incomparable, "notes": list(row.notes), "runs": runs,
    }  # fmt: skip


def compare_sweep(sweep: Sweep, out: Path, watch: Watch = make_watcher) -> Comparison:
    """Trains and tests every variant with every seed into a folder, and writes the table there."""
    config, planner = sweep.config, Planner(out / "plan")
    recipes = {variant.name: variant.recipe for variant in sweep.variants}
    refuse_other_tasks(recipes)
    other_valid = refuse_other_data(recipes)
    metric = choose_metric(recipes, config.metric, planner)
    variants, amount = equalised(sweep.variants, config.budget, planner)
    queue = Queue(out, watch, config.keep_weights)
    if config.tune:
        variants = with_tuned_rates(variants, config, queue)
    jobs = [job for variant in variants for job in _jobs(variant, config.seeds)]
    # all variants of one seed before the next seed
    finished = queue.work(sorted(jobs, key=lambda job: job.recipe.seed))
    outcomes = {variant.name: _outcomes(variant, config.seeds, finished, metric) for variant in variants}
    splits = {outcome.split for row in outcomes.values() for outcome in row if outcome.problem is None}
    comparison = Comparison(
        metric, _budget_sentence(config.budget.by, amount), config.seeds, "/".join(sorted(splits)) or "no",
        _rows(variants, outcomes, metric, sweep.config, amount, other_valid),
    )  # fmt: skip
    with turn(out / "locks" / "table"):
        comparison.write(out)
        problem = comparison.write_plot(out / "plot.png")
    if problem is not None:
        with watch() as watcher:
            watcher.say(problem)
    return comparison


def with_tuned_rates(variants: list[Variant], config: SweepConfig, queue: Queue) -> list[Variant]:
    """The variants, each with the learning rate whose short run had the lowest validation loss."""
    jobs_by_variant = {variant.name: _tuning_jobs(variant, config) for variant in variants if variant.problem is None}
    outcomes = queue.work([job for jobs in jobs_by_variant.values() for job in jobs.values()])
    losses = {
        name: {rate: outcomes[job.key].valid.get("loss", math.inf) for rate, job in jobs.items()}
        for name, jobs in jobs_by_variant.items()
    }
    return [_with_best(variant, losses.get(variant.name, {})) for variant in variants]


def _tuning_jobs(variant: Variant, config: SweepConfig) -> dict[float, Job]:
    """A short run for each learning rate."""
    recipe, jobs = variant.recipe.but(seed=config.seeds[0]), {}
    for factor in config.tune_factors:
        rate = float(f"{recipe.train.schedule.lr * factor:.3g}")
        train = shortened(recipe.train, config.tune_share)
        train = train.but(schedule=train.schedule.but(lr=rate))
        jobs[rate] = Job(f"tune/{variant.folder}/lr-{rate:g}", recipe.but(train=train), tested=False)
    return jobs


def _with_best(variant: Variant, losses: dict[float, float]) -> Variant:
    if variant.problem is not None:
        return variant
    finite = {rate: loss for rate, loss in losses.items() if math.isfinite(loss)}
    if not finite:
        return replace(variant, problem="training failed with every learning rate that was tried")
    train = variant.recipe.train
    schedule = train.schedule.but(lr=min(finite, key=finite.__getitem__))
    return replace(variant, recipe=variant.recipe.but(train=train.but(schedule=schedule)))


def _key(variant: Variant, seed: int) -> str:
    return f"runs/{variant.folder}/seed-{seed}"


def _jobs(variant: Variant, seeds: Sequence[int]) -> list[Job]:
    if variant.problem is not None:
        return []
    return [Job(_key(variant, seed), variant.recipe.but(seed=seed)) for seed in seeds]


def _outcomes(variant: Variant, seeds: Sequence[int], finished: dict[str, Outcome], metric: str) -> list[Outcome]:
    outcomes = [finished.get(_key(variant, seed)) or Outcome(problem=variant.problem) for seed in seeds]
    return [_with_score(outcome, metric) for outcome in outcomes]


def _with_score(outcome: Outcome, metric: str) -> Outcome:
    """The outcome, marked as failed where the table's score is missing or not finite."""
    if outcome.problem is not None or math.isfinite(outcome.metrics.get(metric, math.nan)):
        return outcome
    got = f"is {outcome.metrics[metric]}" if metric in outcome.metrics else "is not given by its test"
    return replace(outcome, problem=f"its {METRICS[metric].label} {got}")


def _rows(
    variants: Sequence[Variant],
    outcomes: dict[str, list[Outcome]],
    metric: str,
    config: SweepConfig,
    amount: float,
    other_valid: Sequence[str],
) -> list[Row]:
    first = outcomes[variants[0].name]
    tested = [outcome for row in outcomes.values() for outcome in row if outcome.problem is None]
    rows: list[Row] = []
    for number, variant in enumerate(variants):
        runs = outcomes[variant.name]
        successful = [run for run in runs if run.problem is None]
        reason = next(filter(None, (incomparable(tested[0], run, metric) for run in successful)), None)
        verdict = compare_runs(first, runs, metric, config.method) if number else None
        notes = ["its checkpoint was chosen on other validation data"] if variant.name in other_valid else []
        notes += _overspending(successful, config.budget.by, amount)
        rows.append(Row(variant.name, runs, metric, verdict, variant.recipe.train.schedule.lr, reason, notes))
    return rows


def _overspending(runs: Sequence[Outcome], by: str, amount: float) -> list[str]:
    """A run ends with a whole step: where a step is more than a hundredth of the budget, the row says so."""
    used = {"flops": lambda run: run.flops, "tokens": lambda run: run.tokens, "minutes": lambda run: run.seconds / 60}
    over = max((used[by](run) / amount - 1 for run in runs), default=0.0) if by in used else 0.0
    return [f"spent {over:.1%} more {by} than the budget"] if over > TOLERANCE else []


def _budget_sentence(by: str, amount: float) -> str:
    sentences = {
        "flops": f"{amount:.3g} training FLOPs each", "tokens": f"{amount:,.0f} training tokens each",
        "steps": f"{counted(round(amount), 'step')} each", "minutes": f"{amount:g} minute{'s' * (amount != 1)} each",
        "params": f"{amount:,.0f} parameters each, within 2 %, and equally many training tokens",
    }  # fmt: skip
    return sentences[by]
