"""Which approximations there are: built in, registered in code, or from an installed package. No torch here."""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

from recert.approximations.layers import LayerPatterns, split_patterns
from recert.errors import RecertError
from recert.registration import check_new_name, function_named

if TYPE_CHECKING:
    from torch import nn

    from recert.approximations.context import Context

ENTRY_POINT_GROUP = "recert.approximations"

Build = Callable[["nn.Module", str | None, "Context"], "nn.Module"]
"""Takes a private copy of the model (eval mode), what follows the colon, and the context; returns the new model."""


@dataclass(frozen=True)
class Kind:
    """A known approximation. `argument` names what follows the colon: "" if nothing may, None if anything may."""

    name: str
    description: str
    load: Callable[[], Build]
    argument: str | None = None
    check: Callable[[str], None] | None = None
    calibrated: bool | None = False
    """Whether it needs calibration; None if only the loaded function says so, as with an installed package."""
    by_layer: bool | None = False
    """Whether it can be limited to layers by name; None if only the loaded function says so."""

    @property
    def needs_calibration(self) -> bool:
        """Whether it measures something on calibration inputs. Imports the installed package that it is from, if there is one."""
        if self.calibrated is None:
            return bool(getattr(self.load(), "needs_calibration", False))
        return self.calibrated

    @property
    def knows_layers(self) -> bool:
        """Whether it can be limited to layers by name. Imports the installed package that it is from, if there is one."""
        if self.by_layer is None:
            return bool(getattr(self.load(), "by_layer", False))
        return self.by_layer

    @property
    def usage(self) -> str:
        return f"{self.name}:{self.argument}" if self.argument else self.name


@dataclass(frozen=True)
class Parsed:
    """A spec string taken apart."""

    spec: str
    kind: Kind
    argument: str | None
    layers: LayerPatterns | None = None
    """Which layers it is limited to; all if None."""


def parse(spec: str) -> Parsed:
    """Take a spec string apart, or say what was expected. Nothing is computed yet.

    >>> parse("prune:0.1").argument
    '0.1'
    >>> parse("prune:1.5")
    Traceback (most recent call last):
    ValueError: expected prune:F with a fraction 0 < F < 1, got 'prune:1.5'; for example prune:0.1
    """
    step, layers = split_patterns(spec)
    name, colon, argument = step.partition(":")
    kinds = _kinds()
    if name not in kinds:
        known = ", ".join(kind.usage for kind in kinds.values())
        raise ValueError(f"expected one of the known approximations ({known}), got {spec!r}")
    kind = kinds[name]
    if colon and kind.argument == "":
        raise ValueError(f"expected {name} with nothing after it, got {spec!r}; write {name}")
    if layers is not None and not kind.knows_layers:
        able = ", ".join(each.name for each in kinds.values() if each.by_layer)
        raise ValueError(f"expected {name} for all layers, got {spec!r}; limited to layers by name can be {able}")
    if kind.check is not None:
        try:
            kind.check(argument)
        except ValueError as error:
            raise ValueError(f"expected {kind.usage} {error}, got {spec!r}; for example {name}:0.1") from None
    return Parsed(spec, kind, argument if colon else None, layers)


def steps(spec: str) -> list[str]:
    """One approximation after the other. A plus sign that no known name follows belongs to an argument.

    >>> steps("prune:0.3+int8"), steps("int8")
    (['prune:0.3', 'int8'], ['int8'])
    """
    if not isinstance(spec, str):
        raise ValueError(f"expected the name of an approximation, such as 'int8', got {spec!r}")
    names = "|".join(sorted(map(re.escape, _kinds()), key=len, reverse=True))
    return re.split(rf"\+(?=(?:{names})(?:[:+\[]|$))", spec)


def needs_calibration(spec: str) -> bool:
    """Whether any step of a spec needs calibration inputs; if so, `approximate` must be given them.

    >>> needs_calibration("prune:0.3"), needs_calibration("prune:0.3+int8")
    (False, True)
    """
    return any(parse(step).kind.needs_calibration for step in steps(spec))


