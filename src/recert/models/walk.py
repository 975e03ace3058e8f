"""The walk through a model and all that it refers to, and the digest of what it meets, by value."""

import functools
import hashlib
import inspect
import logging
import operator
import re
import struct
import threading
import types
import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recert.errors import UnusableModel
from recert.models.classes import hides_state, methods, slots
from recert.models.tensors import flatten, tensor_bytes, whole_storage
from recert.models.trusted import constant_of_a_package, is_installed, is_torchs
from recert.models.walk_code import (
    put_class,
    put_compiled,
    put_function,
    put_operator,
    put_user_module,
)
from recert.models.walk_mentions import put_mentioned
from recert.models.walk_modules import put_module, put_wrappers, unwrapped

PLAIN = (bool, int, float, complex, str, bytes, torch.dtype, torch.memory_format, torch.layout, range, slice, type(...))
PLAIN_BASES = (bool, int, float, complex, str, bytes)
PLAIN_IN_C = (np.dtype, torch.finfo, torch.iinfo, operator.itemgetter, operator.attrgetter, operator.methodcaller)
"""Of classes written in C, but their repr or `__reduce__` says all."""
HARMLESS = (
    logging.Logger,
    type(threading.Lock()),
    type(threading.RLock()),
    torch.device,
    torch.utils.hooks.RemovableHandle,
)
"""Values that decide no vote. Where a model runs belongs to the numerics."""
MOST_VISITS = 100_000
OF_LOGGERS = set(vars(logging.Logger("any")))
OF_HANDLES = {"hooks_dict_ref", "id", "extra_dict_ref"}
NAMES_OF_FUNCTIONS = {
    "__module__", "__name__", "__qualname__", "__doc__", "__wrapped__", "__annotations__", "__type_params__", "cache_parameters",
}  # fmt: skip
READS_IN_ORDER = ("vars", "__dict__")
READS_STORAGE = (
    "as_strided", "as_strided_", "_base", "storage", "untyped_storage", "data_ptr", "set_", "resize_", "storage_offset",
)  # fmt: skip
"""Names by which code reaches elements of which a tensor shows only some."""


