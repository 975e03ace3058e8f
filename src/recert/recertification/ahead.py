"""Votes of inputs whose plan is still to be made: a device draws them meanwhile, and would wait for the plan otherwise."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recert.cache.samples import Samples, as_array, simplified
from recert.recertification.task import Task
from recert.sampling import Drawn
from recert.votes import Votes

Ints = NDArray[np.int64]

SHARE_OF_QUEUE = 7
"""One part in so many of what a device computes without being asked again, some .3 s, is drawn ahead, in whole batches: some 40 ms. A plan
and the noises it asks for take 15 to 30 ms with 500 inputs, and then the device has work again. Much more would bring the votes later that
complete an input, and with them its bounds."""
SHARE_OF_PASSES = 4
"""One in so many of the passes that an input is expected to be given. With the flips known most are given about as many."""
MOST_CACHED = 2**26
"""Cached votes, of all inputs, up to which they stay in memory once they are read: more would be read again for this."""


@dataclass(frozen=True)
class Cost:
    """What drawing took for one input. The votes themselves are not kept: memory would grow with every forward pass."""

    passes: int = 0
    seconds: float = 0.0
    nobody: int = 0
    """Invalid votes: samples whose logits were not finite."""

    @classmethod
    def of(cls, drawn: Drawn) -> "Cost":
        return cls(len(drawn.votes), drawn.seconds, drawn.nobody)


class Likely(NamedTuple):
    """An input that is expected to be given so many passes, for a claim about the class `top`."""

    row: int
    top: int
    passes: int


class Ahead:
    """Votes that are drawn behind those that the plan waits for: on the first noises on which the original voted for the class.

    Every method that replays cached noises wants these. Which they are depends on no vote of the modified model, and they change
    no choice. What the plan has no use for is paid for like every other vote.
    """

    def __init__(self, task: Task, likely: Sequence[Likely] = ()) -> None:
        self._task, self._likely = task, likely
        self._drawing: Iterator[Drawn] = iter(())
        self._drawn: dict[int, Drawn] = {}
        self.samples: Mapping[int, Ints] = {}
        """Noises that are drawn ahead, by row."""

    def behind(self, passes: int) -> list[tuple[int, Samples]]:
        """Rows and noises to be drawn behind so many others. The first time only."""
        likely, self._likely = self._likely, ()
        if not likely:
            return []
        shares = {each.row: each.passes // SHARE_OF_PASSES for each in likely}
        left = self._useful(passes, sum(shares.values()))
        numbers = dict[int, int]()
        for row, share in shares.items():
            numbers[row] = min(share, left)
            left -= numbers[row]
        tops = {each.row: each.top for each in likely if numbers.get(each.row)}
        self.samples = _first_of_the_class(self._task, tops, numbers)
        return [(row, simplified(samples)) for row, samples in self.samples.items()]

    def _useful(self, passes: int, possible: int) -> int:
        """How many of the possible passes: those that fill whole batches, together with others that come before; a last one would be padded."""
        task, source = self._task, self._task.source
        if task.terms.samples * len(task.positions) > MOST_CACHED:
            return 0
        ahead, at_once = int(getattr(source, "passes_ahead", 0)), int(getattr(source, "passes_at_once", 1))
        return max(0, (passes + min(possible, ahead // SHARE_OF_QUEUE)) // at_once * at_once - passes)

    def take(self, drawing: Iterator[Drawn]) -> None:
        """The votes that come next are those that were asked for."""
        self._drawing = drawing

    def finish(self) -> None:
        """Wait for them: a source draws one thing after the other."""
        self._drawn.update(zip(list(self.samples)[len(self._drawn) :], self._drawing, strict=True))

    def costs(self) -> list[tuple[int, Cost]]:
        """What it took, by row."""
        self.finish()
        return [(row, Cost.of(drawn)) for row, drawn in self._drawn.items()]

    def missing(self, row: int, samples: range | Ints) -> range | Ints:
        """Noises that are not drawn ahead."""
        known = self.samples.get(row)
        return samples if known is None else simplified(as_array(samples)[~_are_among(known, as_array(samples))])

    def joined(self, row: int, samples: range | Ints, others: Votes) -> Votes:
        """Votes on all noises, in order, from those that were drawn ahead and those on the missing ones."""
        known = self.samples.get(row)
        if known is None:
            return others
        wanted = as_array(samples)
        ahead = _are_among(known, wanted)
        votes = np.empty(len(wanted), dtype=others.dtype)
        votes[~ahead] = others
        votes[ahead] = self._drawn[row].votes[np.searchsorted(known, wanted[ahead])]
        return votes


def _first_of_the_class(task: Task, tops: Mapping[int, int], numbers: Mapping[int, int]) -> dict[int, Ints]:
    """The first noises of some rows on which the original voted for the class, so many of each; rows without any are left out."""
    found = {}
    for row, cached in task.cached_votes(list(tops)).items():
        here = np.flatnonzero(cached[: 8 * numbers[row]] == tops[row])[: numbers[row]]
        if len(here):
            found[row] = here
    return found


def _are_among(known: Ints, wanted: Ints) -> NDArray[np.bool_]:
    """Which of some increasing numbers are among others."""
    last = int(known[-1])
    table = np.zeros(last + 2, dtype=np.bool_)
    table[known] = True
    return np.asarray(table[np.minimum(wanted, last + 1)])
