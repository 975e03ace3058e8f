"""recert cache: look at caches, check, audit, merge, sign and export them."""

import typer

from recert.cli.cache import audit, files, show, sign

app = typer.Typer(
    help="Look at, check, audit, merge, sign and export caches.", no_args_is_help=True, rich_markup_mode="rich"
)
for module in (show, files, audit, sign):
    module.add_to(app)
