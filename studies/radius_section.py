"""The section about decisions at a radius."""

from typing import Any

from studies.catalogue import NETWORKS, SIGMAS
from studies.results import Result
from studies.rules_at_radius import BETA, CHOOSING, COHEN_CHOOSING, KINDS
from studies.tables import NETWORK_NAMES, NOT_RUN, Found, number, table

SHOWN = ("0.25", "0.5")
"""Radii in the tables; the files have more."""
AT_MOST = (1_000, 4_000)
"""Passes of one input at most, of those in the files."""
NAMES = {"int8": "int8 weights and activations"}
LEGEND = f"""Each cell: the share of images certified at the radius, and in brackets mean forward passes on the changed network, those that choose a class
included. *Cohen*: Clopper-Pearson from n votes, after {COHEN_CHOOSING} that choose. *Horváth*: three stages of new votes (100, 1,000, the rest), beta = {BETA:g}.
*Voráček*: betting, as in the published code. *scratch*: `certify(at=...)`. These have {CHOOSING} votes that choose, and as many others as there are.
*cache*: `recertify(at=...)` with at most so many passes for an input.
"""
EQUAL = """The same share by plan: how many passes `recertify(plan="accuracy:R")` takes for the share that `recertify(at=R)` reaches, along straight lines between its
budgets, and the ratio of both (below 1: one by one is cheaper). A dash: no budget of the plan up to 1,000 reaches it.
"""


def at_radius(found: Found) -> str:
    """What each way certifies, and at equal share what it costs."""
    ran = sorted(found.results, key=lambda r: (r["settings"]["network"], str(r["settings"]["sigma"]), r["flips"]))
    if not ran:
        return f"{NOT_RUN}\n"
    return f"{LEGEND}\n{_shares(ran)}\n{EQUAL}\n{_equal_shares(ran)}\n{_not_run(found)}"


def _name(result: Result) -> list[str]:
    s = result["settings"]
    return [
        NETWORK_NAMES.get(s["network"], s["network"]), s["sigma"] if isinstance(s["sigma"], str) else f"{s['sigma']:g}", NAMES.get(s["approximation"], s["approximation"]), f"{result['flips']:.2%}"
    ]  # fmt: skip


def _shares(ran: list[Result]) -> str:
    rows = []
    for result in ran:
        for radius in (r for r in SHOWN if r in result["radii"]):
            ways = result["radii"][radius]
            cohen = sorted(
                (name for name in ways if name.startswith("Cohen")), key=lambda n: ways[n]["passes"], reverse=True
            )
            points = [ways[name] for name in (*cohen[:1], *cohen[-1:], "Horvath", "Voracek")]
            points += [_last(ways[f"scratch {kind}"]) for kind in KINDS]
            points += [_at_most(result, radius, kind, AT_MOST[-1]) for kind in KINDS]
            rows.append([*_name(result), radius, *map(_point, points), str(result["settings"]["images"])])
    headers = (
        "network", "sigma", "change", "flips", "radius", "Cohen, all votes", "Cohen, n = 1,000", "Horváth", "Voráček", "scratch, one-sided",
        "scratch, two-sided", f"cache, one-sided, {AT_MOST[-1]:,}", f"cache, two-sided, {AT_MOST[-1]:,}", "images",
    )  # fmt: skip
    return table(headers, rows)


def _equal_shares(ran: list[Result]) -> str:
    rows = []
    for result in ran:
        for radius in (r for r in SHOWN if r in result["radii"]):
            cells = []
            for kind in KINDS:
                for most in AT_MOST:
                    point = _at_most(result, radius, kind, most)
                    planned = passes_for(point["share"], result["radii"][radius][f"plan {kind}"])
                    ratio = point["passes"] / planned if planned else None
                    cells += [_point(point), number(planned, ".0f", "—"), number(ratio, ".2f", "—")]
            rows.append([*_name(result), radius, *cells])
    points = [f"{kind}, at most {most:,}" for kind in KINDS for most in AT_MOST]
    # Every heading is its own: pages and CSV files tell columns by them.
    headers = [heading for point in points for heading in (point, f"plan ({point})", f"ratio ({point})")]
    return table(("network", "sigma", "change", "flips", "radius", *headers), rows)


def _not_run(found: Found) -> str:
    ran = {(r["settings"]["network"], r["settings"]["sigma"]) for r in found.results}
    missing = [f"{NETWORK_NAMES[n]} at sigma {s:g}" for n in NETWORKS for s in SIGMAS if (n, s) not in ran]
    return f"{NOT_RUN.capitalize()}: {', '.join(missing)}.\n" if missing else ""


def _at_most(result: Result, radius: str, kind: str, most: int) -> dict[str, float]:
    """Of the curve of decisions from the cache, the point with so many passes at most, or with all that the cache has."""
    sizes = result["settings"]["most"]
    place = sizes.index(most) if most in sizes else len(sizes) - 1
    return _at(result["radii"][radius][f"cache {kind}"], place)


def _last(curve: dict[str, list[float]]) -> dict[str, float]:
    return _at(curve, -1)


def _at(curve: dict[str, list[float]], place: int) -> dict[str, float]:
    return {key: values[place] for key, values in curve.items()}


def _point(point: dict[str, Any]) -> str:
    return f"{point['share']:.1%} ({point['passes']:,.0f})"


def passes_for(share: float, curve: dict[str, list[float]]) -> float | None:
    """Forward passes with which a curve reaches a share, along straight lines between its points; None if it does not.

    A point that certifies fewer than one with fewer passes is passed over.

    >>> passes_for(0.5, {"share": [0.4, 0.6, 0.58], "passes": [10.0, 20.0, 30.0]})
    15.0
    >>> passes_for(0.7, {"share": [0.4, 0.6], "passes": [10.0, 20.0]}) is None
    True
    """
    points = sorted(zip(curve["passes"], curve["share"], strict=True))
    before: tuple[float, float] | None = None
    for passes, reached in points:
        if reached >= share - 1e-9:
            if before is None or reached <= before[1]:
                return passes
            return before[0] + (passes - before[0]) * (share - before[1]) / (reached - before[1])
        if before is None or reached > before[1]:
            before = passes, reached
    return None
