"""From what was shown of each input to certificates."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recert.certificates import Certificates, Claims, Outcome, Settings
from recert.noise import Noise
from recert.sampling import ProgressCallback, VoteSource
from recert.sequential.rounds import GIVEN_UP, UNDER_WAY, Decided, Question, decide
from recert.sequential.tally import Tally

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

Enough = Callable[[Certificates], bool]
"""Told what is certified after each round; True ends the run. What was shown until then holds."""

MOST_RADII = 100


def checked_radii(at: ArrayLike) -> Floats:
    """One radius or several, in ascending order; ValueError if they are none."""
    try:
        radii = np.unique(np.atleast_1d(np.asarray(at, dtype=float)))
    except (TypeError, ValueError):
        raise ValueError(f"expected a radius or a list of radii, got {at!r}; a usual value is at=0.5") from None
    if radii.ndim != 1 or not 1 <= len(radii) <= MOST_RADII or not np.all((radii > 0) & np.isfinite(radii)):
        raise ValueError(f"expected from 1 to {MOST_RADII} radii above 0, got {at!r}; a usual value is at=0.5")
    return radii


def result_of(
    tally: Tally,
    question: Question,
    source: VoteSource,
    positions: Ints,
    settings: Settings,
    noise: Noise,
    enough: Enough | None,
    progress: ProgressCallback | None,
    *,
    votes_of_a_row: int = 1,
) -> Certificates:
    """Draw until every row is decided, or enough is known. Row i is about the input at `positions[i]` of the source."""
    digests = [source.digests[position] for position in positions]

    def so_far(decided: Decided) -> Certificates:
        return certificates(tally, decided, question.radii, digests, settings, noise)

    def is_enough(decided: Decided) -> bool:
        return enough is not None and enough(so_far(decided))

    decided = decide(tally, question, source, positions, is_enough, progress, votes_of_a_row=votes_of_a_row)
    # Only now is it known what the votes were drawn with: batches become smaller when memory runs out.
    return replace(so_far(decided), settings=replace(settings, numerics=source.numerics))


def certificates(
    tally: Tally, decided: Decided, radii: Floats, digests: Sequence[str], settings: Settings, noise: Noise
) -> Certificates:
    """Each input has the largest radius that was shown of it, if any."""
    certified, last = decided.shown > 0, np.maximum(decided.shown - 1, 0)
    abstention = np.where(decided.state == GIVEN_UP, Outcome.RADIUS_OUT_OF_REACH.value, Outcome.UNDECIDED.value)
    claims = Claims(
        outcome=np.where(certified, Outcome.CERTIFIED.value, abstention).astype(object),
        prediction=np.where(certified, tally.classes, -1),
        radius=np.where(certified, radii[last], 0.0),
        top_lower=decided.top.copy(),
        runner_up_upper=decided.rival.copy(),
    )
    return Certificates.build(
        digests, claims, settings, noise, forward_passes=decided.passes, seconds=decided.seconds, nobody=decided.nobody,
        decided=decided.state != UNDER_WAY, **tally.columns(),
    )  # fmt: skip
