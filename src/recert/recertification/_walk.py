"""Compiled walks over the votes of one input: the first noises of each kind, and what f^p changes on them.

Every rival has a question of its own, but no sample is looked at once for each: on which noises f did not vote for a rival follows
from how often it did so far, and only the classes that a sample names are touched.
"""

import numpy as np
from numpy.typing import NDArray

from recert.compiled import compiled_with_lock
from recert.votes import Votes

Ints = NDArray[np.int64]
SEEN, UNSEEN = 1, 2
"""Kinds of rivals: with a question of their own, or with one for all. Other classes have none."""


@compiled_with_lock
def wanted_places(cached: Votes, top: int, of_event: Ints, of_other: Ints, unseen: int, most: int, places: Ints) -> int:
    """Write the places of all noises that any question wants, in order; returns how many. None is at `most` or after.

    The class wants the first `of_event[top]` noises on which f votes for it and `of_other[top]` on which it does not. A rival b
    wants the first `of_event[b]` on which f does not vote for b, and `of_other[b]` on which it does.
    """
    classes = len(of_event)
    votes = np.zeros(classes, np.int64)
    # How far the events of a rival reach: place i is one of its first noises without a vote for b if i is below `of_event[b]` and the
    # votes for b so far. The two that reach furthest are known, so that it is clear how far those of all but one rival reach.
    first, second, first_at, second_at = 0, 0, -1, -1
    left, others, found = of_event[top] + of_other[top], 0, 0
    for b in range(classes):
        if b != top:
            left += of_other[b]
            if of_event[b] > first:
                first, second, first_at, second_at = of_event[b], first, b, first_at
            elif of_event[b] > second:
                second, second_at = of_event[b], b
    for i in range(min(len(cached), most)):
        # No reach grows faster than the places pass: what was passed once stays so.
        if left <= 0 and first <= i and unseen <= i:
            break
        a = int(np.int64(cached[i]))
        wanted = i < unseen or (first if first_at != a else second) > i
        if a == top:
            votes[a] += 1
            if votes[a] <= of_event[a]:
                wanted = True
                left -= 1
        else:
            others += 1
            if others <= of_other[top]:
                wanted = True
                left -= 1
            if a < classes:  # not a vote for nobody
                votes[a] += 1
                if votes[a] <= of_other[a]:
                    wanted = True
                    left -= 1
                reach = int(of_event[a] + votes[a])
                if first_at == a:
                    first = reach
                elif reach > first:
                    first, second, first_at, second_at = reach, first, a, first_at
                elif second_at == a or reach > second:
                    second, second_at = reach, a
        if wanted:
            places[found] = i
            found += 1
    return found


@compiled_with_lock
def answers(
    before: Votes, after: Votes, top: int, of_event: Ints, of_other: Ints, unseen: int, votes: Ints, kinds: NDArray[np.int8], samples: int, only_most: bool,
) -> Ints:  # fmt: skip
    """Counts for each bound, from the votes of f and of f^p on the noises that were replayed, in order.

    A row is (cached votes for the event, replays that lost it, replays of the event, replays that gained it, other replays). The class
    comes first, then every rival with votes of f, then each number of losses that occurs among the others, which share
    their noises; `only_most`: the largest of these alone. With `unseen` below 0 these are not asked about.
    """
    # What was replayed holds all noises that a question wants, and more: it counts the first of each kind only.
    classes, replayed, others = len(of_event), len(before), 0
    seen, lost, gained = np.zeros(classes, np.int64), np.zeros(classes, np.int64), np.zeros(classes, np.int64)
    for i in range(replayed):
        a, v = int(np.int64(before[i])), int(np.int64(after[i]))
        if a == top:
            seen[a] += 1
            if v != a and seen[a] <= of_event[a]:
                lost[a] += 1
        else:
            others += 1
            if v == top and others <= of_other[top]:
                gained[top] += 1
            if a < classes:
                seen[a] += 1
                if v != a and seen[a] <= of_other[a]:
                    gained[a] += 1
        # A vote for nobody is lost by the class, and is a vote for no rival.
        if v != a and v != top and v < classes and i + 1 - seen[v] <= of_event[v]:
            lost[v] += 1
    most = 0
    for b in range(classes):
        if kinds[b] == UNSEEN:
            most = max(most, lost[b])
    occurs = np.zeros(most + 1, np.bool_)
    rivals = 0
    for b in range(classes):
        rivals += kinds[b] == SEEN
        if kinds[b] == UNSEEN:
            occurs[lost[b]] = True
    if only_most:
        occurs[:] = False
    occurs[most] = True
    rows = np.zeros((1 + rivals + (np.count_nonzero(occurs) if unseen >= 0 else 0), 5), np.int64)
    rows[0] = votes[top], lost[top], min(of_event[top], seen[top]), gained[top], min(of_other[top], others)
    row = 1
    for b in range(classes):
        if kinds[b] == SEEN:
            about, other = min(of_event[b], replayed - seen[b]), min(of_other[b], seen[b])
            rows[row] = votes[b], lost[b], about, gained[b], other
            row += 1
    if unseen >= 0:
        for losses in range(most + 1):
            if occurs[losses]:
                rows[row] = samples, losses, min(unseen, replayed), 0, 0
                row += 1
    return rows
