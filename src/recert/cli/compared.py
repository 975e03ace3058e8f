"""What `recert compare` shows: the answer, every budget, and how many times fewer passes by every definition."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from recert.cli.options import Format
from recert.cli.output import Row, cell, say, show, summary

if TYPE_CHECKING:
    from recert.cache import Cache
    from recert.comparison import Comparison
    from recert.data import Dataset


def answers(change: str, compared: "Comparison") -> list[Row]:
    """For each method what its largest budget reached, and what that costs from scratch; nothing where that was not measured."""
    from recert.report.gains import gain_over

    rows: list[Row] = []
    for name, curve in compared.methods.items():
        scratch = compared.baseline("scratch", curve)
        passes, radius, inputs = curve.passes[-1], curve.radii[-1], len(curve.results[-1])
        gain = gain_over(passes, radius, scratch.passes, scratch.radii)
        needed = None if gain is None else gain.needed
        price = curve.seconds_per_pass * inputs
        rows.append({
            "change": change, "method": name, "ACR": radius, "passes per input": passes, "passes from scratch": needed,
            "times fewer": None if gain is None else gain.factor, "seconds": passes * price,
            "seconds from scratch": None if needed is None else needed * price,
            "at least": gain is not None and gain.at_least,
        })  # fmt: skip
    return rows


def show_answer(answer: list[Row], cache: "Cache", data: "Dataset", model: str) -> None:
    """A row for each change, under that of the original."""
    assert data.labels is not None
    from recert.noise import input_digest

    original = cache.about([input_digest(x) for x in data.inputs]).certificates
    first = {"change": "original", "ACR": original.average_certified_radius(data.labels),
             "passes per input": original.mean_forward_passes,
             "seconds": float(original.seconds.sum())}  # fmt: skip
    several = len({row["method"] for row in answer}) > 1
    marks = dict.fromkeys(("passes from scratch", "times fewer", "seconds from scratch"), "> ")
    shown = []
    for row in (first, *answer):
        texts = {name: cell(name, row.get(name)) for name in answer[0] if name != "at least"}
        if row.get("at least"):
            texts |= {name: mark + texts[name] for name, mark in marks.items()}
        shown.append(without(texts, () if several else ("method",)))
    show(shown, Format.TABLE, title=f"{model}: passes and seconds for the same average certified radius (ACR)")
    if any(row["at least"] for row in answer):
        say("> : the baseline's largest budget reaches less; give it more with --baseline-budgets")
    if any(row["times fewer"] is None for row in answer):
        say("- : the baseline's smallest budget reaches more; give it less with --baseline-budgets")


def without(row: Row, names: Collection[str]) -> Row:
    """The row without these columns."""
    return {name: value for name, value in row.items() if name not in names}


def sweep_rows(change: str, compared: "Comparison", data: "Dataset", radii: list[float]) -> list[Row]:
    """A row for each budget of each method and baseline."""
    rows = []
    for curve in compared.curves:
        for budget, result, seconds in zip(curve.budgets, curve.results, curve.seconds, strict=True):
            numbers = summary("", result, data.labels, radii)
            numbers = without(numbers, ("model", "method"))
            about = {"change": change, "method": curve.name, "certificate": curve.certificate, "samples": budget}
            rows.append({**about, **numbers, "seconds": seconds * len(result)})
    return rows


def speedup_rows(compared: "Comparison") -> list[dict[str, str]]:
    """One row per method: speed-ups over both baselines, by both definitions, or the reason why there is none."""
    from recert.comparison import BASELINES

    return [
        {
            "method": name,
            "certificate": curve.certificate,
            **{
                f"over {base}, {kind}": str(value)
                for base in BASELINES
                for kind, value in curve.speedups(compared.baseline(base, curve)).items()
            },
        }
        for name, curve in compared.methods.items()
    ]
