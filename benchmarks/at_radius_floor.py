"""The fewest passes with which any test could decide at a radius from a cache, beside those of `recertify(at=)` and of the plan `accuracy:R`.

    python -m benchmarks.at_radius_floor VOTES.npz            (the file of votes from which results/at-radius was made)
    python -m benchmarks.at_radius_floor                      (no file: a test that knows the flips, simulated, beside the floor)

Let A be votes of the original and B of the changed network on the same noise. Let a test show a claim with probability w where it is true, and at most
alpha where it is false. By Wald's inequality the sum over a of E[replays with A = a] KL(B given a, as it is || as in a false case) is at least
w ln(w / alpha) + (1 - w) ln((1 - w) / (1 - alpha)), for any false case. So replays are at least that by the largest KL, and the false case is one
where that is much. The test is given everything: the laws (those of all replays), which false case it is, and which images to leave alone, for nothing.
"""

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, rel_entr

from studies.networks import ORIGINAL
from studies.radius_section import SHOWN, passes_for
from studies.request import ALPHA, SELECTION_SAMPLES
from studies.rules_at_radius import KINDS
from studies.votes_at_radius import NAMES_IN_FILE

Reals = NDArray[np.float64]
POWERS = np.linspace(ALPHA, 1, 400)
NEEDED = rel_entr(POWERS, ALPHA) + rel_entr(1 - POWERS, 1 - ALPHA)
"""What a test with each power has to learn."""


def coin(p: Reals, q: Reals) -> Reals:
    """KL of two coins; 1 - q may be a rounding error from 1 - p."""
    return np.asarray(rel_entr(p, q) + rel_entr(np.maximum(1 - p, 0), np.maximum(1 - q, 0)))


def learned_one_sided(p: Reals, kept: Reals, gained: Reals, threshold: float) -> Reals:
    """What a replay tells at most against the false case that is hardest to exclude: fewer kept, fewer gained, the same KL of both."""
    below, above = np.zeros_like(gained), gained.copy()
    for _ in range(60):
        middle = (below + above) / 2
        by_kept, by_gained = coin(kept, np.clip((threshold - (1 - p) * middle) / p, 0, 1)), coin(gained, middle)
        below, above = np.where(by_gained > by_kept, (middle, above), (below, middle))
    least = np.maximum(by_kept, by_gained)
    return np.where(p * kept + (1 - p) * gained > threshold, least, 0)


def learned_two_sided(p: Reals, kept: Reals, share: Reals, to: Reals, shares: Reals, distance: float) -> Reals:
    """The same; the false case: of the noises where the original has the class, so many go to a rival that the radius is too small."""
    below, above = np.zeros_like(to), np.repeat(kept[:, None], to.shape[1], axis=1)
    for _ in range(60):
        moved = (below + above) / 2
        far = ndtri(share[:, None] - p[:, None] * moved) - ndtri(shares + p[:, None] * moved) >= distance
        below, above = np.where(far, moved, below), np.where(far, above, moved)
    least = (rel_entr(kept[:, None], kept[:, None] - above) + rel_entr(to, to + above)).min(axis=1)
    return np.where((ndtri(share[:, None]) - ndtri(shares)).min(axis=1) > distance, least, 0)


def floor(learned: Reals, share: float) -> float:
    """Fewest passes per image for a share in the mean: alpha is free, then the cheapest come first (passes are convex in the power)."""
    costs = NEEDED / learned[learned > 0, None]
    steps = np.sort(np.diff(costs, axis=1).ravel())
    total = np.concatenate([[0], np.cumsum(steps)]) / len(learned)
    shown = (POWERS[1] - POWERS[0]) * np.arange(len(total)) / len(learned)
    return float(np.interp(share - ALPHA, shown, total, right=np.inf))


def told(result: dict[str, Any], file: Any, radius: float, kind: str) -> Reals:
    """Of every image, from the votes on all cached noises."""
    s = result["settings"]
    names = (NAMES_IN_FILE.get(name, name) for name in (ORIGINAL, s["approximation"]))
    before, after = (file[name][: s["images"], : SELECTION_SAMPLES + s["samples"]].astype(int) for name in names)
    classes = range(int(max(before.max(), after.max())) + 1)
    chosen = np.stack([(before[:, :SELECTION_SAMPLES] == c).sum(axis=1) for c in classes]).argmax(axis=0)[:, None]
    after = after[:, SELECTION_SAMPLES:]
    was, became = before[:, SELECTION_SAMPLES:] == chosen, after == chosen
    p, count = was.mean(axis=1), was.sum(axis=1)
    kept = (was & became).sum(axis=1) / np.maximum(count, 1)
    if kind == "one-sided":
        gained = (~was & became).sum(axis=1) / np.maximum((~was).sum(axis=1), 1)
        return learned_one_sided(p, kept, gained, float(ndtr(radius / s["sigma"])))
    rivals = np.stack([np.where(chosen == c, -1, after) == c for c in classes], axis=1)
    to = (rivals & was[:, None]).sum(axis=2) / np.maximum(count, 1)[:, None]
    return learned_two_sided(p, kept, became.mean(axis=1), to, rivals.mean(axis=2), 2 * radius / s["sigma"])


def check(kept: float = 0.98, false: float = 0.9) -> None:
    """A likelihood ratio that stops at 1 / alpha takes the floor and what it jumps beyond; with `false` it stops at alpha of all times at most."""
    draws, enough = np.random.default_rng(0).random((20_000, 700), dtype=np.float32), -np.log(ALPHA)
    up, down = np.log(kept / false), np.log((1 - kept) / (1 - false))
    right, wrong = (np.cumsum(np.where(draws < rate, up, down), axis=1) >= enough for rate in (kept, false))
    passes = np.where(right.any(axis=1), right.argmax(axis=1) + 1, draws.shape[1]).mean()
    least, further = (x / coin(np.array(kept), np.array(false)) for x in (enough, enough + up))
    print(f"passes {passes:.1f}, floor {least:.1f}, with one step more {further:.1f}; wrong {wrong.any(axis=1).mean():.4f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("votes", type=Path, nargs="?", help="file of votes")
    parser.add_argument("--most", type=int, default=1_000, help="passes of `at` for an image, as in the results")
    args = parser.parse_args()
    if args.votes is None:
        check()
        return
    results = [json.loads(path.read_text()) for path in Path("results/at-radius").glob("*.json")]
    with np.load(args.votes) as file:
        for kind, result, radius in itertools.product(KINDS, sorted(results, key=lambda r: r["flips"]), SHOWN):
            curves, place = result["radii"][radius], result["settings"]["most"].index(args.most)
            share, at = (curves[f"cache {kind}"][key][place] for key in ("share", "passes"))
            plan = passes_for(share, curves[f"plan {kind}"]) or np.nan
            least = floor(told(result, file, float(radius), kind), share)
            name = f"{kind} {result['settings']['approximation']:12} {result['flips']:.2%} {radius:4} {share:.1%}"
            print(f"{name}: at {at:.1f}, plan {plan:.1f}, floor {least:.1f}; at/plan {at / plan:.2f}, floor/plan {least / plan:.2f}, at/floor {at / least:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