def available_approximations() -> dict[str, str]:
    """Every known approximation, as it is written (`prune:F`), with one line about it. Imports no torch."""
    return {kind.usage: kind.description for kind in _kinds().values()}


def register_approximation(
    name: str, build: Build, *, description: str | None = None, needs_calibration: bool = False, by_layer: bool = False
) -> None:
    """Make `name` and `name:ARGUMENT` known as approximations in this process.

    `build(model, argument, context)` is given a private copy of the model, in eval mode, and returns the new one. With
    `needs_calibration` the command line hands it noisy training inputs in `context.calibration`. An installed package does
    the same with an entry point in the group `recert.approximations`; its function has the attribute
    `needs_calibration = True` if it needs them. With `by_layer` (an attribute, too) it may be limited to layers, `name[conv1,!fc]`, and asks
    `context.chosen(names)` which of its layers are meant.
    """
    check_new_name(name, _BUILT_IN)
    if not callable(build):
        raise ValueError(f"expected a function(model, argument, context), got {build!r}")
    line = description or (build.__doc__ or "").strip().partition("\n")[0] or "registered in code"
    _registered[name] = Kind(name, line, lambda: build, calibrated=needs_calibration, by_layer=by_layer)


def _kinds() -> dict[str, Kind]:
    """All kinds by name. What is from an installed package never replaces a built-in."""
    kinds = {**_BUILT_IN, **_registered}
    for point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        if point.name in _BUILT_IN:
            warnings.warn(
                f"{point.value} wants to be the approximation {point.name!r}, which is built in; it is ignored",
                stacklevel=3,
            )
        line, load = f"from {_origin(point)}", _entry_point_loader(point)
        kinds.setdefault(point.name, Kind(point.name, line, load, calibrated=None, by_layer=None))
    return kinds


def _origin(point: metadata.EntryPoint) -> str:
    return f"{point.dist.name} ({point.value})" if point.dist is not None else point.value


def _entry_point_loader(point: metadata.EntryPoint) -> Callable[[], Build]:
    def load() -> Build:
        try:
            build: Build = point.load()
        except Exception as error:
            raise RecertError(
                f"the approximation {point.name!r} from {_origin(point)} could not be loaded: {error}; "
                "repair or remove that package"
            ) from error
        return build

    return load


def _fraction(text: str) -> None:
    try:
        inside = 0 < float(text) < 1
    except ValueError:
        inside = False
    if not inside:
        raise ValueError("with a fraction 0 < F < 1")


def _built_in(name: str, function: str, description: str, argument: str = "", **facts: Any) -> Kind:
    """A kind whose function is imported, and torch with it, when it is used. `function` is MODULE:NAME in this package."""

    def load() -> Build:
        return function_named(f"recert.approximations.{function}")

    return Kind(name, description, load, argument, **facts)


_BUILT_IN = {
    kind.name: kind
    for kind in (
        _built_in("fp16", "precision:fp16", "weights and computation in float16 (on a GPU; very slow on a CPU)"),
        _built_in("bf16", "precision:bf16", "weights and computation in bfloat16"),
        _built_in("fp16-weights", "precision:fp16_weights", "weights rounded to float16, computed in float32", by_layer=True),
        _built_in("bf16-weights", "precision:bf16_weights", "weights rounded to bfloat16, computed in float32", by_layer=True),
        _built_in("int8", "int8:int8", "weights and activations of convolutions and linear layers in 8-bit integers (CPU)", calibrated=True, by_layer=True),
        _built_in("int8-twin", "int8:int8_twin", "the same integers as int8, computed in float32 on any device", calibrated=True, by_layer=True),
        _built_in("prune", "pruning:prune_globally", "the smallest fraction F of all weights set to zero", "F", check=_fraction, by_layer=True),
        _built_in("prune-layer", "pruning:prune_by_layer", "the smallest fraction F of each layer's weights set to zero", "F", check=_fraction, by_layer=True),
    )
}  # fmt: skip
_registered: dict[str, Kind] = {}
