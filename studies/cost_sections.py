"""Sections about cost: speedup, headline, samples, large-np."""

from typing import Any

from recert.metrics import cost_at
from studies.catalogue import APPROXIMATIONS, NETWORKS, QUANTISATIONS
from studies.request import noise_words
from studies.results import Result
from studies.tables import (
    IN_PAPER,
    NETWORK_NAMES,
    NOT_RUN,
    PAPERS_OWN,
    Found,
    cells_of,
    describe_numerics,
    in_paper,
    number,
    paper,
    reported,
    table,
)

COHEN, GIVEN, AUTHORS = "scratch one-sided", "scratch-cached one-sided", "scratch-authors one-sided"
HEADERS = (
    "network", "sigma", "change", "paper: IRS", "irs", "irs, authors' baseline", "series", "paired", "auto", "auto ÷ irs",
    "auto, given class", "auto two-sided", "auto two-sided, Algorithm 1", "÷ irs", "images", "numerics",
)  # fmt: skip
PAPER_IMAGES = 500
METHODS = ("irs", "series", "paired", "auto")
LEGEND = """Speed-up by area over Cohen's baseline in forward passes, all one-sided and on the same votes, unless said
otherwise. *authors' baseline*: with n_p / 100 selection votes and only as many budgets as the methods have, as in the paper.
*given class*: over a baseline that is given the cached class and the same skips. *auto two-sided*: the library's default, with
the runner-up, over Cohen's baseline with the runner-up, and over Cohen's Algorithm 1, which has none. *>*: the smallest budget reaches more than
the baseline's largest; the ratio of the two. *<*: the largest reaches less than the baseline's smallest. A dash: no number.
"""


def speedup(result: Result | None, ours: str, baseline: str, kind: str = "by area") -> float | None:
    """A speed-up; None if it was not run, or has no answer."""
    found: dict[str, Any] = (result or {"speedups": {}})["speedups"].get(f"{ours} over {baseline}", {}).get(kind, {})
    return found.get("value")


def speedup_text(result: Result | None, ours: str, baseline: str) -> str:
    """A speed-up as text; a bound on it where one curve lies beyond the other."""
    value = speedup(result, ours, baseline)
    if result is None or value is not None:
        return number(value, ".2f")
    mine, theirs = result["curves"].get(ours), result["curves"].get(baseline)
    if mine and theirs and min(mine["ACR"]) >= max(theirs["ACR"]) > 0:
        return f"> {max(theirs['passes']) / min(mine['passes']):.1f}"
    if mine and theirs and min(theirs["ACR"]) >= max(mine["ACR"]) > 0:
        return f"< {min(theirs['passes']) / max(mine['passes']):.2f}"
    return "—"


def speedup_row(cells: dict[str, Any], result: Result | None, network: str, sigma: str, change: str) -> list[str]:
    if network == PAPERS_OWN:
        published = reported(cells, sigma, IN_PAPER.get(change, change), form=".2f")
        return [NETWORK_NAMES[network], sigma, change, published, *["—"] * (len(HEADERS) - 6), "", ""]
    missing = NOT_RUN if result is None else "—"
    irs, auto, default = (speedup(result, m, COHEN) for m in ("irs one-sided", "auto one-sided", "auto two-sided"))
    authors = speedup(result, "irs one-sided", AUTHORS, "by area, baseline as in the paper")
    return [
        NETWORK_NAMES.get(network, network), sigma, change, reported(cells, sigma, IN_PAPER.get(change, change), form=".2f"),
        speedup_text(result, "irs one-sided", COHEN), number(authors, ".2f", missing),
        *(speedup_text(result, f"{method} one-sided", COHEN) for method in ("series", "paired", "auto")),
        number(auto / irs if auto and irs else None, ".2f", missing), speedup_text(result, "auto one-sided", GIVEN),
        speedup_text(result, "auto two-sided", "scratch two-sided"), speedup_text(result, "auto two-sided", COHEN),
        number(default / irs if default and irs else None, ".2f", missing),
        *((str(result["settings"]["images"]), describe_numerics(result["changed"]["numerics"])) if result else ("", "")),
    ]  # fmt: skip


def speedups(found: Found) -> str:
    reference = paper("speedup")
    cells = cells_of(found, NETWORKS, APPROXIMATIONS) + cells_of(
        Found("none", found.folder), [PAPERS_OWN], APPROXIMATIONS[:6]
    )
    rows = [speedup_row(reference["cells"].get(in_paper(n), {}), found.get(n, s, c), n, s, c) for n, s, c in cells]
    return f"{reference['table']}.\n\n{LEGEND}\n{table(HEADERS, rows)}\n{costs(found)}"


def costs(found: Found) -> str:
    """What the largest budgets bought, in forward passes and in seconds."""
    rows = []
    for result in found.results:
        s, price = result["settings"], result["changed"]["seconds per pass"]
        row = [NETWORK_NAMES.get(s["network"], s["network"]), str(s["sigma"]), s["approximation"], f"{s['samples']:,}"]
        row += [number(result["original"]["ACR"]["one-sided"], ".4f"), number(1e6 * price, ".2f")]
        for name in ("irs one-sided", "auto one-sided", "auto two-sided", COHEN):
            curve, passes = result["curves"][name], result["curves"][name]["passes"][-1]
            computing = result["computing seconds"][name] / s["images"]
            row.append(f"{curve['ACR'][-1]:.4f} / {passes:,.0f} / {1e3 * price * passes:.2f} + {1e3 * computing:.2f}")
        rows.append([*row, str(s["images"]), describe_numerics(result["changed"]["numerics"])])
    if not rows:
        return ""
    headers = (
        "network", "sigma", "change", "n", "ACR of the original", "µs per pass", "irs", "auto", "auto two-sided", "Cohen",
        "images", "numerics",
    )  # fmt: skip
    return (
        "At the largest budget of each: ACR / forward passes per image / milliseconds per image, of forward passes + of planning and "
        f"bounds (these on the CPU that made the tables).\n\n{table(headers, rows)}"
    )


