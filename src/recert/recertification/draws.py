"""What a method wants to be drawn, and what it does with the votes: `carry_out` draws for all methods at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from recert.noise import Stream
from recert.sampling import Drawn

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Draws(Generic[Entry]):
    """Votes that are wanted of some rows, on noises of one stream. Each row's are handed over once, in order."""

    rows: NDArray[np.int64]
    stream: Stream
    noises: Sequence[range | NDArray[np.int64]]
    enter: Callable[[int, Drawn], Entry]
    """Books the votes of the i-th of these rows in the ledger, and returns what its bound needs."""
    bound: Callable[[list[Entry]], None]
    """Bounds many entries in one call and claims them. It runs beside `enter` of later rows."""
