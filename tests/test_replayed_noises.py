"""Which noises are replayed, and what is counted on them: the compiled walks against the definition, question by question."""

from itertools import chain

import numpy as np
import pytest
from numpy.typing import NDArray

from recert.recertification.questions import Numbers, Questions, SelectedInputs, questions
from recert.votes import SelectionCounts

Ints = NDArray[np.int64]
NOBODY = 255


class Case:
    """Random votes of one input, few classes or many, and numbers of replays for the question of each class."""

    def __init__(self, seed: int, *, with_rivals: bool = True, unseen_anyway: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.classes = int(rng.choice([2, 3, 10, 40]))
        self.samples = int(rng.integers(20, 300))
        shares = rng.dirichlet(np.full(self.classes, rng.choice([0.05, 0.5])))
        self.cached, fresh = (rng.choice(self.classes, self.samples, p=shares).astype(np.uint8) for _ in range(2))
        self.cached[rng.random(self.samples) < 0.02] = NOBODY
        self.modified = np.where(rng.random(self.samples) < 0.2, fresh, self.cached)
        self.modified[rng.random(self.samples) < 0.03] = NOBODY
        selection = np.bincount(rng.choice(self.classes, 50, p=shares), minlength=self.classes)
        self.top = int(selection.argmax())
        self.counts = np.bincount(self.cached[self.cached < self.classes], minlength=self.classes)
        self.event, self.other = (rng.integers(0, 1 + self.samples // 3, (1, self.classes)) for _ in range(2))
        self.unseen = int(rng.integers(0, self.samples // 2)) if with_rivals else -1
        rivals = [b for b in range(self.classes) if b != self.top] if with_rivals else []
        self.seen = [b for b in rivals if selection[b] or self.counts[b]]
        self.rest = [b for b in rivals if b not in self.seen]
        self.shared = with_rivals and (bool(self.rest) or unseen_anyway)
        self.chosen = SelectedInputs(SelectionCounts(selection[None]), np.array([self.top]))
        if not with_rivals:
            mine = np.arange(self.classes) == self.top
            self.event, self.other = self.event * mine, self.other * mine
        self.numbers = Numbers(self.event, self.other, np.array([self.unseen]), unseen_anyway)

    def asked(self, *, all_or_none: bool = False) -> Questions | None:
        (found,) = questions(self.chosen, self.counts[None], self.samples, self.numbers, all_or_none=all_or_none)
        return found

    def parts(self, b: int, most: int) -> tuple[Ints, Ints]:
        """The first noises of both kinds for the question of a class, as it is defined."""
        event = self.cached[:most] == self.top if b == self.top else self.cached[:most] != b
        return np.flatnonzero(event)[: self.event[0, b]], np.flatnonzero(~event)[: self.other[0, b]]

    def expected_rows(self, most: int, *, only_most: bool) -> list[tuple[int, ...]]:
        rows = []
        for b in (self.top, *self.seen):
            event, other = self.parts(b, most)
            votes = self.modified == b
            if b == self.top:
                lost, gained, k = (~votes[event]).sum(), votes[other].sum(), self.counts[b]
            else:
                lost, gained, k = votes[event].sum(), (~votes[other]).sum(), self.samples - self.counts[b]
            rows.append((k, lost, len(event), gained, len(other)))
        if self.shared:
            first = self.modified[: min(self.unseen, most)]
            losses = sorted({int((first == b).sum()) for b in self.rest} or {0})
            rows += [(self.samples, lost, len(first), 0, 0) for lost in (losses[-1:] if only_most else losses)]
        return [tuple(map(int, row)) for row in rows]


@pytest.mark.parametrize("with_rivals", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_noises_and_counts_are_those_of_the_definition(with_rivals: bool, whole: bool) -> None:
    scattered = 0
    for seed in range(300):
        case = Case(seed, with_rivals=with_rivals, unseen_anyway=seed % 2 == 0)
        most = case.samples if whole else case.samples // 2
        asked = case.asked()
        assert asked is not None
        noises = asked.noises(case.cached, most, np.empty(case.samples, dtype=np.int64))
        parts = [part for b in (case.top, *case.seen) for part in case.parts(b, most)]
        shared = range(min(case.unseen, most)) if case.shared else ()
        expected = sorted({int(place) for place in chain(*parts, shared)})
        assert list(noises) == expected
        # A range, for which no array is kept, wherever the first noises are all wanted.
        assert isinstance(noises, range) == (expected == list(range(len(expected))))
        scattered += not isinstance(noises, range)
        before, after = case.cached[expected], case.modified[expected]
        for only_most in (True, False):
            rows = asked.answered(before, after, only_most=only_most)
            assert list(map(tuple, rows.tolist())) == case.expected_rows(most, only_most=only_most)
    assert 30 < scattered < 290


def test_an_input_with_too_few_noises_of_any_kind_is_not_asked_about() -> None:
    """As often as not here; rivals that the original never voted for have all noises of one kind."""
    found = []
    for seed in range(300):
        case = Case(seed)
        enough = case.unseen <= case.samples
        for b in (case.top, *case.seen):
            event = case.counts[b] if b == case.top else case.samples - case.counts[b]
            enough &= bool(event >= case.event[0, b] and case.samples - event >= case.other[0, b])
        found.append(enough)
        assert (case.asked(all_or_none=True) is not None) == enough
    assert 20 < sum(found) < 280
