"""`--out FOLDER` of `translate` and `evaluate`: results in parts, by one process or by many under torchrun."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.engines import OPTIONS
from regard.cli.inputs import UnseenWords
from regard.cli.output import say
from regard.errors import ConfigError, counted

if TYPE_CHECKING:
    from regard.ctranslate2.choice import Choice
    from regard.data.sources import SourceConfig
    from regard.decode.search import AnySearch
    from regard.run.parts import PartFormat as Format
    from regard.run.scoring import Report
    from regard.run.trained import Run
    from regard.text.inputs import Overlong
    from regard.text.outputs import Output
    from regard.text.splitting import Splitting

Out = Annotated[
    Path | None,
    typer.Option(help="Write parts into this folder; processes can share the work and resume it."),
]
PartFormat = Annotated[str | None, typer.Option("--format", help="With --out: text (default), json or parquet.")]
PerPart = Annotated[int | None, typer.Option(help="With --out: lines of a part; default: 1,024.", min=1)]
LINES_PER_PART = 1024


def refuse_parts(part_format: str | None, lines_per_part: int | None) -> None:
    """Refuses options of parts where none are written."""
    for option, value in {"--format": part_format, "--lines-per-part": lines_per_part}.items():
        if value is not None:
            raise ConfigError(option, "says how parts are written into a folder; give --out too, or leave it out")


def refuse_many() -> None:
    """Several processes without a folder in common would all do the same work."""
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if started > 1:
        raise ConfigError(
            "--out", f"torchrun has started {started} processes; name a folder in which they share the work"
        )


def translate_parts(
    run: Path,
    file: Path | None,
    out: Path,
    to: str,
    lines_per_part: int,
    choice: "Choice",
    settings: Mapping[str, object],
    device: str,
    ensemble: list[Path],
    unknown: str,
    dictionary: Path | None,
    overlong: "Overlong",
    split: bool,
) -> None:
    """Translates a file into a folder, together with whoever else does."""
    from regard.run.parts import SUFFIXES
    from regard.text.splitting import load_splitting

    if file is None:
        raise ConfigError("--out", "parts are made of a file, not of standard input; name the file")
    if to not in SUFFIXES:
        raise ConfigError("--format", f"expected one of {', '.join(SUFFIXES)}, got '{to}'")
    unseen = UnseenWords(run)
    if choice.converted is not None:
        splitting = load_splitting(run) if split else None
        made, total = _fast_parts(choice, file, out, to, lines_per_part, overlong, splitting, unseen)
    else:
        from regard.cli.arguments import with_unknown
        from regard.run.sharded import translate_file
        from regard.run.trained import Run
        from regard.train.parallel.processes import use_local_gpu

        use_local_gpu()
        opened = with_unknown(Run.open(run, device), unknown, dictionary)
        others = [Run.open(other, device) for other in ensemble]
        search = opened.search_with(settings, OPTIONS)
        made, total = translate_file(
            opened, file, out, search, others, to, lines_per_part, overlong, say, split, unseen.report
        )
    unseen.close()
    say(f"{counted(total, 'part')} in {out}, {made:,} of them made by this process")


def _fast_parts(
    choice: "Choice",
    file: Path,
    out: Path,
    to: "Format",
    lines_per_part: int,
    overlong: "Overlong",
    splitting: "Splitting | None",
    unseen: UnseenWords,
) -> tuple[int, int]:
    """The parts that CTranslate2 writes; the cores of the machine are divided among the processes on it."""
    from regard.ctranslate2.model import CTranslate2Engine, Workers
    from regard.ctranslate2.threads import load_engine
    from regard.files.machine import cores
    from regard.run.parts import write_file

    converted, search = choice.converted, choice.search
    assert converted is not None
    assert search is not None
    beside = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    shared = Workers(max(1, cores() // beside), 1)
    engine = load_engine(converted, many=True) if beside == 1 else CTranslate2Engine(converted, shared)
    request = {
        "engine": f"ctranslate2 {converted.precision}",
        "models": [converted.folder.name],
        "search": dict(search),
        "overlong": overlong,
    }

    def translate(batch: list[str], cut: bool) -> "list[list[Output]]":
        return engine.translate(batch, search, scored=to != "text", cut=cut)

    return write_file(translate, request, file, out, to, lines_per_part, overlong, say, splitting, unseen.report)


def evaluate_parts(
    run: "Run",
    data: "SourceConfig | str",
    out: Path,
    search: "AnySearch",
    others: "list[Run]",
    overlong: "Overlong",
) -> "Report":
    """Tests a run on translations that are written into a folder, together with whoever else does."""
    from regard.run.sharded import score_in_parts

    source = run.source(data)
    return score_in_parts(run, source, out, search, others, overlong=overlong)
