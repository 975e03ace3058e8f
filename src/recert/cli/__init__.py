"""The command line. Data goes to stdout, progress and errors to stderr; a domain error is one clear line."""

import sys
from collections.abc import Callable

import typer

from recert.cli import cache, catalogue, certify, compare, demo, recertify, report, select, train
from recert.cli.output import say
from recert.cli.stopping import INTERRUPTED, stoppable
from recert.cli.streams import open_closed, printing
from recert.version import __version__

app = typer.Typer(
    name="recert",
    help="Certify that a network's predictions are robust, and re-certify it cheaply after it was changed.",
    epilog="Start with: recert demo",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (demo, certify, recertify, compare, select, report, train, catalogue):
    module.add_to(app)
app.add_typer(cache.app, name="cache")


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def main_options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Certify that a network's predictions are robust, and re-certify it cheaply after it was changed."""


def main() -> None:
    """Run the command line; errors of ours become one line and exit code 1."""
    open_closed()
    with stoppable() as stop:
        code = stop.code(_code(app))
    # Help and lists are printed by others and may still wait to be written.
    sys.exit(_code(_flush) or code)


def _flush() -> None:
    with printing():
        pass


def _code(work: Callable[[], None]) -> int:
    """The exit code of something that is done."""
    from recert.errors import RecertError

    try:
        work()
    except SystemExit as stop:
        return int(stop.code or 0)
    except KeyboardInterrupt:  # while the command line itself was read
        return INTERRUPTED
    # Errors that a user can cause. Others are faults of this library, and keep their traceback.
    except (RecertError, ValueError, OSError, ImportError) as error:
        if "--debug" in sys.argv:
            raise
        say(f"error: {' '.join(str(error).split())}", markup=False)
        return 1
    return 0
