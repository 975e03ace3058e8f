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
    from recert import errors as errors
    from recert import metrics as metrics
    from recert.approximations.approximation import approximate as approximate
    from recert.approximations.calibration import Calibration as Calibration
    from recert.approximations.registry import register_approximation as register_approximation
    from recert.approximations.rules import candidates as candidates
    from recert.approximations.saving import save_model as save_model
    from recert.auditing.audit import audit as audit
    from recert.billing import Bill as Bill
    from recert.billing import bill as bill
    from recert.bundles.checking import check as check
    from recert.bundles.writing import bundle as bundle
    from recert.cache import Cache as Cache
    from recert.caching import CachingSource as CachingSource
    from recert.certificates import Certificate as Certificate
    from recert.certificates import Certificates as Certificates
    from recert.certificates import Outcome as Outcome
    from recert.certification import certify as certify
    from recert.certification import predict as predict
    from recert.choosing.select import select as select
    from recert.comparison import compare as compare
    from recert.engines.execution import Execution as Execution
    from recert.engines.registry import register_engine as register_engine
    from recert.errors import RecertError as RecertError
    from recert.gain import ExpectedGain as ExpectedGain
    from recert.gain import expected_gain as expected_gain
    from recert.models.inference import prepare as prepare
    from recert.models.loading import load_model as load_model
    from recert.models.normalization import Normalize as Normalize
    from recert.models.numerics import Numerics as Numerics
    from recert.noise import Gaussian as Gaussian
    from recert.noise import Laplace as Laplace
    from recert.noise import Noise as Noise
    from recert.noise import Splitting as Splitting
    from recert.noise import Stream as Stream
    from recert.noise import Uniform as Uniform
    from recert.noise import parse_noise as parse_noise
    from recert.noise import register_noise as register_noise
    from recert.proxy import certify_by_proxy as certify_by_proxy
    from recert.recertification.irs import Irs as Irs
    from recert.recertification.method import Method as Method
    from recert.recertification.method import Strategy as Strategy
    from recert.recertification.recertify import draw_votes as draw_votes
    from recert.recertification.recertify import recertify as recertify
    from recert.recertification.registry import register_method as register_method
    from recert.recertification.scratch import Scratch as Scratch
    from recert.sampling import Progress as Progress
    from recert.sampling import Remote as Remote
    from recert.sampling import StoredVotes as StoredVotes
    from recert.sampling import VoteChunk as VoteChunk
    from recert.sampling import VoteSource as VoteSource
    from recert.sampling import Work as Work
    from recert.sampling import open_source as open_source
    from recert.smoothed import Smoothed as Smoothed
    from recert.training import Epoch as Epoch
    from recert.training import Recipe as Recipe
    from recert.training import TrainedModel as TrainedModel
    from recert.training import train as train

# Names are imported when they are first used: reading a cache or asking for --help does not load torch.
_MODULES = {
    "recert.approximations.approximation": ("approximate",),
    "recert.approximations.calibration": ("Calibration",),
    "recert.approximations.registry": ("register_approximation",),
    "recert.approximations.rules": ("candidates",),
    "recert.approximations.saving": ("save_model",),
    "recert.auditing.audit": ("audit",),
    "recert.billing": ("Bill", "bill"),
    "recert.bundles.checking": ("check",),
    "recert.bundles.writing": ("bundle",),
    "recert.cache": ("Cache",),
    "recert.caching": ("CachingSource",),
    "recert.certificates": ("Certificate", "Certificates", "Outcome"),
    "recert.certification": ("certify", "predict"),
    "recert.choosing.select": ("select",),
    "recert.comparison": ("compare",),
    "recert.engines.execution": ("Execution",),
    "recert.engines.registry": ("register_engine",),
    "recert.errors": ("RecertError",),
    "recert.gain": ("ExpectedGain", "expected_gain"),
    "recert.models.inference": ("prepare",),
    "recert.models.loading": ("load_model",),
    "recert.models.normalization": ("Normalize",),
    "recert.models.numerics": ("Numerics",),
    "recert.noise": ("Gaussian", "Laplace", "Noise", "Splitting", "Stream", "Uniform", "parse_noise", "register_noise"),
    "recert.proxy": ("certify_by_proxy",),
    "recert.recertification": ("Irs", "Method", "Scratch", "Strategy", "draw_votes", "recertify", "register_method"),
    "recert.sampling": ("Progress", "Remote", "StoredVotes", "VoteChunk", "VoteSource", "Work", "open_source"),
    "recert.smoothed": ("Smoothed",),
    "recert.training": ("Epoch", "Recipe", "TrainedModel", "train"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}
_PUBLIC_MODULES = ("bounds", "errors", "metrics")

__all__ = ["__version__", *sorted(_HOMES), *_PUBLIC_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _PUBLIC_MODULES:
        return importlib.import_module(f"recert.{name}")
    raise AttributeError(f"module 'recert' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
