"""Exact bounds on the share of wrong votes, from a sample of them.

From every input the same number of votes of a stream is drawn without replacement. The number of wrong ones among them is a
sum of independent hypergeometric counts, each of which is a sum of independent, unequal coin tosses (Vatutin and Mikhailov,
1982). For such sums the binomial tail with the mean share is an upper bound, at counts at least one away from the mean
(Hoeffding, 1956). So Clopper-Pearson's bounds on the pooled counts hold for this design; they are conservative, never too
small. Votes that were seen to be right or wrong are counted as what they are.
"""

import math
from dataclasses import dataclass

from scipy import stats

from recert import bounds

LARGEST_SAMPLE = 10**9


@dataclass(frozen=True)
class Share:
    """Wrong votes among those replayed of a population, and bounds on the share of wrong votes in the population."""

    wrong: int
    replayed: int
    population: int
    lower: float
    upper: float

    @property
    def most_wrong(self) -> int:
        """Wrong votes in the population, at most."""
        return min(self.population, int(self.upper * self.population + 1e-9))


def share_of(wrong: int, replayed: int, population: int, *, lower_alpha: float, upper_alpha: float) -> Share:
    """Bounds on the share of wrong votes, each with its own probability of error.

    >>> share = share_of(0, 760, 50_000, lower_alpha=0.0005, upper_alpha=0.0005)
    >>> share.lower, round(share.upper, 5)
    (0.0, 0.00995)
    """
    # What was seen is certain: the wrong votes that were found are in the population, and the right ones are not wrong.
    seen_wrong, not_right = wrong / population, (population - replayed + wrong) / population
    if replayed == 0:
        return Share(0, 0, population, 0.0, 1.0)
    lower = bounds.clopper_pearson_lower(wrong, replayed, lower_alpha)
    upper = bounds.clopper_pearson_upper(wrong, replayed, upper_alpha)
    # Hoeffding's comparison holds one count away from the mean, so that neither bound is closer to it than that.
    lower = max(seen_wrong, min(lower, (wrong - 1) / replayed))
    upper = min(not_right, max(upper, (wrong + 1) / replayed))
    return Share(wrong, replayed, population, lower, upper)


def enough(tolerate: float, detect: float, alpha: float) -> int:
    """Votes to replay so that a cache with at most the tolerated share of wrong votes is nearly always found genuine.

    >>> enough(0.0, 0.01, 0.0005)
    757
    """
    votes = max(1, math.ceil(math.log(alpha) / math.log1p(-min(tolerate + detect, 0.999))))  # if none is wrong
    # With the 99% quantile of wrong votes: so a cache with just the tolerated share is left undecided about once in a hundred times.
    while votes < LARGEST_SAMPLE:
        wrong = int(stats.binom.ppf(0.99, votes, tolerate)) if tolerate else 0
        if bounds.clopper_pearson_upper(wrong, votes, alpha) <= tolerate + detect:
            return votes
        # A tenth more each time: a dozen steps or two, and at most a tenth more votes than needed.
        votes += max(1, votes // 10)
    return LARGEST_SAMPLE
