"""How every figure looks: series differ by colour, dashes and marker, so that greyscale and colour-blind readers see them.

    with paper_style():
        figure, (axes,) = new_figure()
        axes.plot(x, y, label="auto", **series(0).keywords)
        save(figure, "figures", "acr-against-cost")  # .pdf, .svg and .png

Nothing here imports matplotlib before a figure is made.
"""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from recert.storage import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Series(NamedTuple):
    """What sets one line apart from the others. Dashes are lengths in line widths, on and off; none is a solid line."""

    colour: str
    dash: tuple[float, ...]
    marker: str

    @property
    def keywords(self) -> dict[str, Any]:
        """Arguments of matplotlib's `plot`."""
        look = {"color": self.colour, "linestyle": (0, self.dash) if self.dash else "-", "marker": self.marker}
        return look | ({"markersize": 6.0} if self.marker == "*" else {})  # a star fills little of its square


SERIES = (
    Series("#0b4f8a", (), "o"),
    Series("#d55e00", (5, 1.6), "s"),
    Series("#00916a", (1.2, 1.4), "^"),
    Series("#9b2d86", (6, 1.6, 1.2, 1.6), "D"),
    Series("#b07d00", (3, 1.2), "v"),
    Series("#2b9bd7", (6, 1.4, 1.2, 1.4, 1.2, 1.4), "P"),
    Series("#222222", (9, 2.5), "X"),
    Series("#8c5a3c", (2.5, 2.5), "p"),
)
"""Every colour has at least three times the contrast of white paper; neighbours differ in lightness and in dashes."""

BASELINE = Series("#7a7a7a", (), "*")
"""What others are compared with: grey and solid with stars, in every figure alike."""

RECERT = SERIES[0]
"""Re-certification: the one bold colour, in every figure alike."""
ORIGINAL = Series("#222222", (), "")
"""The original model: thin."""

FORMATS = ("pdf", "svg", "png")
_NO_DATES = {
    "pdf": {"CreationDate": None, "ModDate": None},
    "svg": {"Date": None},
    "png": {},
}  # fmt: skip
_WIDTH = 3.4  # inches: one column of a two-column page


def series(number: int) -> Series:
    """The look of the n-th line; it repeats after the last.

    >>> series(0) == series(len(SERIES))
    True
    """
    return SERIES[number % len(SERIES)]


@contextmanager
def paper_style() -> Iterator[None]:
    """Inside, matplotlib draws in this project's style; outside, everything is as it was."""
    import matplotlib

    with matplotlib.rc_context():
        # Inside the context, so that a user's own settings neither change a published figure nor are lost.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_settings())
        yield


def new_figure(panels: int = 1, *, width: float | None = None, height: float = 2.5) -> "tuple[Figure, list[Axes]]":
    """A figure with panels side by side, and its axes. No window, whatever backend is set."""
    from matplotlib.figure import Figure

    # Not pyplot, which would choose a backend for the whole process and keep every figure in memory.
    figure = Figure(figsize=(width or _WIDTH * panels, height), layout="constrained")
    return figure, list(figure.subplots(1, panels, squeeze=False)[0])


def stacked_figure(ratios: "tuple[float, ...]", *, height: float) -> "tuple[Figure, list[Axes]]":
    """A figure with panels below each other, of these relative heights, over one horizontal axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    return figure, list(figure.subplots(len(ratios), 1, sharex=True, height_ratios=ratios))


def save(figure: "Figure", directory: str | os.PathLike[str], name: str) -> list[Path]:
    """Write a figure as PDF, SVG and PNG; the same figure gives the same bytes, on any day."""
    import matplotlib

    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{form}" for form in FORMATS]
    # Ids in an SVG are random without a salt, and dates change: the same figure would be another file every day.
    with matplotlib.rc_context({"svg.hashsalt": name}):
        for path, form in zip(paths, FORMATS, strict=True):
            drawn = io.BytesIO()
            figure.savefig(drawn, format=form, metadata=_NO_DATES[form])
            write_whole(path, drawn.getvalue())
    return paths


def _settings() -> Any:
    from matplotlib.rcsetup import cycler

    cycle = cycler(
        color=[s.colour for s in SERIES],
        linestyle=[s.keywords["linestyle"] for s in SERIES],
        marker=[s.marker for s in SERIES],
    )
    return {
        "axes.prop_cycle": cycle, "lines.linewidth": 1.4, "lines.markersize": 3.6, "lines.markeredgewidth": 0.0,
        "font.family": "DejaVu Sans", "font.size": 8.0, "axes.titlesize": 8.5, "axes.labelsize": 8.5, "legend.fontsize": 7.5,
        "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.7,
        "axes.grid": True, "grid.alpha": 0.3, "grid.linewidth": 0.5, "axes.axisbelow": True,
        "xtick.major.width": 0.7, "ytick.major.width": 0.7, "xtick.minor.width": 0.5, "ytick.minor.width": 0.5,
        "legend.frameon": False, "legend.handlelength": 3.4,  # long enough to show the dashes
        "savefig.dpi": 220, "pdf.fonttype": 42, "svg.fonttype": "path", "savefig.facecolor": "white",
    }  # fmt: skip
