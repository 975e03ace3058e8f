"""What came out, in a few lines at the top of the page, from the same JSON files."""

from pathlib import Path

from studies.catalogue import APPROXIMATIONS
from studies.cost_sections import COHEN, speedup
from studies.results import Result
from studies.tables import BESIDE, IN_PAPER, NETWORK_NAMES, NOT_RUN, Found, number, paper

OURS = ("series", "paired", "joint", "auto")
NETWORK = "cifar-resnet110"


def in_short(results: Path) -> str:
    """The speed-ups of the largest network, the headline, and the checks of soundness."""
    found = Found("speedup", results)
    lines = [
        *(_saved(found, sigma) for sigma in ("1.0", "0.5", "0.25")),
        _default(found, "1.0"),
        "With a small sigma many inputs have nearly unanimous votes, and no method can gain there. To exclude that the changed network is wrong on a share of "
        "7 / m takes m of its own votes, whatever the cache holds.",
        _headline(Found("headline", results)),
        *_imagenet(found),
        *_checks(results),
    ]
    start = f"For {NETWORK_NAMES[NETWORK]} with 10,000 cached votes and one-sided certificates, as in the paper, from the least to the most of {len(APPROXIMATIONS)} changes of the network:"
    return f"## In short\n\n{start}\n\n" + "\n".join(f"- {line}" for line in lines) + "\n"


def _saved(found: Found, sigma: str) -> str:
    changes = [change for change in APPROXIMATIONS if found.get(NETWORK, sigma, change)]
    results = [found.get(NETWORK, sigma, change) for change in changes]
    published = paper("speedup")["cells"][NETWORK][sigma]
    auto, irs = (_range([speedup(r, f"{method} one-sided", COHEN) for r in results]) for method in ("auto", "irs"))
    if NOT_RUN in (auto, irs):
        return f"Sigma {sigma}: {NOT_RUN}."
    return (
        f"**Sigma {sigma}: {auto} times fewer forward passes than certifying anew.** The paper's method: {irs} run here, "
        f"{_range([published[IN_PAPER.get(change, change)] for change in changes])} as published."
    )


def _default(found: Found, sigma: str) -> str:
    results = [found.get(NETWORK, sigma, change) for change in APPROXIMATIONS]
    two, one = (
        _range([speedup(r, "auto two-sided", baseline) for r in results]) for baseline in ("scratch two-sided", COHEN)
    )
    return (
        f"The library's default is two-sided: at sigma {sigma} it takes {two} times fewer passes than "
        f"certifying anew two-sided, and {one} times fewer than Cohen's Algorithm 1."
    )


def _range(values: list[float | None]) -> str:
    """The least and the most of those there are.

    >>> _range([2.0, None, 1.25]), _range([])
    ('1.25 to 2.00', 'not run')
    """
    there = [value for value in values if value is not None]
    return f"{min(there):.2f} to {max(there):.2f}" if there else NOT_RUN


def _headline(found: Found) -> str:
    result: Result | None = found.get(NETWORK, "1.0", "int8-twin")
    if result is None:
        return f"The paper's headline (int8, n = 100,000): {NOT_RUN}."
    published = paper("headline")["cells"][NETWORK]["speedup"]
    irs, auto = (speedup(result, f"{method} one-sided", COHEN) for method in ("irs", "auto"))
    more = " (more passes than certifying anew)" if irs is not None and irs < 1 else ""
    return (
        f"The paper's headline is {published} times fewer for int8 with 100,000 cached votes. Its code [quantised nothing](#where-do-ours-differ-and-why). With a network "
        f"that is really quantised, the paper's method gives {number(irs, '.2f', '—')}{more}, and recert {number(auto, '.2f', '—')} ({result['settings']['images']} images)."
    )


def _imagenet(found: Found) -> list[str]:
    """A line for each network of ImageNet's classes and sigma that was run."""
    lines = []
    for network in BESIDE:
        for sigma in sorted({r["settings"]["sigma"] for r in found.results if r["settings"]["network"] == network}):
            results = [found.get(network, str(sigma), change) for change in APPROXIMATIONS]
            auto, irs = (
                _range([speedup(r, f"{method} one-sided", COHEN) for r in results]) for method in ("auto", "irs")
            )
            if NOT_RUN not in (auto, irs):
                lines.append(
                    f"{NETWORK_NAMES[network]}, sigma {sigma}: {auto} times fewer passes; the paper's method {irs}."
                )
    return lines


def _checks(results: Path) -> list[str]:
    """How often bounds of our methods were too high, from both studies of that."""
    lines = []
    for study, where in (
        ("coverage", "a hundred caches of the same images"),
        ("soundness", "votes drawn with another seed"),
    ):
        found = Found(study, results)
        checks = [result["methods"][method] for result in found.results for method in OURS]
        if not checks:
            lines.append(f"Bounds against independent votes ({where}): {NOT_RUN}.")
            continue
        claims, above, expected = (
            sum(each[key] for each in checks) for key in ("claims", "above the estimate", "expected at most")
        )
        votes = found.results[0]["settings"]["independent_votes"]
        lines.append(
            f"**{above} of {claims:,} bounds were too high; up to {expected:.0f} expected** ({where}). Too high: above the share of {votes:,} independent votes. Expected: "
            "alpha times the number of bounds."
        )
    return lines
