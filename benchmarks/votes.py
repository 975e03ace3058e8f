"""Speed-up of every method on stored votes of a real network and its approximations; and the bounds side by side.

    python benchmarks/votes.py VOTES.npz [--certificate two-sided] [--selection-samples 500] [--json FILE]
    python benchmarks/votes.py --bounds

VOTES.npz holds `labels`, the votes of the original (`fp32`) and of approximations, inputs x 10,000, on the same noises:
columns 0-499 choose, 500-8,999 bound (n = 8,500), the rest are fresh. Methods get 1% to 10% of n, the baselines 1% to 100%.
Costs are forward passes per input; Cohen's baseline is charged its 100 selection votes.
"""

import argparse
import json
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

import recert
from recert import bounds
from recert.metrics import speedup_by_area

SAMPLES = 8_500
BUDGETS = [round(share / 100 * SAMPLES) for share in range(1, 11)]
BASELINE_BUDGETS = [round(share / 100 * SAMPLES) for share in (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 55, 75, 100)]
ALPHA = 0.002


def stored(votes: np.ndarray) -> recert.StoredVotes:
    v = votes.astype(np.int64)
    # Baselines need n fresh votes and there are 1,000: after them come the others, which are as good for measuring a cost.
    fresh = np.concatenate([v[:, 9_000:], v[:, 500:9_000]], axis=1)
    return recert.StoredVotes(v[:, 500:9_000], selection=v[:, :500], fresh=fresh, classes=10)


def curve(
    votes: recert.StoredVotes, cache: recert.Cache, labels: np.ndarray, budgets: Sequence[int], **options: object
) -> tuple[list[float], list[float]]:
    """Forward passes per input and ACR at every budget."""
    results = [recert.recertify(votes, None, cache, samples=m, alpha=ALPHA, **options) for m in budgets]  # type: ignore[arg-type]
    return [r.mean_forward_passes for r in results], [r.average_certified_radius(labels) for r in results]


def speedups(path: str, certificate: str, selection_samples: int) -> list[dict[str, object]]:
    data = np.load(path)
    labels = data["labels"]
    cache = recert.certify(
        stored(data["fp32"]), None, noise=recert.Gaussian(0.5), samples=SAMPLES, alpha=0.001,
        selection_samples=selection_samples, certificate=certificate,
    )  # fmt: skip
    methods = [(m, p) for m in ("irs", "series", "paired", "joint", "auto") for p in ("uniform", "acr")]
    if certificate == "two-sided":
        methods = methods[2:]
    rows = []
    for name in [key for key in data if key not in ("labels", "idx", "fp32")]:
        modified = stored(data[name])
        cohen, given = (
            curve(modified, cache, labels, BASELINE_BUDGETS, method=method, certificate=certificate)
            for method in ("scratch", "scratch-cached")
        )
        for method, plan in methods:
            ours = curve(modified, cache, labels, BUDGETS, method=method, plan=plan, certificate=certificate)
            over_cohen, over_given = speedup_by_area(*ours, *cohen), speedup_by_area(*ours, *given)
            rows.append({
                "approximation": name, "method": method, "plan": plan, "over Cohen": over_cohen.value, "over given class": over_given.value,
                "passes": [ours[0][0], ours[0][-1]], "ACR": [ours[1][0], ours[1][-1]], "why": f"{over_cohen.reason}; {over_given.reason}",
            })  # fmt: skip
            print(f"{name:8} {method:7} {plan:8} over Cohen {over_cohen!s:>7} over given class {over_given!s:>7} "
                  f"ACR {ours[1][0]:.4f} to {ours[1][-1]:.4f} at {ours[0][0]:.0f} to {ours[0][-1]:.0f} passes", flush=True)  # fmt: skip
    return rows


def summarise(rows: list[dict[str, object]]) -> None:
    """Means over the approximations, and how many times irs each method is."""
    means: dict[tuple[object, object], float] = {}
    for method, plan in dict.fromkeys((row["method"], row["plan"]) for row in rows):
        values = [row["over Cohen"] for row in rows if (row["method"], row["plan"]) == (method, plan)]
        means[method, plan] = float(np.mean([v for v in values if v is not None]))  # type: ignore[arg-type]
    irs = means.get(("irs", "uniform"))
    for (method, plan), mean in means.items():
        times = f", {mean / irs:.2f} times irs" if irs else ""
        print(f"mean over Cohen's baseline: {method} {plan}: {mean:.2f}{times}")


CASES = [(0.0004, 1_000), (0.0004, 5_000), (0.005, 1_000), (0.005, 5_000), (0.012, 5_000), (0.005, 20_000)]


def bound_table(p: float = 0.8, n: int = 100_000) -> None:
    """Lower bounds on the modified network's vote at expected counts, and scratch's passes for the same bound, as a multiple."""
    k = round(p * n)
    names = ["irs", "series", "paired", *(["joint"] if hasattr(bounds, "joint_lower") else []), "ideal"]
    print("h, replays          " + "".join(f"{name:>18}" for name in names))
    for h, m in CASES:
        m1, m0 = round(p * m), round((1 - p) * m)
        lost, gained = round(h / p * m1), round(h / (1 - p) * m0)
        values = {
            "irs": bounds.clopper_pearson_lower(k, n, ALPHA / 2)
            - bounds.clopper_pearson_upper(round(2.4 * h * m), m, ALPHA / 2),
            "series": bounds.series_lower(k, n, m - round(h / p * m), m, ALPHA),
            "paired": bounds.paired_lower(k, n, lost, m1, gained, m0, ALPHA),
            "ideal": p + ndtri(ALPHA) * np.sqrt(p * (1 - p) / n * (1 - h / p - h / (1 - p)) ** 2 + 2 * h / m),
        }
        if "joint" in names:
            values["joint"] = bounds.joint_lower(k, n, lost, m1, gained, m0, ALPHA)
        cells = [f"{values[name]:.4f} ({scratch_passes(values[name], p) / m:5.1f}x)" for name in names]
        print(f"{h:6}, {m:6}      " + "".join(f"{cell:>18}" for cell in cells))


def scratch_passes(bound: float, p: float) -> int:
    """Fewest fresh votes whose bound, at their expected count, reaches this one."""
    low, high = 1, 10**8
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if bounds.clopper_pearson_lower(round(p * middle), middle, ALPHA) >= bound else (middle, high)
        )
    return high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("votes", nargs="?")
    parser.add_argument("--certificate", default="one-sided")
    parser.add_argument("--selection-samples", type=int, default=100)
    parser.add_argument("--json")
    parser.add_argument("--bounds", action="store_true", help="the bounds at p = .8, n = 100,000 instead")
    options = parser.parse_args()
    if options.bounds:
        bound_table()
        return
    rows = speedups(options.votes, options.certificate, options.selection_samples)
    summarise(rows)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
