"""Evidence that may be looked at after every vote: a claim is right with probability 1 - alpha whenever one stops.

Each function gives the logarithm of an *e-process*: a product of fair or losing bets, mixed over several stakes. As long as what
is to be refuted is true, its mean never exceeds 1, so that the probability that it *ever* reaches 1/alpha is at most alpha
(Ville's inequality). Proofs are in docs/theory.md. Values are rounded down, by a margin for the error of every logarithm.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln

from recert.bounds.arguments import check_alpha

Floats = NDArray[np.float64]

MARGIN = 1e-14
"""Relative error that is allowed each term of a sum of counts times logarithms: measured, it stays below 1e-15."""


def log_evidence_above(
    successes: ArrayLike, trials: ArrayLike, threshold: ArrayLike, shares: Floats, weights: Floats
) -> Any:
    """Evidence that a proportion is above a threshold: ln of a mixture of likelihood ratios, rounded down.

    `shares` and `weights` are rows of equal length: proportions to bet on, each above its threshold, and how much is put on each,
    1 in all. They may depend on anything but these trials. Where the proportion is at most the threshold, the probability that this
    ever reaches ln(1/alpha) is at most alpha, whenever it is looked at.

    >>> bets, weights = np.array([0.9]), np.array([1.0])
    >>> round(float(log_evidence_above(10, 10, 0.5, bets, weights)), 6), round(10 * float(np.log(0.9 / 0.5)), 6)
    (5.877867, 5.877867)
    """
    k, n = np.asarray(successes, dtype=float)[..., None], np.asarray(trials, dtype=float)[..., None]
    tau = np.asarray(threshold, dtype=float)[..., None]
    if not np.all((shares > tau) & (shares <= 1)):
        raise ValueError("expected shares to bet on between the threshold and 1; bet on larger ones")
    return _log_mixture([(k, np.log(shares / tau)), (n - k, _log((1 - shares) / (1 - tau)))], weights)


def log_evidence_of_share(
    successes: ArrayLike, trials: ArrayLike, threshold: ArrayLike, a: ArrayLike, b: ArrayLike
) -> Any:
    """Evidence that a proportion is above a threshold which is itself chosen by these trials: ln, rounded down.

    The likelihood ratio of Beta(a, b), chosen by anything but these trials, against the threshold. For thresholds up to the share of
    successes it decreases; above that there is none (-inf). So the probability that it ever reaches ln(1/alpha) for *any* threshold
    that the proportion is not above is at most alpha: the thresholds for which it does are below a lower bound that holds at all times.

    >>> float(log_evidence_of_share(5, 10, 0.5, 1, 1))
    -inf
    >>> round(float(log_evidence_of_share(2, 2, 0.5, 1, 1)), 6), round(float(np.log((1 / 3) / 0.25)), 6)
    (0.287682, 0.287682)
    """
    k, n, tau = (np.asarray(value, dtype=float) for value in (successes, trials, threshold))
    alpha, beta = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if not np.all((alpha > 0) & (beta > 0)):
        raise ValueError("expected a > 0 and b > 0, the parameters of a beta distribution")
    believed, before = betaln(k + alpha, n - k + beta), betaln(alpha, beta)
    with np.errstate(divide="ignore", invalid="ignore"):
        yes, no = np.where(k > 0, k * np.log(tau), 0.0), np.where(n > k, (n - k) * np.log1p(-tau), 0.0)
    # scipy's logarithm of the beta function is a difference of larger logarithms: its error grows with n ln n.
    size = 1.0 + np.abs(before) + np.abs(yes) + np.abs(no) + (n + alpha + beta) * np.log(n + alpha + beta + 1.0)
    return np.where(tau * n < k, believed - before - yes - no - MARGIN * size, -np.inf)


def log_evidence_of_change(
    unchanged: ArrayLike, lost: ArrayLike, gained: ArrayLike, slack: ArrayLike, stakes: Floats, weights: Floats
) -> Any:
    """Evidence that a change loses less than `slack`: that P(gained) - P(lost) of one noise is above -slack. ln, rounded down.

    Counts are of noises on which nothing changed, something was lost and something was gained; `stakes` in (0, 1] and `weights`
    are rows of equal length, the latter 1 in all. For fixed counts it increases with `slack`, whatever the stakes: so a lower bound
    on the true slack may be used, see docs/theory.md.

    >>> one = np.array([1.0])
    >>> round(float(log_evidence_of_change(10, 0, 0, 0.2, one, one)), 6), round(-10 * float(np.log(0.8)), 6)
    (2.231436, 2.231436)
    >>> float(log_evidence_of_change(10, 1, 0, 0.2, one, one))
    -inf
    """
    z, f, g = (np.asarray(count, dtype=float)[..., None] for count in (unchanged, lost, gained))
    d = np.asarray(slack, dtype=float)[..., None]
    if not np.all((d > 0) & (d < 1)):
        raise ValueError("expected a slack between 0 and 1; without slack there is nothing to show")
    if not np.all((stakes > 0) & (stakes <= 1)):
        raise ValueError("expected stakes above 0 and at most 1; more could lose what one does not have")
    odds = stakes / (1 - d)
    return _log_mixture([(z, np.log1p(odds * d)), (f, _log(1 - stakes)), (g, np.log1p(odds * (1 + d)))], weights)


def reached(log_evidence: ArrayLike, alpha: float) -> NDArray[np.bool_]:
    """Whether evidence has reached 1 / alpha."""
    check_alpha(alpha)
    # -ln(alpha) is off by a unit in its last place at most.
    enough: NDArray[np.bool_] = np.asarray(log_evidence, dtype=float) >= -np.log(alpha) * (1 + 1e-15)
    return enough


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):  # a bet of everything that one has: ln 0
        return np.asarray(np.log(values))


def _log_mixture(terms: Sequence[tuple[Floats, Floats]], weights: Floats) -> Any:
    """ln of the weighted sum of products, each given by counts and logarithms of factors; rounded down."""
    with np.errstate(invalid="ignore"):  # 0 * -inf: a factor that was never taken
        each = [np.where(count == 0, 0.0, count * logarithm) for count, logarithm in terms]
    total = sum(each[1:], start=each[0]) + _log(weights)
    # Below e^-700 of the largest, a product is nothing beside it.
    top = np.max(total, axis=-1, keepdims=True)
    safe = np.where(np.isfinite(top), top, 0.0)
    value = safe[..., 0] + _log(np.exp(total - safe).sum(axis=-1))
    sizes = [np.where(np.isfinite(part), np.abs(part), 0.0) for part in each]
    margin = MARGIN * (
        1.0 + np.max(sum(sizes[1:], start=sizes[0]), axis=-1) + np.abs(np.where(np.isfinite(value), value, 0.0))
    )
    return np.where(np.isfinite(top[..., 0]), value - margin, -np.inf)
