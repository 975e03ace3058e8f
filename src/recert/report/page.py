"""One self-contained page: no network, nothing to install, safe to open whatever the result files hold."""

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from recert.certificates import Settings
from recert.certificates.reading import PROXY_COSTS
from recert.figures.chart import Chart
from recert.figures.inline_svg import inline_svg
from recert.figures.style import BASELINE, SERIES
from recert.report import figures
from recert.report.gains import Gain, gains
from recert.report.input_table import down, first_rows, packed_tables
from recert.report.matching import Pictures
from recert.report.results import Result
from recert.report.summary import Summary, summarise
from recert.report.thumbnails import Sprite
from recert.version import __version__

THUMB = 40  # pixels on the page


@dataclass(frozen=True)
class Panel:
    """What the page shows of one result when it is chosen."""

    result: Result
    summary: Summary
    gain: Gain | None
    histograms: tuple[Chart, ...]
    budget: str
    cost: str

    @property
    def settings(self) -> Settings:
        return self.result.certificates.settings


def render_page(results: Sequence[Result], radii: Sequence[float], pictures: Pictures | None = None) -> str:
    """The page of results about the same inputs (see `align`), as HTML."""
    saved = gains(results)
    shown, styles = figures.drawn_curves(results), figures.looks(results)
    panels = [
        _panel(result, gain, radii, figures.histogram_figures([result], [look]) if i in shown else [])
        for i, (result, gain, look) in enumerate(zip(results, saved, styles, strict=True))
    ]
    detailed = [results[i] for i in shown]
    classes = None if pictures is None else pictures.classes
    environment = _environment()
    # The page allows this one script, by its hash: text from a result file that looks like a script does not run.
    script = environment.get_template("page.js").render()
    return environment.get_template("page.html").render(
        panels=panels,
        shown=[panels[i] for i in shown],
        accuracy=figures.accuracy_figure(results),
        cost=figures.cost_figure(results),
        arrows=any(gain is not None and gain.factor > 1 for gain in saved),
        curves=_curve_table(results),
        rows=first_rows(detailed[0], classes),
        outcomes=sorted({str(outcome) for result in detailed for outcome in result.certificates.outcome}),
        pictures=pictures,
        thumb_style=_thumb_style(None if pictures is None else pictures.sprite),
        labelled=results[0].labels is not None,
        colours=[s.colour for s in SERIES],
        baseline_colour=BASELINE.colour,
        version=__version__,
        norms=" or ".join(sorted({str(norm) for result in results for norm in result.certificates.norm})),
        data=packed_tables(detailed, classes),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _thumb_style(sprite: Sprite | None) -> Callable[[int], str]:
    """Which part of the sprite an input's picture is, as a style; all are shown at one height."""

    def style(number: int) -> str:
        assert sprite is not None
        scale = THUMB / max(sprite.width, sprite.height)
        width, height = sprite.width * scale, sprite.height * scale
        row, column = divmod(number, sprite.columns)
        return (
            f"width:{width:g}px;height:{height:g}px;background-size:{width * sprite.columns:g}px {height * sprite.rows:g}px;"
            f"background-position:{-column * width:g}px {-row * height:g}px"
        )

    return style


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("recert.report", "templates"),
        autoescape=select_autoescape(("html",)),
        undefined=StrictUndefined,  # a misspelt name in a template is an error, not an empty text
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = lambda share: f"{share:.1%}"
    environment.filters["whole"] = lambda number: f"{number:,.0f}"
    environment.filters["svg"] = lambda chart, key: Markup(inline_svg(chart, key))
    environment.filters["down"] = lambda number: f"{down(number):.4f}"
    return environment


def _panel(result: Result, gain: Gain | None, radii: Sequence[float], histograms: list[Chart]) -> Panel:
    summary = summarise(result, radii)
    return Panel(result, summary, gain, tuple(histograms), _budget(result), _cost(result, summary, gain))


def _cost(result: Result, summary: Summary, gain: Gain | None) -> str:
    """The text below the number of forward passes."""
    proxy = result.certificates.settings.proxy
    if proxy is not None:
        passes, seconds = (float(proxy[name]) if name in proxy else None for name in PROXY_COSTS)
        text = f"{summary.passes:,.0f} own forward passes per input, and "
        text += "those" if passes is None else f"{passes:,.0f} passes"
        text += f" of a faster network ({proxy['made by']})"
        return text if seconds is None else f"{text}; {summary.seconds:.1f} + {seconds:.1f} seconds in all"
    return f"{summary.seconds:.1f} seconds in all" if gain is None else f"from scratch: {gain} as many"


def _budget(result: Result) -> str:
    """Where the forward passes went, in a sentence."""
    passes = np.sort(result.certificates.forward_passes)[::-1]
    if passes[0] == passes[-1]:
        return f"Every input took {passes[0]:,} forward passes."
    tenth = max(1, len(passes) // 10)
    return (
        f"Half of the inputs took at most {np.median(passes):,.0f} forward passes; the {tenth} that took most "
        f"used {passes[:tenth].sum() / max(1, passes.sum()):.0%} of all. {(passes == 0).sum()} took none."
    )


def _curve_table(results: Sequence[Result]) -> dict[str, Any]:
    """The certified accuracy of the chart in numbers, at ten radii."""
    chosen = [results[i] for i in figures.drawn_curves(results)]
    shares = [figures.accuracy_curve(result, results)[:: figures.GRID // 10] for result in chosen]
    return {"names": [result.name for result in chosen], "rows": list(zip(*shares, strict=True))}
