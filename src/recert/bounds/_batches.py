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

TASKS_PER_WORKER = 4
MOST_WORKERS = 6


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
    values = np.array(_in_threads(lambda row: function(*row), list(rows)), dtype=float)
    return values[position.ravel()].reshape(columns[0].shape)


def map_least(
    function: Callable[..., float],
    reaches: Callable[..., bool],
    columns: Sequence[Floats],
    *,
    starts: Integers,
    about: Floats,
    at_least: Floats,
) -> Floats:
    """The least value of the function in each group of rows; groups are those from one of `starts` to the next.

    Most rows are not the least and need no value of their own: rows come in the order of `about`, a guess at it; one for which
    the function is known to be `at_least` what was found, or of which `reaches(value, *row)` shows it, is passed over. So
    where the function is a bound less a tolerance, the least of all bounds is not below what is found.
    """
    _check_groups(starts, columns[0])
    rows = np.stack(columns, axis=1)
    groups = [range(start, stop) for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True)]
    numbers: dict[bytes, int] = {}
    position = [numbers.setdefault(rows[group.start : group.stop].tobytes(), len(numbers)) for group in groups]
    distinct = [groups[i] for i in np.unique(position, return_index=True)[1]]

    def least(group: range) -> float:
        first, *others = group.start + np.argsort(about[group.start : group.stop], kind="stable")
        found = function(*rows[first])
        for i in others:
            if at_least[i] < found and not reaches(found, *rows[i]):
                found = min(found, function(*rows[i]))
        return found

    return np.array(_in_threads(least, distinct), dtype=float)[position]


def _check_groups(starts: Integers, column: Floats) -> None:
    begins = np.append(starts, column.size)
    if column.ndim != 1 or begins[0] != 0 or np.any(np.diff(begins) < 1):
        raise ValueError(
            f"expected groups of a list of arguments, the first from 0 on and none of them empty, got groups from {starts} on of "
            f"arguments of shape {column.shape}; give the place of the first argument of each group"
        )


def _in_threads(function: Callable[[Any], float], items: Sequence[Any]) -> list[float]:
    """The compiled loops release the interpreter lock. Tasks of several items, far apart and so of mixed cost, ask for it less often."""
    workers = min(len(items), _workers())
    if workers <= 1:
        return [function(item) for item in items]
    values = [0.0] * len(items)
    tasks = min(len(items), TASKS_PER_WORKER * workers)
    # Threads are started once for a process: for a few milliseconds of work that would be a good part of it.
    for first, done in enumerate(_pool().map(lambda i: [function(item) for item in items[i::tasks]], range(tasks))):
        values[first::tasks] = done
    return values


@lru_cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_workers(), thread_name_prefix="recert-search")


def _workers() -> int:
    """Between compiled loops each needs the interpreter, which runs one thread at a time: with many they wait for each other."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_WORKERS)


# A child process has none of its parent's threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
