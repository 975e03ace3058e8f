"""What the compiled bounds share: counts of replays are checked, and inputs are spread over threads."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recert.bounds.arguments import Floats, checked_counts

Integers = NDArray[np.int64]

PARTS_PER_WORKER = 4
MOST_ENTRIES = 2**25
"""Of tables of votes that are in memory together, 256 MB of them: one has as many as there are votes."""


def checked_replays(successes: ArrayLike, replays: ArrayLike, alpha: ArrayLike) -> tuple[Floats, Floats]:
    """Like `checked_counts`, but an input may have no replays at all."""
    trials = np.asarray(replays, dtype=float)
    none = trials == 0
    if np.any(none & (np.asarray(successes, dtype=float) != 0)):
        raise ValueError("expected 0 <= successes <= replays, got successes without replays; count what was replayed")
    checked, _, _ = checked_counts(successes, np.where(none, 1.0, trials), alpha)
    return checked, np.broadcast_to(trials, checked.shape)


def grid_bits(replays: float) -> int:
    """Bounds are rounded down to multiples of 2^-bits: about 1e-6, or a thousandth of 1 - alpha^(1/replays) if less.

    So that last bits that differ between machines do not show.
    """
    return max(20, 8 + int(replays).bit_length())


def map_distinct(function: Callable[..., float], *columns: Floats) -> Floats:
    """The function of each row of the columns, once per distinct row, in threads. Columns must have one shape."""
    rows, position = np.unique(np.stack([column.ravel() for column in columns], axis=1), axis=0, return_inverse=True)
    values = np.empty(len(rows))

    def work(first: int, last: int) -> None:
        values[first:last] = [function(*row) for row in rows[first:last]]

    in_threads(work, len(rows))
    return values[position.ravel()].reshape(columns[0].shape)


Search = Callable[[Floats, Floats, Integers, Floats], None]
"""Lowers what was found for groups of rows to the least bound of each: given the rows, what their bounds are at least, where groups begin,
with the end of the last, and what was found. A row whose bound is shown to be at least that needs no bound of its own."""


def least_of_groups(
    search: Search,
    columns: Sequence[Floats],
    groups: ArrayLike | None,
    *,
    about: Floats,
    at_least: Floats,
    trials: int = 0,
    alpha: int = 0,
) -> Any:
    """The least bound of each group of rows; groups are those from one of `groups` to the next, and without them each row is one.

    Most rows are not the least and need no bound of their own: rows come in the order of `about`, a guess at it, and those are passed
    over that are known to be `at_least` what was found. So where what is found is a bound less a tolerance, the least of all bounds
    is not below it. Equal groups are searched once. `trials` and `alpha` are the columns that tables of votes depend on.
    """
    starts = np.arange(columns[0].size) if groups is None else np.asarray(groups)
    if groups is not None:
        _check_groups(starts, columns[0])
    rows = np.stack([column.ravel() for column in columns], axis=1)
    ends, numbers = np.append(starts, len(rows))[1:], dict[bytes, int]()
    position = [numbers.setdefault(rows[i:j].tobytes(), len(numbers)) for i, j in zip(starts, ends, strict=True)]
    distinct = np.unique(position, return_index=True)[1]
    found = np.full(len(numbers), np.inf)
    of_group = np.repeat(np.arange(len(numbers)), (ends - starts)[distinct])
    places = np.concatenate([np.arange(starts[i], ends[i]) for i in distinct] or [np.zeros(0, np.int64)])
    about, at_least = about.ravel()[places], at_least.ravel()[places]
    order = np.lexsort((about, of_group))
    is_first = np.diff(of_group, prepend=-1) > 0
    # First the likely least of each, then whatever may be less: for these, tables that are not needed are not made.
    for some in (order[is_first], order[~is_first]):
        some = some[at_least[some] < found[of_group[some]]]
        begins = np.searchsorted(of_group[some], np.arange(len(numbers) + 1))
        _search_parts(search, rows[places[some]], at_least[some], begins, found, [trials, alpha])
    values = found[position]
    if groups is not None:
        return values
    return values.reshape(columns[0].shape) if columns[0].ndim else float(values[0])


def _search_parts(
    search: Search, rows: Floats, at_least: Floats, begins: Integers, found: Floats, of_tables: list[int]
) -> None:
    """Search as many groups at once as have tables of votes that may lie in memory together."""
    if len(rows) == 0:
        return
    entries = rows[:, of_tables[0]].sum()
    if entries > MOST_ENTRIES:
        entries = np.unique(rows[:, of_tables], axis=0)[:, 0].sum()
    if entries <= MOST_ENTRIES or len(found) == 1:
        search(rows, at_least, begins, found)
        return
    half = len(found) // 2
    row = begins[half]
    _search_parts(search, rows[:row], at_least[:row], begins[: half + 1], found[:half], of_tables)
    _search_parts(search, rows[row:], at_least[row:], begins[half:] - row, found[half:], of_tables)


def _check_groups(starts: Integers, column: Floats) -> None:
    begins = np.append(starts, column.size)
    if column.ndim != 1 or begins[0] != 0 or np.any(np.diff(begins) < 1):
        raise ValueError(
            f"expected groups of a list of arguments, the first from 0 on and none of them empty, got groups from {starts} on of "
            f"arguments of shape {column.shape}; give the place of the first argument of each group"
        )


def in_threads(function: Callable[[int, int], None], size: int, at_once: int = 1) -> None:
    """Call a function for the parts of range(size), in threads: compiled code, which does without the interpreter lock.

    Each thread takes the next part when it is done with one, since parts differ in cost. No part but the last has fewer than `at_once`:
    what takes a few microseconds is not worth asking for the lock.
    """
    part = max(at_once, size // (PARTS_PER_WORKER * _workers()))
    starts = iter(range(0, size, part))  # one thread at a time takes from it: next() holds the interpreter lock
    workers = min(-(-size // part), _workers())
    if workers <= 1:
        function(0, size)
        return

    def work(_: int) -> None:
        for start in starts:
            function(start, min(start + part, size))

    # Threads are started once for a process: for a few milliseconds of work that would be a good part of it.
    list(_pool().map(work, range(workers)))


def joined_tables(keys: Sequence[Any], table: Callable[..., Floats]) -> tuple[Floats, Integers]:
    """The tables of all keys, equal ones once, one after the other; where that of each key begins and ends."""
    place = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    found = [table(*key) for key in place]
    ends, at = np.cumsum([0, *map(len, found)]), np.array([place[key] for key in keys], dtype=np.int64)
    return found[0] if len(found) == 1 else np.concatenate(found), np.stack([ends[at], ends[at + 1]])


@lru_cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_workers(), thread_name_prefix="recert-search")


def _workers() -> int:
    """All cores but the one that draws votes meanwhile."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(min(cores, 2), cores - 1)


# A child process has none of its parent's threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
