"""One self-contained page: no network, nothing to install, safe to open whatever the result files hold."""

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from recert.certificates import Outcome, Settings
from recert.figures.chart import Chart
from recert.figures.inline_svg import inline_svg
from recert.figures.style import BASELINE, SERIES
from recert.report import facts
from recert.report.accuracy import GRID, accuracy_curve
from recert.report.figures import charts, detail_figures
from recert.report.gains import Gain, gains
from recert.report.input_table import Compared, down, first_rows, packed_tables, telling_rows
from recert.report.looks import drawn_curves
from recert.report.matching import Pictures
from recert.report.results import Result
from recert.report.summary import Summary, summarise
from recert.report.thumbnails import Sprite
from recert.report.verdict import Verdict, conclusion, percent_of, radius_of_verdicts, shape, verdicts
from recert.version import __version__

THUMB = 40  # pixels on the page


@dataclass(frozen=True)
class Panel:
    """What the page shows of one result when it is chosen."""

    result: Result
    summary: Summary
    gain: Gain | None
    details: tuple[Chart, ...]
    budget: str
    cost: str
    verdict: Verdict | None = None
    """None for baselines, which have no line of their own."""
    before: Summary | None = None
    """Of the original, if there is one to compare with."""

    @property
    def settings(self) -> Settings:
        return self.result.certificates.settings

    def says(self, radius: float | None = None) -> bool:
        """Whether the result says anything of a radius, or without one of average radii: not where inputs were decided at others."""
        return not self.settings.at or radius in self.settings.at


def render_page(
    results: Sequence[Result],
    radii: Sequence[float],
    pictures: Pictures | None = None,
    require: Sequence[str] = (),
    all_inputs: str | None = None,
) -> str:
    """The page of results about the same inputs (see `align`), as HTML.

    `require` is asked of every result; `all_inputs` is the name of a file beside the page that has every input (see `inputs_as_csv`).
    """
    # Radii that inputs were decided at are shown whatever was asked for: of these results nothing else is known.
    at = sorted({*radii, *(radius for result in results for radius in result.certificates.settings.at)})
    found = verdicts_of(results, at, require)
    panels = _panels(results, at, found)
    compared = compared_inputs(results, at, require)
    rows = telling_rows(compared)
    sprite = None if pictures is None else pictures.sprite(rows)
    classes = None if pictures is None else pictures.classes
    shown = [panel for panel in panels if panel.verdict is not None]
    baselines = [panel for panel in panels if panel.verdict is None]
    environment = _environment()
    # The page allows this one script, by its hash: text from a result file that looks like a script does not run.
    script = environment.get_template("page.js").render()
    outcomes = sorted({Outcome(o) for panel in shown for o in panel.result.certificates.outcome[rows]})
    return environment.get_template("page.html").render(
        panels=panels, shown=shown, baselines=baselines,
        title=facts.title(results), about=facts.shared_line(results, None if pictures is None else pictures.data),
        conclusion=conclusion(found), verdicts=found, shape=shape(found), radius=found[0].radius,
        charts=charts(results, at), curves=_curve_table(results), columns=facts.columns(shown),
        baseline_columns=facts.columns(baselines),
        rows=first_rows(compared[0], rows, classes), total=len(results[0].certificates), all_inputs=all_inputs,
        outcomes=outcomes, happened=facts.happened(compared, rows), any_compared=any(each.difference is not None for each in compared),
        pictures=pictures, sprite=sprite, thumb_style=_thumb_style(sprite), labelled=results[0].labels is not None,
        facts=facts.facts([panel.result for panel in panels]),
        colours=[s.colour for s in SERIES], baseline_colour=BASELINE.colour, version=__version__,
        norms=" or ".join(sorted({str(norm) for result in results for norm in result.certificates.norm})),
        data=packed_tables(compared, rows, classes), script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )  # fmt: skip


def verdicts_of(results: Sequence[Result], radii: Sequence[float], require: Sequence[str] = ()) -> list[Verdict]:
    """The first lines of the page, in their order."""
    radius = radius_of_verdicts(results, radii, require)
    return verdicts(results, drawn_curves(results), gains(results), radius, require)


def compared_inputs(results: Sequence[Result], radii: Sequence[float], require: Sequence[str] = ()) -> list[Compared]:
    """What the table of inputs shows, result by result."""
    found = verdicts_of(results, radii, require)
    shown = drawn_curves(results)
    return [Compared(results[i], each.difference, each.radius) for i, each in zip(shown, found, strict=True)]


def _panels(results: Sequence[Result], radii: Sequence[float], found: Sequence[Verdict]) -> list[Panel]:
    shown, saved = drawn_curves(results), gains(results)
    said = dict(zip(shown, found, strict=True))
    panels = []
    for i, (result, gain) in enumerate(zip(results, saved, strict=True)):
        summary = summarise(result, radii)
        details = tuple(detail_figures(results, i)) if i in said else ()
        before = None
        if i in said and (difference := said[i].difference) is not None:
            before = summarise(difference.original, radii)
        cost = facts.cost(result, summary, gain, before)
        panels.append(Panel(result, summary, gain, details, _budget(result), cost, said.get(i), before))
    # As the verdicts are: what is shown first, in their order.
    return [*(panels[i] for i in shown), *(panel for i, panel in enumerate(panels) if i not in said)]


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
    environment.filters["down"] = lambda number: f"{down(number):.3f}"
    environment.filters["signed"] = signed
    environment.globals["percent_of"] = percent_of
    return environment


def signed(number: float) -> str:
    """With its sign, in three digits.

    >>> signed(-0.0311), signed(0.5), signed(-0.0001)
    ('−0.031', '+0.500', '0')
    """
    text = f"{abs(number):.3f}"
    return "0" if not float(text) else f"{'−' if number < 0 else '+'}{text}"


def _budget(result: Result) -> str:
    """Where the forward passes went, in a sentence."""
    passes = np.sort(result.certificates.forward_passes)[::-1]
    if passes[0] == passes[-1]:
        return f"Every input took {passes[0]:,} forward passes."
    tenth = max(1, len(passes) // 10)
    return (
        f"Half of the inputs took at most {np.median(passes):,.0f} forward passes; the {tenth:,} that took most "
        f"used {passes[:tenth].sum() / max(1, passes.sum()):.0%} of all. {(passes == 0).sum():,} took none."
    )


def _curve_table(results: Sequence[Result]) -> dict[str, Any]:
    """The certified accuracy of the charts in numbers, at ten radii."""
    chosen = [results[i] for i in drawn_curves(results) if not results[i].certificates.settings.at]
    shares = [accuracy_curve(result, results)[:: GRID // 10] for result in chosen]
    return {"names": [result.name for result in chosen], "rows": list(zip(*shares, strict=True))}
