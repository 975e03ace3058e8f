"""A method of re-certification of your own. python examples/extending/method.py

Like series it replays cached noises on which the original f voted for the class, and uses that the modified model votes for the class
with a probability of at least p r: p that f does, r that the vote is kept given that. Series bounds the product at once. Here both
factors get a Clopper-Pearson bound with half of alpha each: by the union bound both hold, and so does their product.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

import recert
from recert.noise import Stream
from recert.planning import RadiusPredictor, Selected
from recert.planning.tables import mesh, table_at_expected_flips
from recert.recertification.method import Bounds, Counts, Noises, Terms
from recert.votes import Votes


@dataclass(frozen=True)
class Product(recert.Method):
    """Two bounds, one product. Fields of this class would be settings that a user may choose."""

    name: ClassVar[str] = "product"
    certificates: ClassVar[tuple[str, ...]] = ("one-sided",)

    def noises(self, selected: Selected, cached: Votes, passes: int, terms: Terms) -> Noises | None:
        """The first noises on which f voted for the class. How many must not depend on the cached votes: if there are too few, none."""
        for_class = np.flatnonzero(cached == selected.top)
        if len(for_class) < passes:
            return None
        return Noises(selected.top, Stream.ESTIMATION, for_class[:passes], top_votes=len(for_class))

    def count(self, noises: Noises, votes: Votes, terms: Terms) -> Counts:
        """Replays that kept the class. An invalid vote is for no class, so it is lost."""
        kept = int(np.count_nonzero(votes == noises.top))
        return Counts(noises.top_votes, terms.samples, replayed=len(votes), kept=kept, lost=len(votes) - kept)

    def bound(self, counts: Sequence[Counts], terms: Terms) -> Bounds:
        """Of many inputs at once, with error `terms.alpha` for each input."""
        top_votes, kept, replayed = np.array([(each.top_votes, each.kept, each.replayed) for each in counts]).T
        return Bounds(product_lower(top_votes, terms.samples, kept, replayed, terms.alpha))

    def expected_radius(self, terms: Terms, largest: int) -> RadiusPredictor:
        """Guides the plan and claims nothing: the bound at the flips that other inputs let one expect, in a table."""
        p, replays = mesh(largest)

        def bound(lost: NDArray[np.float64]) -> NDArray[np.float64]:
            return product_lower(np.round(p * terms.samples), terms.samples, replays - lost, replays, terms.alpha)

        return table_at_expected_flips(terms.circumstances, replays[0], bound, replays * terms.flips * (1 - p)).radius(
            1
        )


def product_lower(votes: ArrayLike, samples: int, kept: ArrayLike, replayed: ArrayLike, alpha: float) -> Any:
    """A lower bound on p r, with error alpha. A bound of the package lives in `recert.bounds`, beside its proof."""
    p = recert.bounds.clopper_pearson_lower(votes, samples, alpha / 2)
    r = recert.bounds.clopper_pearson_lower(kept, replayed, alpha / 2)
    return np.maximum(np.nextafter(np.asarray(p * r), -1.0), 0.0)  # rounding must never enlarge a claim


recert.register_method(Product())


def main() -> None:
    from recert.data import load_data
    from recert.models import load_model

    model, data = load_model("digits").model, load_data("digits", count=40)
    cache = recert.certify(model, data.inputs, noise=recert.Gaussian(0.5), samples=4_000)
    changed = recert.approximate(model, "prune:0.2").model
    for method in ("product", "series"):
        result = recert.recertify(changed, data.inputs, cache, samples=400, method=method, certificate="one-sided")
        print(f"{method}: average certified radius {result.average_certified_radius(data.labels):.3f}")
    print(result.guarantee)


if __name__ == "__main__":
    main()
