"""A run whose translations come from CTranslate2, in a process beside the server; all else from the run's own model."""

import logging
from collections.abc import Callable, Sequence

from regard.config.search_options import with_options
from regard.ctranslate2.choice import Choice, choose
from regard.ctranslate2.process import EngineProcess
from regard.errors import ConfigError, Failure
from regard.run import Run
from regard.tasks.generation import Output
from regard.web.engine import Engine, RunEngine

log = logging.getLogger("regard.serve")


class FastEngine(RunEngine):
    """Translates by CTranslate2 where one translation is wanted; several come from torch, whose n best are others."""

    def __init__(self, run: Run, choice: Choice) -> None:
        super().__init__(run)
        assert choice.converted is not None
        assert choice.search is not None
        self.search = choice.search
        self.remote: EngineProcess | None = EngineProcess(choice.converted)

    def translate(self, texts: Sequence[str], outputs: int) -> list[list[Output]]:
        """By the run's usual search; where the process is gone, by torch from then on."""
        if outputs == 1 and self.remote is not None:
            try:
                return self.remote.translate(texts, self.search, cut=self.run.cuts)
            except Failure as error:
                log.warning("%s: %s; torch goes on", self.run.name, error)
                self.remote = None
        return super().translate(texts, outputs)

    def close(self) -> None:
        """Ends the process."""
        if self.remote is not None:
            self.remote.close()
            self.remote = None


def engine_for(
    run: Run,
    wanted: str,
    *,
    int8: bool,
    device: str,
    say: Callable[[str], None],
    detail: Callable[[str], None] = lambda sentence: None,
) -> Engine:
    """What answers for a run: CTranslate2 where it is wanted and translates as torch does, or else the run itself.

    `say` is told what takes its time, `detail` which engine was chosen and why.
    """
    if run.task.verb != "translate":
        if int8 or wanted == "ctranslate2":
            raise ConfigError(
                "--int8" if int8 else "--engine",
                f"ctranslate2 serves translations, and {run.name} is a run of {run.recipe.task.kind}; leave it out",
            )
        return RunEngine(run)
    ask = lambda converted: with_options(converted.default_search, {"n_best": 1}, converted.searches)  # noqa: E731
    choice = choose(run.folder, wanted, "translation", ask, int8=int8, device=device, say=say)
    detail(f"{run.name}: {choice}")
    return RunEngine(run) if choice.engine == "torch" else FastEngine(run, choice)
