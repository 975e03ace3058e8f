"""The methods that the studies compare, as keywords of `recert.recertify`."""

from typing import Any

import recert

COHEN, GIVEN_CLASS = "scratch", "scratch-cached"
AUTHORS = "scratch-authors"
"""Cohen's baseline as the authors' code runs it: n_p / 100 selection votes, 1 to 10, where Cohen takes 100."""
BASELINES = (COHEN, GIVEN_CLASS)
"""Cohen's, charged with its selection votes on all inputs; and one that is given the cached class and the skips."""


def method_named(
    name: str, *, selection_samples: int | None = None, reuse_threshold: float | None = None
) -> dict[str, Any]:
    """Keywords that choose a method: selection votes are an option of Cohen's baseline, the threshold is one of irs.

    >>> method_named("irs", reuse_threshold=0.9)
    {'method': Irs(reuse_threshold=0.9, form='paper')}
    """
    if selection_samples is not None:
        return {"method": recert.Scratch(selection_samples)}
    if reuse_threshold is not None:
        return {"method": recert.Irs(reuse_threshold)}
    return {"method": name}
