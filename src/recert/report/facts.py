"""What a page says about how results were made: what all share is said once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recert.certificates.reading import PROXY_COSTS
from recert.report.gains import Gain
from recert.report.input_table import Compared, what_of
from recert.report.results import Result
from recert.report.summary import Summary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recert.report.page import Panel


def title(results: Sequence[Result]) -> str:
    """The heading of the page."""
    changed = sum(result.is_changed for result in results)
    original = next((r for r in results if r.is_original and r.model), None)
    model = None if original is None else original.model
    if len(results) == 1 or not changed:
        model = model or (results[0].model if len(results) == 1 else None)
        return f"{model}: robustness certificates" if model else "Robustness certificates"
    several = "1 changed model" if changed == 1 else f"{changed} changed models"
    against = " against the original" if any(result.is_original for result in results) else ""
    return f"{model}: {several}{against}" if model else f"{several[:1].upper()}{several[1:]}{against}"


_SHARED = {"noise": "noise {}", "certificate": "{} certificates", "method": "method {}"}


def shared_line(results: Sequence[Result], data: str | None) -> str:
    """What all results share, in a line."""
    changed = [r for r in results if r.is_changed] or [r for r in results if not r.is_baseline] or list(results)
    data = data or next((r.data for r in results if r.data), None)
    settings = [r.certificates.settings for r in changed]
    parts = [f"{len(results[0].certificates):,} inputs{f' of {data}' if data else ''}"]
    for name in _SHARED:
        values = dict.fromkeys(str(getattr(each, name)) for each in settings)
        if len(values) == 1:
            parts.append(_SHARED[name].format(next(iter(values))))
    errors = sorted({each.error for each in settings})
    if len(errors) == 1:
        parts.append(f"each certificate is wrong with probability at most {errors[0]:g}")
    return "; ".join(parts)


@dataclass(frozen=True)
class Columns:
    """Which columns of the table of results are not empty, or the same in all rows."""

    method: bool
    error: bool
    flips: bool
    gain: bool


def columns(panels: "Sequence[Panel]") -> Columns:
    """Of the results that a table lists."""
    # The original is certified by another method, with another error: that says nothing about the changed models.
    compared = [panel for panel in panels if panel.result.is_changed] or list(panels)
    settings = [panel.settings for panel in compared]
    return Columns(
        method=len({(s.method, s.certificate, s.noise) for s in settings}) > 1,
        error=len({s.error for s in settings}) > 1,
        flips=any(panel.summary.replayed for panel in panels),
        gain=any(panel.gain is not None for panel in panels),
    )


def happened(compared: Sequence[Compared], rows: "NDArray[np.int64]") -> list[str]:
    """What happened to any input that is shown, for the choice above the table."""
    return sorted({text for each in compared if each.difference is not None for text in what_of(each, rows) if text})


def cost(result: Result, summary: Summary, gain: Gain | None, before: Summary | None) -> str:
    """The text below the number of forward passes."""
    proxy = result.certificates.settings.proxy
    if proxy is not None:
        passes, seconds = (float(proxy[name]) if name in proxy else None for name in PROXY_COSTS)
        text = f"{summary.passes:,.0f} own forward passes per input, and "
        text += "those" if passes is None else f"{passes:,.0f} passes"
        text += f" of a faster network ({proxy['made by']})"
        return text if seconds is None else f"{text}; {_seconds(summary.seconds)} + {_seconds(seconds)} seconds in all"
    if gain is not None:
        return f"{'more than ' * gain.at_least}{gain.needed:,.0f} from scratch: {gain} as many"
    return f"{_seconds(summary.seconds)} seconds in all" + (f", original {_seconds(before.seconds)}" if before else "")


def _seconds(number: float) -> str:
    """With two digits where there are so few that one after the point says nothing.

    >>> _seconds(12.34), _seconds(0.0214), _seconds(0.0)
    ('12.3', '0.021', '0.0')
    """
    return f"{number:.1f}" if number >= 1 or number < 0.001 else f"{number:.2g}"


@dataclass(frozen=True)
class Fact:
    """A name and what is said of it, in lines; code is shown as such."""

    name: str
    lines: tuple[str, ...]
    code: bool = False


@dataclass(frozen=True)
class Facts:
    """What all results share, and what each has of its own."""

    shared: list[Fact]
    own: list[tuple[Result, list[Fact]]]


def facts(results: Sequence[Result]) -> Facts:
    """How the results were made."""
    each = [_facts(result) for result in results]
    shared = [fact for fact in each[0] if all(fact in other for other in each)] if len(results) > 1 else []
    return Facts(shared, [(r, [f for f in own if f not in shared]) for r, own in zip(results, each, strict=True)])


def _numerics(values: dict[str, str]) -> str:
    """What votes were drawn with, in a line.

    >>> _numerics({"batch_size": "64, 32", "compiled": "False"})
    'batch size 64, 32; not compiled'
    """
    compiled = {"compiled True": "compiled", "compiled False": "not compiled"}
    said = (f"{name.replace('_', ' ')} {value}" for name, value in values.items())
    return "; ".join(compiled.get(text, text) for text in said)


def _facts(result: Result) -> list[Fact]:
    s = result.certificates.settings
    method = f"{s.method}, {s.certificate}, alpha {s.alpha:g}"
    method += f", proved error {s.error:g}" if s.error != s.alpha else ""
    method += f", one of {s.family} claims that hold together" if s.family > 1 else ""
    made = "The command was not recorded (a cache, or made in Python); votes follow from model, noise, seed and inputs alone."
    found = [
        Fact("Guarantee", (s.guarantee,)),
        Fact("Method", (method,)),
        Fact("Noise", (f"{s.noise}, seed {s.seed}",)),
        Fact("Votes", (f"{s.samples:,.0f} per input to bound, {s.selection_samples:,.0f} to select",)),
        Fact("Model", tuple(f"{name} {value}" for name, value in s.model.items()), code=True),
        Fact("Numerics", (_numerics(s.numerics.to_text()),)),
        Fact("Reproduce", (result.command or made,), code=result.command is not None),
    ]
    return [Fact("Name", (result.model,)), *found] if result.model else found
