"""What every bound checks before it computes."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

SMALLEST_ALPHA = 1e-60
"""The searches compute tail probabilities down to e^-690. With alpha this small all that decides is far above that."""


def checked_counts(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Broadcast (successes, trials, alpha) to float arrays of one shape, or raise ValueError."""
    k, n, a = np.broadcast_arrays(
        np.asarray(successes, dtype=float), np.asarray(trials, dtype=float), np.asarray(alpha, dtype=float)
    )
    if not np.all((k == np.floor(k)) & (n == np.floor(n))):
        raise ValueError("expected whole numbers of successes and trials, got fractions; pass counts, not shares")
    if not np.all(n >= 1):
        raise ValueError(f"expected at least 1 trial, got {n.min():g}; draw some samples first")
    if not np.all((k >= 0) & (k <= n)):
        at = int(np.argmax(~((k >= 0) & (k <= n)).ravel()))
        raise ValueError(
            f"expected 0 <= successes <= trials, got {k.ravel()[at]:g} of {n.ravel()[at]:g}; "
            "the arguments are (successes, trials, alpha), in this order"
        )
    check_alpha(a)
    return k, n, a


def check_alpha(alpha: ArrayLike) -> None:
    """ValueError unless every alpha is an error probability that the bounds are proved for."""
    try:
        a = np.asarray(alpha, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"expected alpha as a number between 0 and 1, got {alpha!r}; a usual value is 0.001") from None
    if not np.all((a > 0) & (a < 1)):
        raise ValueError(
            f"expected an error probability alpha with 0 < alpha < 1, got {a.min():g}; a usual value is 0.001"
        )
    if np.any(a < SMALLEST_ALPHA):
        raise ValueError(
            f"expected alpha of at least {SMALLEST_ALPHA:g}, below which rounding is not covered by the proofs, got {a.min():g}; "
            "divide it over fewer claims, or ask for a larger one"
        )
