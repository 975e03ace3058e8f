"""Asks for the votes of a re-certification and leaves out its bounds: a device need not wait for them."""

from collections.abc import Callable, Iterable
from typing import Any

from recert.cache import Cache
from recert.recertification.background import Background, Entry
from recert.recertification.methods import run, usual_objective
from recert.recertification.task import Task
from recert.sampling import VoteSource


class NoBounds(Background):
    """Takes votes as they are drawn, and bounds nothing.

    Which votes are asked for depends on selection votes and on flips of pilot inputs, never on a bound.
    """

    def bound(self, entries: Iterable[Entry], bound: Callable[[list[Entry]], None]) -> None:
        for _ in entries:
            pass


def ask(source: VoteSource, cache: Cache, method: str, **settings: Any) -> None:
    """Draw every vote that `recertify` asks for with these settings."""
    run(Task.of(source, cache, objective=usual_objective(method), background=NoBounds(), **settings), method)
