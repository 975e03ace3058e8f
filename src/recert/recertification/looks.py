"""A re-certification as a look at the cached votes: looks that are planned before the first, and all looks counted."""

import json
from collections.abc import Mapping
from dataclasses import replace

from recert.cache import Cache
from recert.cache.looks import Inputs, Look, all_together
from recert.certificates import Certificates
from recert.models.identity import ModelIdentity

MOST_PLANNED = 20


def planned_share(looks: int | None) -> int:
    """Over how many looks alpha is divided."""
    if looks is None:
        return 1
    if isinstance(looks, bool) or not isinstance(looks, int) or not 1 <= looks <= MOST_PLANNED:
        raise ValueError(
            f"expected looks as a whole number from 1 to {MOST_PLANNED}, got {looks!r}; a usual value is 4"
        )
    return looks


class Question:
    """What is asked of a cache about a model. Made before any vote is drawn, so that a look that was not planned is refused."""

    def __init__(
        self,
        cache: Cache,
        model: ModelIdentity,
        samples: int,
        looks: int | None,
        asked: Mapping[str, object],
        family: int = 1,
    ) -> None:
        self._cache = cache
        self._known = cache.looks.known()
        self._model, self._samples, self._family = model, samples, family
        self._asked = json.dumps({**asked, "family": family}, sort_keys=True)
        self._inputs = Inputs.of(cache.digests)
        self._planned = () if looks is None else self._budgets(looks)

    def answered(self, result: Certificates) -> Certificates:
        """Record the look, and state in the result what holds for all looks together."""
        settings = result.settings
        look = Look(
            self._model, self._asked, self._samples, float(settings.error), self._family, self._planned, self._inputs
        )
        self._cache.looks.add(look)
        together = all_together(look, self._known, max(1, len(settings.looks)))
        return replace(result, settings=replace(settings, planned=self._planned, together=together))

    def _budgets(self, looks: int) -> tuple[int, ...]:
        """The budgets of all planned looks: fixed by the first, since a budget that is chosen after a look is not covered."""
        earlier = [
            look for look in self._known if look.planned and look.model == self._model and look.inputs & self._inputs
        ]
        budgets = earlier[0].planned if earlier else tuple(self._samples * 2**i for i in range(looks))
        if any((look.asked, look.inputs, len(look.planned)) != (self._asked, self._inputs, looks) for look in earlier):
            raise ValueError(
                f"expected the inputs and settings of the first of the {len(budgets)} looks that were planned for this model, got "
                "others; repeat its call with only samples changed, or leave looks out for a look that is counted on top"
            )
        if self._samples not in budgets:
            raise ValueError(
                f"expected samples to be one of {', '.join(map(str, budgets))}, the budgets that the first of the planned looks "
                f"fixed, got {self._samples}; a budget that is chosen after a look is not covered by the plan"
            )
        return budgets
