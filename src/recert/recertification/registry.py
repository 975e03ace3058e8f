"""The methods by name."""

from typing import Any

from recert.recertification.auto import Auto
from recert.recertification.irs import Irs
from recert.recertification.joint import Joint
from recert.recertification.method import Strategy
from recert.recertification.paired import Paired
from recert.recertification.scratch import Scratch, ScratchCached
from recert.recertification.series import Series
from recert.registration import check_new_name

_METHODS: dict[str, Strategy] = {
    method.name: method for method in (Auto(), Series(), Paired(), Joint(), Irs(), Scratch(), ScratchCached())
}


def register_method(method: Strategy) -> None:
    """Make a method known by its name in this process, for `recertify(method=NAME)` and the command line."""
    if not isinstance(method, Strategy):
        raise ValueError(f"expected a method such as recert.Irs(), got {method!r}")
    check_new_name(method.name, _METHODS)
    _METHODS[method.name] = method


def available_methods() -> tuple[str, ...]:
    """Names of all methods."""
    return tuple(_METHODS)


def method_named(method: Any) -> Strategy:
    """The method of this name, or a method as it is."""
    if isinstance(method, Strategy):
        return method
    if isinstance(method, type) and issubclass(method, Strategy):
        raise ValueError(f"expected a method, got the class {method.__name__}; write {method.__name__}()")
    if method not in _METHODS:
        raise ValueError(f"expected method to be one of {', '.join(_METHODS)}, got {method!r}")
    return _METHODS[method]
