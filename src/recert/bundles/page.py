"""The report in a bundle: how it is made, and whether it shows the result that is in it."""

import re
from pathlib import Path

from recert.bundles.findings import Findings, left_open, right, wrong
from recert.bundles.layout import REPORT
from recert.report import Result
from recert.version import __version__

RADII = (0.25, 0.5, 1.0)
_FIGURE = re.compile(r"<svg\b.*?</svg>", re.DOTALL)


def page_of(result: Result) -> str:
    """The page that a bundle has of its result."""
    from recert.report.alignment import align
    from recert.report.page import render_page

    return render_page(align([result]), list(RADII))


def check_page(path: Path, result: Result, version: str) -> Findings:
    """Whether the page is what this result gives. `version`: of recert, when the bundle was made."""
    if not path.is_file():
        return left_open("report: there is none")
    stored, anew = path.read_bytes(), page_of(result)
    if stored == anew.encode():
        return right(f"report: {path.name} is what this result gives, made again")
    if version != __version__:
        return left_open(f"report: {path.name}, which recert {version} made and this is {__version__}; make it anew")
    # Figures are drawn by matplotlib, whose versions differ in what nobody sees.
    if _FIGURE.sub("", stored.decode("utf-8", "replace")) == _FIGURE.sub("", anew):
        return left_open(
            f"report: figures of {path.name}, which are not the same to the byte; its texts are what this result gives"
        )
    return wrong(f"{REPORT}: it does not show this result; make it anew with recert report")
