"""How many votes of one model may differ when they are drawn twice: rounding changes few, another model many."""

from scipy import special

SHARE_ALIKE, SHARE_OTHERWISE = 0.001, 0.02
"""Of votes that rounding alone changes: with the same numerics, and with others (measured at most: bf16 for float32, .007)."""
SURE = 1e-6
"""The probability with which a model that is the same is refused."""


def is_more_than_rounding(wrong: int, votes: int, *, same_numerics: bool) -> bool:
    """Whether so many different votes, of so many that were replayed, are of another model.

    >>> is_more_than_rounding(1, 64, same_numerics=True), is_more_than_rounding(20, 64, same_numerics=False)
    (False, True)
    """
    share = SHARE_ALIKE if same_numerics else SHARE_OTHERWISE
    # The probability of at least so many among independent votes.
    return wrong > 0 and float(special.bdtrc(wrong - 1, votes, share)) < SURE
