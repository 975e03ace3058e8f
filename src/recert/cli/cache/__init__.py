"""recert cache: look at caches, check, audit, merge, sign and export them."""

from recert.cli.cache import audit, files, show, sign
from recert.cli.help import App

app = App(help="Look at, check, audit, merge, sign and export caches.", rich_markup_mode="rich")
for module in (show, files, audit, sign):
    module.add_to(app)