class Walk:
    """Goes through a model and all it refers to, each object once."""

    def __init__(self, registered: set[int], *, of_a_part: bool = False) -> None:
        self.of_a_part = of_a_part
        self.digest = hashlib.sha256()
        self.registered = registered
        self.unknown: list[str] = []
        self.visits: Counter[int] = Counter()
        # Modules, classes and functions are hashed once. They are kept alive while they are known by their address.
        self.seen: dict[int, tuple[int, object]] = {}
        self.around: list[object] = []
        # What counts only if some code mentions it, which is known at the end.
        self.mentioned: set[str] = set()
        self.read: set[str] = set()
        self.reads_all = False
        self.by_computed_names = False
        self.counters: list[tuple[str, Any]] = []
        self.attached: list[tuple[str, Any]] = []  # to tensors, say
        self.under_masks: list[tuple[str, Any]] = []
        self.modules_met: list[types.ModuleType] = []
        self.packages_met: list[types.ModuleType] = []
        self.asides: list[tuple[str, Any, str]] = []
        """Name, value and place of what counts only if code mentions the name."""
        self.looked_beside: set[int] = set()  # objects whose asides are in the list
        self.for_forward: list[tuple[str, Any]] = []  # what counts only if `forward` reads it: gradients, say
        self.class_counters: list[tuple[str, Any]] = []
        self.read_to_vote: set[str] = set()
        self.beginnings: set[str] = set()  # of names of attributes that code puts together

    def finish(self) -> None:
        """What the code that was seen takes from modules, tensors and classes, and counters that it reads."""
        put_mentioned(self)

    def text(self, text: str) -> None:
        self.bytes(text.encode("utf-8", "surrogatepass"))

    def bytes(self, data: bytes) -> None:
        # Its length first, so that no two sequences of values have the same bytes.
        self.digest.update(struct.pack("<q", len(data)))
        self.digest.update(data)

    def value(self, value: Any, path: str) -> None:
        """Any value; `path` says where it was found, for messages."""
        if value is None or type(value) in PLAIN:
            self.text(f"{type(value).__name__} {value!r}")
            if type(value) is slice and not {type(each) for each in value.__reduce__()[1]} <= {int, type(None)}:
                self.items(value.__reduce__()[1], path)
            if type(value) is str:  # `getattr(helpers, self.name)`
                names = {part for part in value.split(".") if part.isidentifier()}
                self.mentioned |= names
                self.read |= names
        elif issubclass(type(value), HARMLESS):
            self.text("harmless")
            self._given_by_others(value, path)
        elif id(value) in self.seen:
            self.text(f"seen {self.seen[id(value)][0]}")
        elif any(value is each for each in self.around):
            self.text(f"cycle {next(i for i, each in enumerate(self.around) if each is value)}")
        elif isinstance(value, Tensor):
            self.around.append(value)
            self._tensor(value, path)
            self.around.pop()
        else:
            if isinstance(value, nn.Module | type | types.FunctionType):
                self.seen[id(value)] = len(self.seen), value
            self.visits[id(value)] += 1
            if self.visits[id(value)] > MOST_VISITS:  # two lists that hold each other's parts in 20 layers, say
                raise UnusableModel(
                    f"expected a model whose attributes can be looked through, got {path or 'one'} ({type(value).__name__}), which is referred "
                    f"to in more than {MOST_VISITS:,} ways; keep it outside of the model, or pass a function, with identity=..."
                )
            # Other values are hashed wherever they are found: whether two attributes share a list decides no vote.
            self.around.append(value)
            self._object(value, path)
            self.around.pop()

    def _tensor(self, tensor: Tensor, path: str) -> None:
        self.text(f"tensor {tensor.dtype} {tuple(tensor.shape)} {tensor.layout}")
        self.about_tensor(tensor, path)
        try:
            if (flattened := flatten(tensor)) is not None:  # a wrapper around other tensors
                names, context = flattened
                self.items((*(getattr(tensor, name) for name in names), context), path)
            else:
                self.bytes(tensor_bytes(tensor))
                if tensor.layout == torch.strided:
                    self.attached.append(("as_strided", tensor.stride()))
        except (RuntimeError, TypeError, UnusableModel):  # on no device, or of a kind that has no elements in order
            self.unknown.append(f"{path} (a tensor of layout {tensor.layout} on {tensor.device})")

    def about_tensor(self, tensor: Tensor, path: str) -> None:
        """Beside its elements: its class, and attributes that somebody gave it, which count where code mentions them."""
        if not is_torchs(type(tensor)):
            self.value(type(tensor), path)
        self.attached += sorted(vars(tensor).items(), key=lambda item: item[0])
        self.for_forward += [("requires_grad", tensor.requires_grad)] if isinstance(tensor, nn.Parameter) else []
        if tensor.is_leaf and tensor.grad is not None:
            self.for_forward.append(("grad", tensor.grad))
        if (behind := whole_storage(tensor)) is not None:
            self.asides += [(name, behind, path) for name in READS_STORAGE]

    def about_memory(self, tensor: Tensor, path: str) -> None:
        """Of a weight how it lies in memory, for code that looks at that. Of other tensors it is hashed beside their elements."""
        if tensor.layout == torch.strided and not tensor.is_contiguous():
            self.asides += [(name, tensor.stride(), path) for name in READS_STORAGE]

    def _given_by_others(self, value: Any, path: str) -> None:
        """Of an object that decides no vote: a class of the user's, and attributes that its class does not have."""
        if not is_installed(type(value)):
            self.value(type(value), path)
        own = getattr(value, "__dict__", {})
        self.beside(value, {name: own[name] for name in own.keys() - OF_LOGGERS - OF_HANDLES}, path)

    def beside(self, owner: object, values: Mapping[str, Any], path: str) -> None:
        """Note what counts of an object only if code mentions the name, once for each object."""
        if id(owner) not in self.looked_beside:
            self.looked_beside.add(id(owner))
            self.asides += [
                (name, each, f"{path}.{name}") for name, each in sorted(values.items(), key=lambda item: item[0])
            ]

    def about_wrapper(self, tensor: Tensor, path: str) -> None:
        """Of a weight that wraps other tensors, what it knows beside their elements: how they are scaled and multiplied, say."""
        if (flattened := flatten(tensor)) is None:
            return
        self.text(f"wrapper {tensor.dtype} {tuple(tensor.shape)}")
        names, context = flattened
        self.value(context, path)
        for name in names:
            inner = getattr(tensor, name)
            self.about_tensor(inner, f"{path}.{name}")
            self.about_wrapper(inner, f"{path}.{name}")

    def _array(self, array: Any, path: str) -> None:
        self.text(f"array {array.dtype.str} {array.shape}")
        if array.dtype.metadata:
            self.value(dict(array.dtype.metadata), path)
        self.asides += [("as_strided", array.strides, path)] if not array.flags.c_contiguous else []
        if array.dtype.hasobject:
            self.items(array.ravel().tolist(), path)
        else:
            self.bytes(np.ascontiguousarray(array).tobytes())

    def _object(self, value: Any, path: str) -> None:
        if isinstance(value, nn.Module):
            put_wrappers(self, value, path)
            put_module(self, unwrapped(value), path)
        elif isinstance(value, np.ndarray | np.generic):
            self.text("scalar" if isinstance(value, np.generic) else "array")
            self._array(np.asarray(value), path)
            if type(value) is not np.ndarray and isinstance(value, np.ndarray):  # a mask, a unit, ...
                self.instance(value, path, opaque=False)
        elif isinstance(value, Enum):
            self._enum(value, path)
        elif isinstance(value, type):
            put_class(self, value, path)
        elif isinstance(value, types.ModuleType):
            put_user_module(self, value, path)
        elif isinstance(value, functools.partial):
            self.text("partial")
            self.items((value.func, value.args, value.keywords), path)
            if type(value) is not functools.partial or vars(value):
                self.instance(value, path, opaque=False)
        elif isinstance(value, types.MethodType):
            self.text("method")
            self.items((value.__func__, value.__self__), path)
        elif isinstance(value, types.FunctionType):
            put_function(self, value, path)
        elif isinstance(value, torch._ops.OperatorBase | torch._ops.OpOverloadPacket):
            put_operator(self, value, path)
        elif isinstance(value, functools._lru_cache_wrapper):
            self.text("cached")
            self.value(value.__wrapped__, path)
            own = {name: each for name, each in vars(value).items() if name not in NAMES_OF_FUNCTIONS}
            shared = vars(value.__wrapped__)
            self.beside(value, {name: each for name, each in own.items() if shared.get(name, value) is not each}, path)
        elif type(value) in PLAIN_IN_C or isinstance(value, np.dtype):
            self.text(f"{type(value).__name__}")
            self.items(value.__reduce__() if type(value).__module__ == "operator" else [repr(value)], path)
            if isinstance(value, np.dtype) and value.metadata:
                self.value(dict(value.metadata), path)
        elif isinstance(value, weakref.ReferenceType):
            self.text("weak reference")
            self.value(value(), path)
            self._of_the_users(value, path)
        elif _is_numbas(value):  # compiled from this function, with these options
            self.text(f"numba {type(value).__name__}")
            self.items((value.py_func, value.targetoptions), path)
        elif inspect.isroutine(value) and hides_state(type(value)):
            put_compiled(self, value, path)
        elif isinstance(value, re.Pattern):
            self.items((value.pattern, value.flags), path)
        elif isinstance(value, PurePath):  # its attributes are caches
            self.text(f"path {value}")
            self._of_the_users(value, path)
        elif isinstance(value, Mapping):
            self.text(f"mapping {len(value)}")
            for key, each in value.items():
                self.value(key, path)
                self.value(each, f"{path}[{key!r}]")
            if isinstance(value, defaultdict):
                self.value(value.default_factory, f"{path}'s default")
            self.instance(value, path, opaque=False)
        elif isinstance(value, set | frozenset):
            self.text("set" if isinstance(value, set) else "frozen set")
            self._set(value, path)
            self.instance(value, path, opaque=False)
        elif isinstance(value, PLAIN_BASES):  # of a class of the user's own
            base = next(each for each in PLAIN_BASES if isinstance(value, each))
            self.text(f"{base.__name__} {base.__repr__(value)}")
            self.instance(value, path, opaque=False)
        elif isinstance(value, list | tuple | deque):
            self.text("tuple" if isinstance(value, tuple) else "list")  # as an index, these do not do the same
            if isinstance(value, deque) and value.maxlen is not None:
                self.text(f"of at most {value.maxlen}")
            self.items(value, path)
            self.instance(value, path, opaque=False)
        else:
            self.instance(value, path, opaque=True)

    def items(self, values: Iterable[Any], path: str) -> None:
        values = list(values)
        self.text(f"sequence {len(values)}")
        for i, each in enumerate(values):
            self.value(each, f"{path}[{i}]")

    def _set(self, values: Iterable[Any], path: str) -> None:
        """Sets have no order: digests of their members, sorted."""
        digests: list[tuple[str, Walk]] = []
        for each in values:
            alone = Walk(self.registered, of_a_part=True)
            alone.visits = self.visits
            alone.around = list(self.around)  # a member may lead back to the owner of the set
            alone.value(each, path)
            alone.finish()
            self.unknown += alone.unknown
            self.mentioned |= alone.mentioned
            self.read |= alone.read
            self.reads_all |= alone.reads_all
            self.by_computed_names |= alone.by_computed_names
            self.read_to_vote |= alone.read_to_vote
            self.beginnings |= alone.beginnings
            digests.append((alone.digest.hexdigest(), alone))
        digests.sort(key=lambda each: each[0])
        self.text(f"set {[digest for digest, _ in digests]}")
        # What counts by the names in code counts also by those in code that is outside of the set.
        for _, alone in digests:
            self.asides += [(name, each, path) for name, each in (*alone.attached, *alone.counters, *alone.under_masks)]
            self.asides += alone.asides
            self.for_forward += alone.for_forward
            self.modules_met += [
                each for each in alone.modules_met if not any(each is known for known in self.modules_met)
            ]

    def _enum(self, value: Enum, path: str) -> None:
        """One member, and what its class does; not the other members."""
        kind = type(value)
        self.text(f"enum {kind.__qualname__}.{value.name}")
        self.value(value.value, path)
        own = {
            n: each for n, each in vars(value).items() if n not in ("_value_", "_name_", "__objclass__", "_sort_order_")
        }
        for name, each in sorted(own.items()):
            self.text(f"attribute {name}")
            self.value(each, f"{path}.{name}")
        for name, function in methods(kind):
            self.text(f"member {name}")
            self.value(function, f"{path} ({kind.__qualname__}.{name})")
        if not is_installed(kind):  # whose other members code reaches by their names, or through the class
            others = {name: other.value for name, other in kind.__members__.items()}
            through = {name: list(others.items()) for name in ("type", "__class__", "__members__")}
            self.beside(kind, {**others, **through}, path)

    def order_of(self, names: Iterable[str]) -> None:
        """In which order attributes were set, if not in that of their names: for code that goes through all of them."""
        if (in_order := list(names)) != sorted(in_order):
            self.for_forward += [(name, in_order) for name in READS_IN_ORDER]

    def _of_the_users(self, value: Any, path: str) -> None:
        """Of an object whose kind is known: its class, if that is the user's own, and attributes that code mentions."""
        if not is_installed(type(value)):
            self.value(type(value), path)
            self.beside(value, vars(value), path)

    def instance(self, value: Any, path: str, *, opaque: bool) -> None:
        """An object of any class by its class and attributes. `opaque`: there must be some, or it cannot be looked into."""
        kind = type(value)
        if kind in (dict, list, tuple, set, frozenset):
            return
        before = len(self.unknown)
        self.value(kind, path)
        in_slots = {n: getattr(value, n) for c in kind.__mro__ for n in slots(c) if hasattr(value, n)}
        attributes = {**in_slots, **getattr(value, "__dict__", {})}
        self.order_of(attributes)
        if opaque and hides_state(kind):
            self.unknown.append(f"{path} ({kind.__module__}.{kind.__qualname__})")
        for name, each in sorted(attributes.items()):
            self.text(f"attribute {name}")
            self.value(each, f"{path}.{name}")
        if len(self.unknown) > before and (name := constant_of_a_package(value)) is not None:
            self.text(f"constant {name}")
            del self.unknown[before:]


def _is_numbas(value: Any) -> bool:
    """Whether it is a function that numba compiles when it is called."""
    return (
        type(value).__module__.partition(".")[0] == "numba"
        and hasattr(value, "py_func")
        and hasattr(value, "targetoptions")
    )
