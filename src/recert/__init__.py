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
    from recert.recertification.irs import Irs as Irs
    from recert.recertification.method import Method as Method
    from recert.recertification.recertify import draw_votes as draw_votes
    from recert.recertification.recertify import recertify as recertify
    from recert.recertification.registry import register_method as register_method
    from recert.recertification.scratch import Scratch as Scratch
    from recert.sampling import Progress as Progress
    from recert.sampling import StoredVotes as StoredVotes

# Names are imported when they are first used: reading a cache or asking for --help does not load torch.
_HOMES = {
    "Cache": "recert.cache",
    "Certificates": "recert.certificates",
    "Gaussian": "recert.noise",
    "Irs": "recert.recertification",
    "Method": "recert.recertification",
    "Outcome": "recert.certificates",
    "Progress": "recert.sampling",
    "RecertError": "recert.errors",
    "Scratch": "recert.recertification",
    "StoredVotes": "recert.sampling",
    "audit": "recert.auditing",
    "certify": "recert.certification",
    "draw_votes": "recert.recertification",
    "predict": "recert.certification",
    "prepare": "recert.models.inference",
    "recertify": "recert.recertification",
    "register_method": "recert.recertification",
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
