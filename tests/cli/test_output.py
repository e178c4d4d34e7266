"""What all verbs share: --quiet and --verbose before or after the verb, notes, Ctrl-C."""

import io
import sys

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from regard import cli
from regard.cli import app, output
from regard.cli.output import Verbs, detail, say, tell
from regard.progress import VERBOSITY, current_display, phase, shown_on
from regard.progress.display import LiveDisplay


@pytest.fixture
def verbs() -> typer.Typer:
    made = Verbs()

    @made.callback()
    def both(context: typer.Context, quiet: cli.Quiet = False, verbose: cli.Verbose = False) -> None:
        context.with_resource(cli.verbosity(quiet, verbose))

    @made.command()
    def work(name: str, often: int = 1) -> None:
        """Works."""
        say("a note")
        detail("a reason")
        tell("a line")
        print(name, often, VERBOSITY.get(), current_display() is not None)  # noqa: T201

    return made


@pytest.mark.parametrize(
    ("words", "verbosity", "said"),
    [
        (["work", "x"], "normal", ["regard: a note", "a line"]),
        (["work", "x", "--quiet"], "quiet", []),
        (["-q", "work", "x"], "quiet", []),
        (["work", "-v", "x"], "verbose", ["regard: a note", "regard: a reason", "a line"]),
        (["--verbose", "work", "x"], "verbose", ["regard: a note", "regard: a reason", "a line"]),
    ],
)
def test_options_stand_before_or_after_the_verb(verbs: typer.Typer, words: list[str], verbosity: str, said: list[str]):
    done = CliRunner().invoke(verbs, [*words, "--often", "2"])
    assert done.exit_code == 0, done.output
    assert done.stdout == f"x 2 {verbosity} {verbosity != 'quiet'}\n"
    assert done.stderr.splitlines() == said
    assert VERBOSITY.get() == "normal", "it is forgotten afterwards"


def test_both_together_are_refused(verbs: typer.Typer):
    done = CliRunner().invoke(verbs, ["work", "x", "-q", "-v"])
    assert "--quiet: says less and --verbose more" in str(done.exception)


def test_every_verb_has_both():
    command = typer.main.get_command(app)
    verbs = {**command.commands, **command.commands["data"].commands}  # type: ignore[attr-defined]
    for name, verb in verbs.items():
        if name != "data":
            options = {option for parameter in verb.params for option in parameter.opts}
            assert {"--quiet", "-q", "--verbose", "-v"} <= options, name


def test_an_interrupted_verb_leaves_with_130_and_one_line(monkeypatch: pytest.MonkeyPatch, capsys):
    def interrupted(*_: object) -> None:
        with phase("reading"):
            raise KeyboardInterrupt

    monkeypatch.setattr("regard.data.check.check_files", interrupted)
    monkeypatch.setattr("sys.argv", ["regard", "data", "check", "a.txt"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 130
    assert capsys.readouterr().err == "regard: interrupted\n"


def test_a_run_interrupted_before_its_first_checkpoint_says_so(tmp_path, monkeypatch, capsys):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.api.train", interrupted)
    monkeypatch.setattr("sys.argv", ["regard", "train", "a.toml", "--out", str(tmp_path)])
    for checkpoint, said in (("", "nothing was trained"), ("step-3", f"regard train {tmp_path}/recipe.toml --resume")):
        (tmp_path / "checkpoints" / checkpoint).mkdir(parents=True)
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert left.value.code == 130
        assert said in capsys.readouterr().err


def test_the_live_line_is_gone_before_a_result_comes(monkeypatch: pytest.MonkeyPatch):
    screen = Terminal()
    display = LiveDisplay(console=Console(file=screen, force_terminal=True, width=80))
    monkeypatch.setattr("sys.stdout", screen)
    with shown_on(display), output._results_after(display), phase("testing"):
        display.start()
        print("a result")  # noqa: T201
        assert display._live is None
    assert screen.getvalue().endswith("a result\n")
    assert "\x1b[?25h" in screen.getvalue(), "the cursor is back"
    assert sys.stdout is screen


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True
