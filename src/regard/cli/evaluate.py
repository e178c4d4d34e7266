"""`regard evaluate`: scores with their signatures."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.engines import IMAGES, OverlongOption, overlong_for, say_limit
from regard.cli.parts import Out, evaluate_parts, refuse_many
from regard.errors import ConfigError, counted

if TYPE_CHECKING:
    from regard.decode.search import AnySearch
    from regard.run import Run
    from regard.run.scoring.report import OverlongSummary
    from regard.text.inputs import Overlong


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    data: Annotated[str, typer.Option(help="test, valid, train; or a.en,a.de, or {file=…} as in a recipe.")] = "",
    search: Annotated[
        str, typer.Option(help="On top of the run's search: a kind such as greedy, or {kind='beam',size=10}.")
    ] = "",
    ensemble: Annotated[list[Path] | None, typer.Option(help="Further runs of an ensemble.")] = None,
    unknown: Annotated[str, typer.Option(help="Unknown words of a word vocabulary: keep, or replace.")] = "",
    dictionary: Annotated[
        Path | None, typer.Option(help="Translations of single words, for --unknown replace.")
    ] = None,
    which: Annotated[str, typer.Option(help="Checkpoint: best, last, or step-N.")] = "best",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable, with all outputs.")] = False,
    overlong: OverlongOption = "",
    out: Out = None,
) -> None:
    """Test a run, on its test data or other. BLEU, perplexity or accuracy, each with how it was computed.

    Examples that are too long for the model are cut or left out as in training, counted and named.
    """
    from regard import api
    from regard.cli.arguments import parse_data, parse_search, with_unknown
    from regard.train.parallel.processes import is_main_process, use_local_gpu

    use_local_gpu()
    opened = with_unknown(api.load(run, device, which), unknown, dictionary)
    if search and opened.task.verb != "translate":
        raise ConfigError(
            "--search", f"a run of task {opened.recipe.task.kind} is tested without generation; leave it out"
        )
    others = [api.load(other, device) for other in ensemble or []]
    how = parse_search(opened.recipe.usual_search, search)
    _refuse_several(opened.recipe.usual_search, how)
    say_limit(opened.limit(how, others))
    treatment = _overlong(opened, run, overlong)
    split = data or ("test" if opened.recipe.data.test is not None else "valid")
    if out is None:
        refuse_many()
        report = api.evaluate(opened, parse_data(split), how, others, treatment)
    else:
        report = evaluate_parts(opened, parse_data(split), out, how, others, treatment)
        if not is_main_process():
            return
    if as_json:
        tree = {"run": str(run), "checkpoint": opened.step, "data": split, **report.tree()}
        print(json.dumps(tree, ensure_ascii=False, indent=2))
        return
    print(f"{run}, step {opened.step:,}, {split}: {counted(report.examples, report.unit)} in {report.seconds:.1f} s")
    for reason, count in report.details.get("left_out", {}).items():
        if reason == "blank":  # those that are too long are named below
            print(f"  {counted(count, 'example')} left out: {reason}")
    for name, value in report.metrics.items():
        signature = report.signatures.get(name, "")
        print(f"  {name:14} {value:10.4f}  {signature}".rstrip())
    _show_overlong(report.overlong)
    if "labels" in report.details and "confusion" in report.details:
        _show_confusion(report.details["labels"], report.details["confusion"])


def _refuse_several(usual: "AnySearch", search: "AnySearch") -> None:
    """Refuses to search for more outputs than the run does: the first of them is scored."""
    for name in ("n_best", "samples"):
        if getattr(search, name, 1) > getattr(usual, name, 1):
            raise ConfigError("--search", f"one output of each input is scored; leave {name} out")


def _overlong(opened: "Run", run: Path, option: str) -> "Overlong":
    from regard.data.batches import StreamConfig

    recipe = opened.recipe
    if option and isinstance(recipe.task.batching(recipe.data), StreamConfig):
        raise ConfigError("--overlong", "this run reads its texts as one stream, and none is too long; leave it out")
    return overlong_for(run, option, IMAGES)


def _show_overlong(overlong: "OverlongSummary | None") -> None:
    if not overlong:
        return
    count, first = overlong["count"], overlong["examples"]
    what = "cut at the end" if overlong["treatment"] == "cut" else "left out"
    what += f" for {' and '.join(overlong['scores'])}" if "scores" in overlong else ""
    print(f"  {counted(count, 'example')} too long for the model, {what}{', the first' if count > len(first) else ''}:")
    for example in first:
        print(f"    {example}")


def _show_confusion(labels: list[str], counts: list[list[int]]) -> None:
    width = max(len(str(label)) for label in labels) + 2
    print("  confusion: rows are the true labels, columns the given ones")
    print("  " + " " * width + "".join(f"{label:>{max(8, width)}}" for label in labels))
    for label, row in zip(labels, counts, strict=True):
        print(f"  {label:{width}}" + "".join(f"{count:>{max(8, width)},}" for count in row))
