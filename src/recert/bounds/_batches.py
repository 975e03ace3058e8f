"""What the compiled bounds share: counts of replays are checked, and inputs are spread over threads."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike

from recert.bounds.arguments import Floats, checked_counts

TASKS_PER_WORKER = 4


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
    workers = min(len(rows), _cores())
    if workers <= 1:
        values = np.array([function(*row) for row in rows], dtype=float)
    else:
        values = np.empty(len(rows))
        # The compiled loops release the interpreter lock. Tasks of several rows, far apart and so of mixed cost, ask for it less often.
        tasks = min(len(rows), TASKS_PER_WORKER * workers)
        with ThreadPoolExecutor(workers) as pool:
            for first, done in enumerate(pool.map(lambda i: [function(*row) for row in rows[i::tasks]], range(tasks))):
                values[first::tasks] = done
    return values[position.ravel()].reshape(columns[0].shape)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
