"""What of a class belongs to a model's identity: its members, what its methods count up, whether its objects hide something."""

import abc
import ast
import functools
import inspect
import struct
import types
from collections.abc import Iterator
from typing import Any

from recert.models.source import COPIES, counted, mentioned, own_node, written
from recert.models.trusted import is_installed, is_installed_code, is_torchs

UNUSED_IN_CLASSES = {
    "__module__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__annotate__", "__annotate_func__", "__qualname__",
    "__firstlineno__", "__static_attributes__", "__parameters__", "__orig_bases__", "_abc_impl", "__abstractmethods__",
    "__dataclass_params__", "__dataclass_fields__", "__match_args__", "not_identity", "__slots__", "__hash__",
}  # fmt: skip
ASKS_FOR_CLASSES = (
    "isinstance",
    "issubclass",
    "__mro__",
    "mro",
    "__bases__",
    "__base__",
    "singledispatch",
    "registry",
    "__match_args__",
)
"""Names by which code asks of which class something is."""
OF_EVERY_MODULE = {"dump_patches", "call_super_init", "_version"}
"""Plain values that classes of torch come with."""


def slots(kind: type) -> list[str]:
    """Attributes of a class that are in `__slots__`, as `getattr` finds them."""
    named = vars(kind).get("__slots__", ())
    names = [
        name for name in ((named,) if isinstance(named, str) else named) if name not in ("__dict__", "__weakref__")
    ]
    private = f"_{kind.__name__.lstrip('_')}"
    return [f"{private}{name}" if name.startswith("__") and not name.endswith("__") else name for name in names]


def hides_state(kind: type) -> bool:
    """Whether objects of a class hold more than Python's attributes: what a class written in C keeps in them."""
    pointer = struct.calcsize("P")
    links = [getattr(kind, name, 0) > 0 for name in ("__dictoffset__", "__weakrefoffset__")]
    in_slots = sum(len(slots(each)) for each in kind.__mro__)
    plain = object.__basicsize__ + pointer * (sum(links) + in_slots)
    return kind.__itemsize__ > 0 or kind.__basicsize__ > plain


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """What of a class is hashed: all of the user's, the code of installed ones, and what was put into those of torch.

    Also a `forward` that was put there from another class of torch.
    """
    for name, value in sorted(vars(kind).items()):
        if name in UNUSED_IN_CLASSES:
            continue
        if is_torchs(kind):
            if isinstance(value, types.FunctionType) and (
                not is_installed_code(value) or _is_of_another(value, name, kind)
            ):
                yield name, value
        elif not is_installed(kind) or _is_code(value):
            yield name, value


def beside_members(kind: type) -> Iterator[tuple[str, Any]]:
    """What of a class counts only where some code mentions it, by the name that the code then has."""
    if is_torchs(kind):  # what was put there that is no function
        for name, value in sorted(vars(kind).items()):
            if not (
                name.startswith("__")
                or name in OF_EVERY_MODULE
                or _is_code(value)
                or callable(value)
                or hasattr(value, "__get__")
            ):
                yield name, value
        return
    if is_installed(kind):
        return
    if "__match_args__" in vars(kind):
        yield "__match_args__", vars(kind)["__match_args__"]
    if not any(True for _ in members(kind)):  # which only marks its classes
        yield from ((name, kind.__qualname__.rpartition(".")[2]) for name in ASKS_FOR_CLASSES)
    own = vars(kind).get("__hash__")
    if isinstance(own, types.FunctionType) and own.__code__.co_filename != "<string>":  # as that of a data class
        yield "hash", own
    fields = vars(kind).get("__dataclass_fields__", {})
    if about := [(name, dict(each.metadata)) for name, each in fields.items() if each.metadata]:
        yield "fields", about
    if "_abc_impl" in vars(kind) and (taken_in := [each for each in map(_behind, abc._get_dump(kind)[0]) if each]):  # type: ignore[attr-defined]
        yield "isinstance", sorted(taken_in, key=lambda each: each.__qualname__)


def _behind(reference: Any) -> Any:
    return reference()


def calls_past_itself(kind: type) -> list[tuple[str, str]]:
    """Methods that call another method as the classes before have it, although this class has one of its own: `super().other()`."""
    found = []
    for function in _functions_in(kind):
        node = own_node(function.__code__, function) if "super" in function.__code__.co_names else None
        names = frozenset() if node is None else _called_on_super(node)
        found += [(function.__name__, name) for name in names & vars(kind).keys() if name != function.__name__]
    return sorted(found)


@functools.lru_cache(maxsize=4096)
def _called_on_super(node: ast.AST) -> frozenset[str]:
    return frozenset(
        each.attr for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Call) and getattr(each.value.func, "id", None) == "super"
    )  # fmt: skip


def _is_of_another(function: types.FunctionType, name: str, kind: type) -> bool:
    home = function.__qualname__.rpartition(".")[0]
    return name == "forward" and home not in ("", kind.__qualname__)


def _is_code(value: Any) -> bool:
    return isinstance(value, types.FunctionType | staticmethod | classmethod | property | functools.cached_property)


def functions_of(value: Any) -> list[Any]:
    """The functions of a member of a class; a value as it is."""
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    if isinstance(value, property | types.DynamicClassAttribute):
        own = [] if is_torchs(type(value)) else [type(value), vars(value)]  # a class of the user's may do anything
        return [*own, *(each for each in (value.fget, value.fset) if each is not None)]
    if isinstance(value, functools.cached_property):
        return [value.func]
    if inspect.isdatadescriptor(value) and is_torchs(type(value)):  # of slots and named tuples
        return []
    return [value]


def methods(kind: type) -> Iterator[tuple[str, types.FunctionType]]:
    """Functions of the user's own in a class and those before it."""
    for ancestor in kind.__mro__:
        for name, value in sorted(vars(ancestor).items()) if not is_torchs(ancestor) else ():
            for each in functions_of(value):
                if isinstance(each, types.FunctionType) and not is_installed_code(each):
                    yield name, each


def _functions_in(kind: type) -> list[types.FunctionType]:
    found = [each for value in vars(kind).values() for each in functions_of(value)]
    return [each for each in found if isinstance(each, types.FunctionType)]


@functools.cache
def names_in_class(kind: type) -> frozenset[str]:
    return frozenset().union(*(mentioned(each.__code__) for each in _functions_in(kind)))


def kept_by_methods(kind: type) -> set[str]:
    """Attributes that methods assign, except where an object is made or copied: what changes while a model votes."""
    users = [ancestor for ancestor in kind.__mro__ if not is_torchs(ancestor)]
    functions = [each for kind in users for each in _functions_in(kind) if each.__name__ not in {"__init__", *COPIES}]
    return {name for each in functions if (node := own_node(each.__code__, each)) is not None for name in written(node)}


def counters(kind: type) -> set[str]:
    """Attributes that methods count up, such as `self.calls += 1`: unless something reads them they decide no vote."""
    users = [ancestor for ancestor in kind.__mro__ if not is_torchs(ancestor)]
    return {name for each in users for function in _functions_in(each) for name in counted(function)}
