"""Sections about disparity, gamma, distribution, accuracy, binomial intervals and soundness."""

from studies.catalogue import APPROXIMATIONS, NETWORKS
from studies.results import Result
from studies.tables import (
    BESIDE,
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


def _name(network: str) -> str:
    return NETWORK_NAMES.get(network, network)


def _missing(network: str) -> str:
    """What stands where there is no result: the paper's own network is not one that could be run."""
    return "—" if network == PAPERS_OWN else NOT_RUN


def _images(result: Result | None) -> list[str]:
    return (
        ["", ""]
        if result is None
        else [str(result["settings"]["images"]), describe_numerics(result["changed"]["numerics"])]
    )


def disparity(found: Found) -> str:
    reference, rows = paper("disparity"), []
    cells = cells_of(found, NETWORKS, APPROXIMATIONS) + cells_of(
        Found("none", found.folder), [PAPERS_OWN], APPROXIMATIONS[:6]
    )
    for n, s, c in cells:
        r = found.get(n, s, c) or {}
        published = reported(reference["cells"], in_paper(n), s, IN_PAPER.get(c, c))
        values = [
            number(r.get(key), form, _missing(n))
            for key, form in (("zeta", ".4f"), ("share", ".3%"), ("lost", ".3%"), ("gained", ".3%"))
        ]
        rows.append([_name(n), s, c, published, *values, *_images(r or None)])
    headers = (
        "network",
        "sigma",
        "change",
        "paper: zeta",
        "zeta",
        "share that differs",
        "lost",
        "gained",
        "images",
        "numerics",
    )
    first = reference["first table"]
    ran = [n for n in BESIDE if found.get(n, "1.0", "int8-twin")]
    small = [
        [_name(n), c, reported(first["cells"], in_paper(n), IN_PAPER.get(c, c)), number((found.get(n, "1.0", c) or {}).get("zeta"), ".4f", _missing(n))]
        for n in ("cifar-resnet110", *(ran or [PAPERS_OWN])) for c in ("int8-twin", "prune:0.1")
    ]  # fmt: skip
    return (
        f"{reference['table']}. zeta is the mean over the images of the upper bound at alpha_zeta = .001; with no differences at all "
        "it is .0069 for 1,000 noises, so a zeta near that says only that few noises were looked at. The paper's mean counts 0 for inputs that are "
        "classified wrongly: to compare, divide it by the share of those that are right (a published .006 of a network with 67% is .009). *lost* and *gained*: votes taken "
        "from, and given to, the original's most frequent class; they nearly balance, which is what paired and joint make use of.\n\n"
        f"{table(headers, rows)}\n{first['table']}.\n\n{table(('network', 'change', 'paper', 'ours'), small)}"
    )


def gamma(found: Found) -> str:
    reference, text = paper("gamma"), ""
    gammas = list(reference["cells"]["cifar-resnet20"])
    rows = []
    for n, s, c in cells_of(found, NETWORKS, ["int8-twin"]):
        r = found.get(n, s, c)
        ours = [number(r["ACR"][g][-1], ".4f") if r else NOT_RUN for g in gammas]
        rows.append(
            [
                _name(n),
                s,
                c,
                *ours,
                *(["", ""] if r is None else [f"{r['settings']['budgets'][-1]:,}", *_images(r)[:1]]),
            ]
        )
    rows += [
        [_name(n), "—", "paper: int8", *(reported(reference["cells"], n, g, form=".3f") for g in gammas), "—", "—"]
        for n in (*NETWORKS, PAPERS_OWN)
    ]
    text += f"{reference['table']}. Ours at the largest n_p.\n\n" + table(
        ("network", "sigma", "change", *gammas, "n_p", "images"), rows
    )
    above, rows = reference["above"], []
    ran = {n: [s for m, s, c in cells_of(found, [], []) if m == n and c == "int8-twin"] for n in BESIDE}
    for n in (*NETWORKS, PAPERS_OWN, *BESIDE):
        gamma = "0.995" if in_paper(n) == PAPERS_OWN else "0.99"
        for s in ran.get(n) or above["cells"].get(n, {}):
            r = found.get(n, s, "int8-twin")
            share = number(r["share above"][gamma] if r else None, ".3f", _missing(n))
            rows.append([_name(n), s, gamma, reported(above["cells"], in_paper(n), s, form=".3f"), share])
    return f"{text}\n{above['table']}.\n\n" + table(("network", "sigma", "gamma", "paper", "ours"), rows)


def gamma_as_published(found: Found) -> str:
    """Table 4 as the authors' code makes it."""
    published = paper("gamma")["cells"]
    gammas = list(published["cifar-resnet20"])
    rows = [
        [_name(n), "paper: int8", "", "", *(reported(published, n, g, form=".3f") for g in gammas), "100"]
        for n in (*NETWORKS, PAPERS_OWN)
    ]
    for r in found.results:
        s = r["settings"]
        means = [number(sum(r["ACR"][g]) / len(r["ACR"][g]), ".4f") for g in gammas]
        spent = f"{s['budgets'][0]:,} to {s['budgets'][-1]:,}"
        rows.append([_name(s["network"]), s["approximation"], f"{s['samples']:,}", spent, *means, str(s["images"])])
    return (
        "The paper names neither sigma nor n_p. Its code takes sigma .5, 100 images and the mean over ten n_p, 1% to 10% of n. The columns are thresholds gamma, with the "
        "ACR of irs at each. The authors' int8 quantised nothing; ours does, which costs some of the radius.\n\n"
        + table(("network", "change", "n", "n_p", *gammas, "images"), rows)
    )


def distribution(found: Found) -> str:
    reference, rows = paper("distribution"), []
    for n, s, c in cells_of(found, NETWORKS, ["original"]):
        r = found.get(n, s, c)
        published = reference["share below 0.95"].get(s, "—") if n == "cifar-resnet110" else "—"
        values = [number(r["below 0.95 of those"], ".1%"), number(r["above half"], ".1%")] if r else [NOT_RUN, NOT_RUN]
        rows.append([_name(n), s, published, *values, str(r["settings"]["images"]) if r else ""])
    headers = ("network", "sigma", "paper: share below .95", "share below .95", "inputs with p_A above 1/2", "images")
    return f"{reference['table']}. Shares are of the inputs whose lower bound on p_A exceeds 1/2.\n\n{table(headers, rows)}"


def accuracy(found: Found) -> str:
    reference, text = paper("accuracy"), ""
    changes = ("original", *APPROXIMATIONS)
    for kind in ("standard", "smoothed"):
        rows = []
        for n in dict.fromkeys([*NETWORKS, *found.all("network")]):
            for s in dict.fromkeys(["0.25", "0.5", "1.0", *map(str, sorted(found.all("sigma"), key=str))]):
                results = [found.get(n, s, c) for c in changes]
                published = [
                    reported(reference[kind]["cells"], in_paper(n), s, IN_PAPER.get(c, c), form=".1f") for c in changes
                ]
                ours = [number(100 * r[kind] if r else None, ".1f") for r in results]
                if any(results) or n in NETWORKS:
                    rows.append([_name(n), s, *(f"{b} ({a})" for a, b in zip(published, ours, strict=True))])
        for s, cells in reference[kind]["cells"][PAPERS_OWN].items():
            rows.append([_name(PAPERS_OWN), s, *(f"— ({cells[IN_PAPER.get(c, c)]:.1f})" for c in changes)])
        more = (
            " By the majority of 1,000 votes; ours without abstentions."
            if kind == "smoothed"
            else " On images without noise."
        )
        text += f"{reference[kind]['table']}. Ours (paper's).{more}\n\n{table(('network', 'sigma', *changes), rows)}\n"
    return text


def binomial(found: Found) -> str:
    reference = paper("binomial")
    result = found.results[0] if found.results else None
    rows = []
    for p, published in reference["samples"].items():
        ours = None
        if result:
            place = [f"{q:g}" for q in result["settings"]["probabilities"]].index(p)
            ours = result["samples"]["clopper-pearson"]["0.005"][place]
        rows.append([p, f"{published:,}", number(ours, ",")])
    return f"{reference['table']}.\n\n{table(('p', 'paper', 'ours'), rows)}"


def soundness(found: Found) -> str:
    return (
        "Lower bounds of re-certification against independent votes of the changed network, drawn with another seed. A sound bound lies "
        "above the independent *upper* bound (error .002 each) hardly ever; it may lie above the estimate now and then, with probability "
        f"at most .002 plus what the estimate's own error adds.\n\n{_checks(found)}"
    )


def coverage(found: Found) -> str:
    return (
        "Each cache has n noises of its own, and so has its re-certification; the noises of all others but one say what is true. What a bound promises is "
        "that it lies above the truth with probability at most alpha = .002. The share of the other votes is nearly the truth, so that *above the "
        "estimate* should not exceed alpha × claims by more than chance (alpha allows more: inputs without a claim count, too). Caches are small "
        f"so that there are many: an error in a bound would show in the number of misses.\n\n{_checks(found)}"
    )


def _checks(found: Found) -> str:
    if not found.results:
        return f"{NOT_RUN}\n"
    rows = []
    for result in found.results:
        s = result["settings"]
        for method, counts in result["methods"].items():
            rows.append([
                _name(s["network"]), str(s["sigma"]), s["approximation"], method, f"{s['samples']:,}", f"{s['budget']:,}", f"{s['independent_votes']:,}",
                f"{counts['claims']:,}", str(counts["above the upper bound"]), str(counts["above the estimate"]), number(counts["expected at most"], ".2f"),
                number(counts["mean distance to the estimate"], ".4f"),
            ])  # fmt: skip
    headers = (
        "network", "sigma", "change", "method", "n", "n_p", "independent votes", "claims", "above the upper bound", "above the estimate",
        "alpha × claims", "mean distance below the estimate",
    )  # fmt: skip
    return table(headers, rows)
