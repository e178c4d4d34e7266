"""The command line. What needs torch is imported inside the commands, so that `--help` is fast."""

import atexit
import errno
import gc
import os
import sys
from shutil import get_terminal_size
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from regard.cli.evaluate import evaluate
from regard.cli.experiments import bench, claims, compare
from regard.cli.generate import classify, generate, translate
from regard.cli.look import look
from regard.cli.output import Quiet, Verbose, Verbs, verbosity
from regard.cli.recipes import config, data, init, recipes
from regard.cli.serve import export, import_, serve
from regard.cli.train import demo, train
from regard.errors import Interrupted, RegardError, shortened
from regard.progress.display import wrapped


class Group(TyperGroup):
    """The commands; a closed pipe, as of `| head`, is no failure."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None


app = Verbs(
    cls=Group,
    name="regard",
    help="Train a Transformer on your own data, see which of its parts matter, look inside it, ship it.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for verb in (
    init,
    recipes,
    train,
    evaluate,
    translate,
    generate,
    classify,
    look,
    compare,
    claims,
    serve,
    export,
    bench,
    config,
    demo,
):
    app.command()(verb)
app.command("import")(import_)
app.add_typer(data, name="data")


@app.callback(invoke_without_command=True)
def _version(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Show the version and leave."),
    quiet: Quiet = False,
    verbose: Verbose = False,
    plugin: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Run this plugin, a Python file that a run needs."),
    ] = None,
) -> None:
    context.with_resource(verbosity(quiet, verbose))
    if plugin:
        from regard.config.plugins import allow_plugins

        allow_plugins(plugin)
    if version:
        from regard import __version__

        print(f"regard {__version__}")
        raise typer.Exit


def main() -> None:
    """Runs the command line; a user's mistake is one sentence and exit code 2, without a traceback."""
    atexit.register(gc.freeze)  # else all that torch has loaded is searched for rubbish at the end, for half a second
    try:
        app()
    except RegardError as error:
        _leave(str(error), error.exit_code)
    except OSError as error:  # a file that the machine refuses to read or write
        code = 2 if error.errno in (errno.ENAMETOOLONG, errno.ELOOP) else 1  # names that can never be
        _leave(f"{error.filename or 'a file'}: {error.strerror or error}", code)
    except (MemoryError, RuntimeError) as error:
        from regard.train.memory import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        _leave(f"memory does not suffice ({str(error).partition(chr(10))[0]}); ask for less at once", 1)


def _leave(sentence: str, code: int) -> NoReturn:
    """Exits with one line on standard error; line ends and control characters of names and values are escaped."""
    shown = "".join(character if character.isprintable() else repr(character)[1:-1] for character in sentence)
    if shown:
        line = f"regard: {shortened(shown)}"
        print(wrapped(line, get_terminal_size().columns) if sys.stderr.isatty() else line, file=sys.stderr)
    sys.exit(code)
