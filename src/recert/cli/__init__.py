"""The command line. Data goes to stdout, progress and errors to stderr; a domain error is one clear line."""

import atexit
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from recert.cli import bundle, cache, catalogue, certify, compare, compress, demo, recertify, report, select, train
from recert.cli.help import App
from recert.cli.output import say
from recert.cli.remarks import remarks_said
from recert.cli.stopping import INTERRUPTED, stoppable
from recert.cli.streams import open_closed, printing
from recert.version import __version__

app = App(
    name="recert",
    help="Certify that a network's predictions are robust, and re-certify it cheaply after it was changed.",
    epilog="Start with: recert demo",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (demo, certify, recertify, compare, select, compress, bundle, report, train, catalogue):
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
    with stoppable() as stop, remarks_said(), few_collections():
        code = stop.code(_code(app))
    # Help and lists are printed by others and may still wait to be written.
    sys.exit(_code(_flush) or code)


@contextmanager
def few_collections() -> Iterator[None]:
    """Python looks for garbage seldom, and not at all at exit: what importing torch has made is in use to the end."""
    atexit.register(gc.freeze)
    before = gc.get_threshold()
    gc.set_threshold(100_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)


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
