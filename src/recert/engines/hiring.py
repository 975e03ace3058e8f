"""Which workers are taken on: those that can open the network and compute like the first."""

from recert.engines.worker import Facts, Refusal
from recert.errors import LostWorkers, UnusableModel

DEATHS_AT_START = 3


class Hiring:
    """Judges workers by what they report as they start, and gives up when none survives that."""

    def __init__(self, allow_numerics: bool) -> None:
        self._allow_numerics = allow_numerics
        self._deaths = 0
        self.facts: list[Facts] = []
        """Of all workers that were taken on; the first sets the batch size and the numerics."""

    def reason_against(self, said: Facts | Refusal) -> str | None:
        """Why a worker is not taken on, if there is a reason. The first must be, or the network cannot be certified."""
        if isinstance(said, Refusal):
            if not self.facts:
                raise UnusableModel(f"{said.reason} (on node {said.node})")
            return f"{said.reason} (on node {said.node})"
        if self.facts:
            if said.numerics["batch_size"] != self.facts[0].numerics["batch_size"]:
                return f"out of memory as it started on node {said.node}"
            if not self._allow_numerics:
                check_alike(self.facts[0], said)
        self.facts.append(said)
        self._deaths = 0
        return None

    def died_at_start(self, reason: str, *, others: bool) -> None:
        """A worker died before it could work. With `others` at work that is no reason to stop."""
        self._deaths += 1
        if self._deaths >= DEATHS_AT_START and not others:
            raise LostWorkers(f"{self._deaths} workers in a row died as they started, the last by: {reason}")

    def hopeless(self, wanted: int) -> bool:
        """The cluster has room in which no worker survives."""
        return self._deaths >= DEATHS_AT_START * wanted


def check_alike(first: Facts, other: Facts) -> None:
    """Votes of workers that compute differently are not the votes of one model."""
    one = {**first.numerics, "instructions": first.instructions}
    two = {**other.numerics, "instructions": other.instructions}
    for name in sorted({*one, *two}):
        if one.get(name) != two.get(name):
            raise LostWorkers(
                f"expected workers that compute alike, got {name} = {one.get(name)} on {first.node} and {two.get(name)} on "
                f"{other.node}; use nodes of one kind, or pass allow_numerics=True (--allow-numerics) to mix them"
            )
