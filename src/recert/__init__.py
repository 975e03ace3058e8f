"""recert: certify that a network's predictions are robust, and re-certify it cheaply after it was changed.

>>> import recert
>>> recert.Gaussian(sigma=0.5)
Gaussian(sigma=0.5)
"""

import importlib
from typing import TYPE_CHECKING, Any

from recert.version import __version__

if TYPE_CHECKING:
    from recert import bounds as bounds
    from recert import metrics as metrics
    from recert.auditing import audit as audit
    from recert.cache import Cache as Cache
    from recert.certificates import Certificates as Certificates
    from recert.certificates import Outcome as Outcome
    from recert.certification import certify as certify
    from recert.certification import predict as predict
    from recert.choosing import select as select
    from recert.errors import RecertError as RecertError
    from recert.models.inference import prepare as prepare
    from recert.noise import Gaussian as Gaussian
    from recert.recertification.recertify import recertify as recertify
    from recert.sampling import Progress as Progress
    from recert.sampling import StoredVotes as StoredVotes

# Names are imported when they are first used: reading a cache or asking for --help does not load torch.
_HOMES = {
    "Cache": "recert.cache",
    "Certificates": "recert.certificates",
    "Gaussian": "recert.noise",
    "Outcome": "recert.certificates",
    "Progress": "recert.sampling",
    "RecertError": "recert.errors",
    "StoredVotes": "recert.sampling",
    "audit": "recert.auditing",
    "certify": "recert.certification",
    "predict": "recert.certification",
    "prepare": "recert.models.inference",
    "recertify": "recert.recertification",
    "select": "recert.choosing",
}
_ROOMS = ("bounds", "metrics")

__all__ = ["__version__", *sorted(_HOMES), *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"recert.{name}")
    raise AttributeError(f"module 'recert' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
