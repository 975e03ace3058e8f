"""A model made cheaper: rounded, quantised, pruned. Never in place, and never without showing that it changed.

>>> from recert.approximations import available_approximations
>>> "prune:F" in available_approximations()
True
"""

import importlib
from typing import TYPE_CHECKING, Any

from recert.approximations.registry import (
    available_approximations,
    needs_calibration,
    parse,
    register_approximation,
    steps,
)

if TYPE_CHECKING:
    from recert.approximations.approximation import Approximation as Approximation
    from recert.approximations.approximation import approximate as approximate
    from recert.approximations.calibration import Calibration as Calibration
    from recert.approximations.context import Context as Context

# Listing what there is must not load torch; making an approximation does.
_MODULES = {
    "Approximation": "recert.approximations.approximation",
    "Calibration": "recert.approximations.calibration",
    "Context": "recert.approximations.context",
    "approximate": "recert.approximations.approximation",
}

__all__ = [
    "Approximation",
    "Calibration",
    "Context",
    "approximate",
    "available_approximations",
    "needs_calibration",
    "parse",
    "register_approximation",
    "steps",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'recert.approximations' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