def headline(found: Found) -> str:
    reference = paper("headline")
    cells = cells_of(found, ["cifar-resnet110"], ["int8-twin"])
    wanted = [(n, s, c) for n, s, c in cells if s == "1.0" or found.get(n, s, c)]
    rows = []
    for n, s, c in wanted:
        published = {"1.0": {"int8": reference["cells"].get(in_paper(n), {}).get("speedup")}}
        rows.append(speedup_row(published, found.get(n, s, c), n, s, c))
    imagenet = reference["cells"][PAPERS_OWN]
    rows.append(speedup_row({"1.0": {"int8": imagenet["speedup"]}}, None, PAPERS_OWN, "1.0", "int8-twin"))
    hours = reference["cells"]["cifar-resnet110"]
    return (
        f"{reference['table']}: {hours['baseline hours']} hours to {hours['IRS hours']} hours at one ACR. Our numbers are means over the whole "
        f"range of ACR.\n\n{LEGEND}\n{table(HEADERS, rows)}\n{''.join(map(_seconds, found.results))}{costs(found)}"
    )


def _seconds(result: Result) -> str:
    """What the same ACR costs by each method, in seconds of forward passes."""
    curves, price, cohen = result["curves"], result["changed"]["seconds per pass"], result["curves"][COHEN]
    shares = [f"{budget / result['settings']['samples']:.0%}" for budget in cohen["budgets"]]
    rows = []
    for share, passes, radius in zip(shares, cohen["passes"], cohen["ACR"], strict=True):
        ours = [_seconds_at(curves[f"{method} one-sided"], radius, price) for method in METHODS]
        rows.append([share, f"{radius:.4f}", f"{PAPER_IMAGES * price * passes:,.0f}", *ours])
    return (
        f"Seconds of forward passes for {PAPER_IMAGES} images, {1e6 * price:.1f} µs each ({describe_numerics(result['changed']['numerics'])}), to reach what "
        "Cohen's baseline reaches with n_p votes. *under*: the smallest budget that was run reaches more. A dash: out of reach. A cache of n votes "
        "knows no more than n votes do, and flips take of it, so that with n_p near n / 2 certifying anew is as good.\n\n"
        f"{table(('n_p', 'ACR', 'Cohen', *METHODS), rows)}\n"
    )


def _seconds_at(curve: dict[str, Any], radius: float, price: float) -> str:
    passes = cost_at(radius, curve["passes"], curve["ACR"])
    if passes is None:
        return "—"
    return f"{'under ' if radius < min(curve['ACR']) else ''}{PAPER_IMAGES * price * passes:,.0f}"


def samples(found: Found) -> str:
    reference = paper("samples")
    rows = []
    for n in (10_000, 100_000, 1_000_000):
        for network, sigma, change in cells_of(found, ["cifar-resnet20"], QUANTISATIONS):
            result = found.get(network, sigma, change, n)
            rows.append([f"{n:,}", *speedup_row(reference["cells"][str(n)], result, network, sigma, change)])
    for result in found.results:
        s = result["settings"]
        if s["samples"] not in (10_000, 100_000, 1_000_000):
            rows.append(
                [f"{s['samples']:,}", *speedup_row({}, result, s["network"], str(s["sigma"]), s["approximation"])]
            )
    return f"{reference['table']}.\n\n{LEGEND}\n{table(('n', *HEADERS), rows)}\n{costs(found)}"


def large_np(found: Found) -> str:
    reference = paper("large-np")
    text = (
        f"{reference['table']}: IRS is ahead of the baseline up to n_p = {reference['irs gains up to']:.0%} of n.\n\n"
    )
    if not found.results:
        return f"{text}ResNet-20, sigma 1.0: {NOT_RUN}.\n"
    for result in found.results:
        s, curves = result["settings"], result["curves"]
        rows = [
            [f"{budget / s['samples']:.0%}", *(_at(curves[name], budget) for name in ("irs one-sided", "series one-sided", "auto one-sided", "auto two-sided", COHEN, GIVEN))]
            for budget in s["budgets"]
        ]  # fmt: skip
        name = NETWORK_NAMES.get(s["network"], s["network"])
        text += f"{name}, {noise_words(s['sigma'])}, {s['approximation']}, n = {s['samples']:,}, {s['images']} images, {describe_numerics(result['changed']['numerics'])}; ACR (forward passes per image):\n\n"
        text += table(("n_p", "irs", "series", "auto", "auto two-sided", "Cohen", "given class"), rows) + "\n"
    return text + costs(found)


def _at(curve: dict[str, Any], budget: int) -> str:
    if budget not in curve["budgets"]:
        return "—"
    place = curve["budgets"].index(budget)
    return f"{curve['ACR'][place]:.4f} ({curve['passes'][place]:,.0f})"
