"""What is counted of inputs that are decided vote by vote, and how sure it makes one: for fresh votes and for replays.

For every radius an input is asked one of two questions, chosen by its selection votes. *Alone*: is its class above the
probability that gives the radius by itself? *Pair*: is it above one probability and every other class below another, which give
the radius together? Each half of a pair has half of alpha, so that the two probabilities may be chosen by all that is known.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from recert.noise import Stream
from recert.sampling import Drawn

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

HALF = float(np.log(2))
"""By how much ln(1/alpha) grows where alpha is halved."""


class Evidence(NamedTuple):
    """Of rows x radii: what reaches ln(1/alpha) is shown, whenever one looks; and the probabilities that it is about."""

    log: Floats
    top: Floats
    """The class is above this."""
    rival: Floats
    """Every other class is below this."""


class Tally(Protocol):
    """Counts of inputs (rows), which grow from draw to draw."""

    stream: Stream
    classes: Ints
    """The class that each row's claim is about."""

    def begin(self, rows: Ints) -> None:
        """Prepare rows that are drawn for the first time."""
        ...

    def end(self, row: int) -> None:
        """A row is decided: what only drawing needs may go."""
        ...

    def next_noises(self, row: int, count: int) -> range | Ints:
        """About `count` noises of a row that come next, as samples of the stream; none if there are no more."""
        ...

    def add(self, row: int, samples: range | Ints, drawn: Drawn) -> None:
        """Count votes on these noises."""
        ...

    def evidence(self, rows: Ints) -> Evidence:
        """What is shown of these rows so far."""
        ...

    def passes_needed(self, rows: Ints, radius: Ints, lacking: Floats) -> Floats:
        """How many more passes it may take until so much evidence for a radius (one for each row) is there, if all goes as well as can
        reasonably be hoped; inf where it does not seem to be true. It decides when to give up, and claims nothing."""
        ...

    def soonest(self, rows: Ints, radius: Ints, lacking: Floats) -> Ints:
        """How many more noises it takes at least until so much evidence for a radius is there."""
        ...

    def passes_of_a_noise(self, rows: Ints) -> Floats:
        """How many passes the next noises of a row take, in the mean: fewer than one where some are counted without being drawn."""
        ...

    def columns(self) -> dict[str, Any]:
        """Counts by the names that `Certificates` has for them."""
        ...
