"""A re-certification as a look at the cached votes: looks that are planned before the first, and all looks counted."""

import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from recert.cache import Cache
from recert.cache.looks import Inputs, Look, all_together, has_a_name
from recert.certificates import Certificates
from recert.errors import CorruptCache
from recert.models.identity import ModelIdentity

MOST_PLANNED = 20


def planned_share(looks: int | None) -> int:
    """Over how many looks alpha is divided."""
    if looks is None:
        return 1
    if isinstance(looks, bool) or not isinstance(looks, int | np.integer) or not 2 <= looks <= MOST_PLANNED:
        raise ValueError(
            f"expected looks as a whole number from 2 to {MOST_PLANNED}, got {looks!r}; a usual value is 4"
        )
    return int(looks)


class PendingLook:
    """What is asked of a cache about a model. Made before any vote is drawn, so that a look that was not planned is refused."""

    def __init__(
        self, cache: Cache, model: ModelIdentity, samples: int, asked: Mapping[str, object], *, family: int = 1, looks: int | None = None
    ) -> None:  # fmt: skip
        self._cache = cache
        self._known = cache.looks.known()
        self._model, self._samples, self._family = model, samples, family
        self._inputs = Inputs.of(cache.digests)
        asked = {**asked, "family": family}
        if looks is not None:  # a plan is about the votes that the cache has now
            asked |= {"cached samples": cache.manifest.samples, "cached selection": cache.manifest.selection_samples}
        self._asked = json.dumps(asked, sort_keys=True)
        self.planned = () if looks is None else self._budgets(int(looks))

    def recorded(self, result: Certificates, *, error: float | None = None) -> Certificates:
        """Record the look, and state in the result what holds for all looks together. `error`: of its claims, if not the result's."""
        settings = result.settings
        error = float(settings.error if error is None else error)
        look = Look(self._model, self._asked, self._samples, error, self._family, self.planned, self._inputs)
        self._cache.looks.add(look)
        together = all_together(look, self._known_now(), max(1, len(self._cache.sizes)))
        return replace(result, settings=replace(settings, planned=self.planned, together=together))

    def _known_now(self) -> list[Look]:
        """With looks that others took meanwhile; what was damaged meanwhile must not cost a result that is there."""
        try:
            return self._cache.looks.known()
        except CorruptCache:
            return self._known

    def _budgets(self, looks: int) -> tuple[int, ...]:
        """The budgets of all planned looks: fixed by the first, since a budget that is chosen after a look is not covered."""
        if not has_a_name(self._model):
            raise ValueError(
                "expected a model that can be distinguished from others with looks=..., got a function without a name; pass identity=..."
            )
        earlier = [
            look
            for look in self._known
            if look.planned and look.model == self._model and look.inputs.overlaps(self._inputs)
        ]
        budgets = earlier[0].planned if earlier else tuple(self._samples * 2**i for i in range(looks))
        for look in earlier:
            self._check_same(look, looks)
        if self._samples not in budgets:
            raise ValueError(
                f"expected samples to be one of {', '.join(map(str, budgets))}, the budgets that the first of the planned looks "
                f"fixed, got {self._samples}; a budget that is chosen after a look is not covered by the plan"
            )
        return budgets

    def _check_same(self, first: Look, looks: int) -> None:
        """Nothing but the budget may differ from the first of the planned looks."""
        was, now = (json.loads(asked) for asked in (first.asked, self._asked))
        was, now = {**was, "looks": len(first.planned)}, {**now, "looks": looks}
        differing = [name for name in sorted({*was, *now}) if was.get(name) != now.get(name)]
        if first.inputs != self._inputs:
            differing.append("inputs")
        if differing:
            name = differing[0]
            values = f": {was.get(name)} then, {now.get(name)} now" if name != "inputs" else ""
            raise ValueError(
                f"expected the settings of the first of the {len(first.planned)} looks that were planned for this model, got another "
                f"{name}{values}; repeat its call with only samples changed, or leave looks out for a look that is counted on top"
            )
