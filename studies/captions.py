"""Figures with a caption and a text that says what is seen, for whoever cannot see it. Both are made from the results."""

from typing import Any

from recert.metrics import cost_at
from studies.cost_sections import COHEN
from studies.figures import panels_by_figure
from studies.request import noise_words
from studies.results import Result
from studies.tables import CHANGE_NAMES, NETWORK_NAMES, Found


def picture(figure: str, found: Found) -> str:
    """A figure in Markdown; nothing if the results do not give it."""
    said = _said(figure, found)
    if said is None:
        return ""
    caption, seen = said
    path = f"../{found.folder.name}/figures/{figure}.svg"
    return f"\n[![{seen}]({path})]({path})\n\n*{caption}*\n"  # on a phone it is opened to be read


def _said(figure: str, found: Found) -> tuple[str, str] | None:
    """A caption, and what is seen."""
    if found.study == "distribution" and found.results:
        return _distribution(found)
    if found.study == "binomial" and found.results:
        return _binomial(found.results[0])
    group = panels_by_figure(found).get(figure.removeprefix(f"{found.study}-"))
    return _costs(group) if group else None


def _costs(group: list[Result]) -> tuple[str, str]:
    s = group[0]["settings"]
    network = NETWORK_NAMES.get(s["network"], s["network"])
    where = f"{network}, {noise_words(s['sigma'])}, n = {s['samples']:,}, {s['images']} images"
    changes = [CHANGE_NAMES.get(each["settings"]["approximation"], each["settings"]["approximation"]) for each in group]
    seen = "; ".join(f"{change}: {_saving(result['curves'])}" for change, result in zip(changes, group, strict=True))
    sides = " On the left one-sided certificates, on the right two-sided ones." if len(group) == 1 else ""
    return (
        f"Average certified radius against the forward passes per image that it takes; further up and to the left is better. {where}: {_listed(changes)}.{sides}",
        f"Curves of the average certified radius against forward passes, on a logarithmic scale. {seen}.",
    )


def _saving(curves: dict[str, Any]) -> str:
    """What the largest radius of certifying anew costs by recert."""
    anew, ours = curves[COHEN], curves["auto one-sided"]
    radius, passes = anew["ACR"][-1], anew["passes"][-1]
    needed = cost_at(radius, ours["passes"], ours["ACR"])
    reached = f"certifying anew reaches {radius:.3f} with {passes:,.0f} passes"
    if needed is None:
        return f"{reached}, recert ends at {max(ours['ACR']):.3f} with {ours['passes'][-1]:,.0f}"
    few = "at most " if radius < min(ours["ACR"]) else ""
    return f"{reached}, recert with {few}{needed:,.0f}"


def _distribution(found: Found) -> tuple[str, str]:
    largest = found.results[0]["settings"]["network"]
    shares = [
        f"{result['shares'][-1]:.0%} at {noise_words(result['settings']['sigma'])}"
        for result in sorted(found.results, key=lambda r: str(r["settings"]["sigma"]))
        if result["settings"]["network"] == largest
    ]
    name = NETWORK_NAMES.get(largest, largest)
    start = found.results[0]["edges"][-2]
    return (
        "How sure the original is: the lower bound on the probability of its class, over the inputs on which it exceeds 1/2.",
        f"Histograms, one for each sigma: flat, with one high bar at the right end. That bar, bounds above {start:g}, holds of {name}'s inputs {_listed(shares)}.",
    )


def _binomial(result: Result) -> tuple[str, str]:
    width, samples = next(iter(result["samples"]["clopper-pearson"].items()))
    return (
        "Samples that three confidence intervals need for a given width, against the probability.",
        f"Arches that are highest at a probability of 1/2 and fall to nothing at 0 and 1; the three intervals look alike. For a width of {float(width):.1%} "
        f"the highest point is {max(samples):,} samples.",
    )


def _listed(names: list[str]) -> str:
    """
    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
