"""What came out, in a few lines at the top of the page, from the same JSON files."""

from pathlib import Path

from studies.catalogue import APPROXIMATIONS, NETWORKS, SIGMAS
from studies.cost_sections import COHEN, speedup
from studies.results import Result
from studies.tables import IN_PAPER, NETWORK_NAMES, NOT_RUN, Found, number, paper, table

OURS = ("series", "paired", "joint", "auto")
HEADERS = ("network", "sigma", "changes", "paper: IRS", "irs", "auto", "auto ÷ irs", "auto two-sided")


def in_short(results: Path) -> str:
    """The smallest and the largest speed-up of each network and sigma, the headline, and the checks of soundness."""
    found = Found("speedup", results)
    rows = [_ranges(found, network, str(sigma)) for network in NETWORKS for sigma in SIGMAS]
    return (
        "## In short\n\nTimes fewer forward passes than certifying from scratch by Cohen et al., at equal average certified radius, "
        "n = 10,000: the least and the most over all changes of a network (fp16, bf16, int8, pruning by 5, 10, 20%, rounded weights). "
        "*irs* is the paper's method, *auto* the library's. A small sigma leaves more inputs with p_A near 1, on which no method can gain: "
        "that the changed network is wrong on a share of 7 / m takes m votes of it to exclude, whatever the cache holds.\n\n"
        f"{table(HEADERS, rows)}\n"
        f"{_headline(Found('headline', results))}\n{_checks(results)}"
    )


def _ranges(found: Found, network: str, sigma: str) -> list[str]:
    published = paper("speedup")["cells"][network][sigma]
    changes = [(change, r) for change in APPROXIMATIONS if (r := found.get(network, sigma, change))]
    irs, auto = ([speedup(result, f"{method} one-sided", COHEN) for _, result in changes] for method in ("irs", "auto"))
    ratios = [a / i if a and i else None for a, i in zip(auto, irs, strict=True)]
    default = [speedup(result, "auto two-sided", "scratch two-sided") for _, result in changes]
    reported = [published[IN_PAPER.get(change, change)] for change, _ in changes]
    return [
        NETWORK_NAMES[network], sigma, str(len(changes)), *map(_range, (reported, irs, auto, ratios, default)),
    ]  # fmt: skip


def _range(values: list[float | None]) -> str:
    """The least and the most of those there are.

    >>> _range([2.0, None, 1.25]), _range([])
    ('1.25 to 2.00', 'not run')
    """
    there = [value for value in values if value is not None]
    return f"{min(there):.2f} to {max(there):.2f}" if there else NOT_RUN


def _headline(found: Found) -> str:
    result: Result | None = found.get("cifar-resnet110", "1.0", "int8-twin")
    if result is None:
        return f"The paper's headline (int8, n = 100,000): {NOT_RUN}.\n"
    published = paper("headline")["cells"]["cifar-resnet110"]["speedup"]
    ours = {m: number(speedup(result, f"{m} one-sided", COHEN), ".2f", "—") for m in ("irs", "paired", "auto")}
    return (
        f"The paper's headline is a speed-up of {published} for int8 with n = 100,000. Its code quantised nothing; with a network that is really "
        f"quantised irs has {ours['irs']}, paired {ours['paired']} and auto {ours['auto']} (ResNet-110, sigma 1, "
        f"{result['settings']['images']} images).\n"
    )


def _checks(results: Path) -> str:
    """How often bounds of our methods were too high, from both studies of that."""
    text = ""
    for study, against in (("soundness", "drawn with another seed"), ("coverage", "that other caches have")):
        found = Found(study, results)
        checks = [result["methods"][method] for result in found.results for method in OURS]
        if not checks:
            text += f"Bounds against independent votes {against}: {NOT_RUN}.\n\n"
            continue
        claims, above, upper = (
            sum(each[key] for each in checks) for key in ("claims", "above the estimate", "above the upper bound")
        )
        text += (
            f"Of {claims:,} bounds by {', '.join(OURS)} that were checked against {found.results[0]['settings']['independent_votes']:,} independent "
            f"votes each ({against}), {above} lay above the share of these votes and {upper} above the upper bound on it; alpha times their number is "
            f"{sum(each['expected at most'] for each in checks):.1f}.\n\n"
        )
    return text.rstrip() + "\n"
