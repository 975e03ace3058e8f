"""Digest of what a model does beside its weights: by value, so that two models with one digest vote alike.

Code is hashed without comments, layout and docstrings, and with everything that it refers to: closures, defaults, globals, helper
functions, class attributes. Attributes are hashed by value, whatever their names. What cannot be hashed is named, and a
model with such an attribute needs a name from its user before its votes are stored.
"""

import ast
import functools
import hashlib
import inspect
import logging
import re
import struct
import threading
import types
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recert.models.source import code_names, code_text
from recert.models.tensors import tensor_bytes
from recert.models.trusted import is_constant_of_a_package, is_installed, is_torchs

PLAIN = (bool, int, float, complex, str, bytes, torch.dtype, torch.memory_format, torch.layout, range, slice, type(...))
HARMLESS = (logging.Logger, type(threading.Lock()), type(threading.RLock()), torch.device)
"""Values that decide no vote. Where a model runs belongs to the numerics."""
UNUSED_ATTRIBUTES = {
    "training", "_made_by", "_is_torch_compile", "_compiled_call_impl", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_backward_pre_hooks", "_backward_hooks",
    "_is_full_backward_hook", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
}  # fmt: skip
"""Of every module: hashed elsewhere (weights, children), or without influence on `forward`."""
OPERATORS = {
    "aten",
    "prims",
    "prim",
    "higher_order",
    "quantized",
    "quantized_decomposed",
    "torchvision",
    "torchao",
    "onednn",
    "mkldnn",
}
"""Namespaces of operators that come with torch and its own packages."""
UNUSED_IN_CLASSES = {
    "__module__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__annotate__", "__annotate_func__", "__qualname__",
    "__firstlineno__", "__static_attributes__", "__parameters__", "__orig_bases__", "_abc_impl", "__abstractmethods__",
    "__dataclass_params__", "__dataclass_fields__", "__match_args__", "not_identity", "__slots__", "__hash__",
}  # fmt: skip


def structure_digest(model: nn.Module, name: str | None = None) -> tuple[str, list[str]]:
    """Digest of a model's structure, and the attributes that it could not look into."""
    walk = _Walk(set(map(id, model.modules())))
    walk.text(f"name {name or ''}")
    walk.value(model, "")
    for hooks in ("_global_forward_pre_hooks", "_global_forward_hooks"):  # of all modules in this process
        walk.value(list(getattr(nn.modules.module, hooks, {}).values()), hooks)
    return f"2-{walk.digest.hexdigest()}", walk.unknown


def unwrapped(model: Any) -> Any:
    """The network inside torch.compile's wrapper, which computes the same."""
    while isinstance(model, nn.Module) and type(model).__name__ == "OptimizedModule" and "_orig_mod" in model._modules:
        model = model._modules["_orig_mod"]
    return model


class _Walk:
    """Goes through a model and all it refers to, each object once."""

    def __init__(self, registered: set[int]) -> None:
        self.digest = hashlib.sha256()
        self._registered = registered
        self.unknown: list[str] = []
        # Modules, classes and functions are hashed once. They are kept alive while they are known by their address.
        self._seen: dict[int, tuple[int, object]] = {}
        self._around: list[object] = []

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
        elif isinstance(value, HARMLESS):
            self.text("harmless")
        elif isinstance(value, Tensor):
            self._tensor(value)
        elif isinstance(value, np.ndarray | np.generic):
            self._array(np.asarray(value), path)
        elif id(value) in self._seen:
            self.text(f"seen {self._seen[id(value)][0]}")
        elif any(value is each for each in self._around):
            self.text("cycle")
        else:
            if isinstance(value, nn.Module | type | types.FunctionType):
                self._seen[id(value)] = len(self._seen), value
            # Other values are hashed wherever they are found: whether two attributes share a list decides no vote.
            self._around.append(value)
            self._object(value, path)
            self._around.pop()

    def _tensor(self, tensor: Tensor) -> None:
        self.text(f"tensor {tensor.dtype} {tuple(tensor.shape)}")
        self.bytes(tensor_bytes(tensor))

    def _array(self, array: Any, path: str) -> None:
        self.text(f"array {array.dtype.str} {array.shape}")
        if array.dtype.hasobject:
            self._items(array.ravel().tolist(), path)
        else:
            self.bytes(np.ascontiguousarray(array).tobytes())

    def _object(self, value: Any, path: str) -> None:
        if isinstance(value, nn.Module):
            self._module(unwrapped(value), path)
        elif isinstance(value, Enum):
            self.text(f"enum {type(value).__qualname__}.{value.name}")
            self.value(value.value, path)
        elif isinstance(value, type):
            self._class(value, path)
        elif isinstance(value, types.ModuleType):
            self.text(f"module {value.__name__ if is_installed(value) else ''}")
        elif isinstance(value, functools.partial):
            self.text("partial")
            self._items((value.func, value.args, value.keywords), path)
        elif isinstance(value, types.MethodType):
            self.text("method")
            self._items((value.__func__, value.__self__), path)
        elif isinstance(value, types.FunctionType):
            self._function(value, path)
        elif isinstance(value, torch._ops.OperatorBase | torch._ops.OpOverloadPacket):
            self._operator(value, path)
        elif inspect.isbuiltin(value) or inspect.isroutine(value):
            self._compiled(value, path)
        elif isinstance(value, re.Pattern):
            self._items((value.pattern, value.flags), path)
        elif isinstance(value, Mapping):
            self.text(f"mapping {len(value)}")
            for key, each in value.items():
                self.value(key, path)
                self.value(each, f"{path}[{key!r}]")
            self._instance(value, path, opaque=False)
        elif isinstance(value, set | frozenset):
            self._set(value, path)
        elif isinstance(value, list | tuple):
            self._items(value, path)
            self._instance(value, path, opaque=False)
        else:
            self._instance(value, path, opaque=True)

    def _items(self, values: Iterable[Any], path: str) -> None:
        values = list(values)
        self.text(f"sequence {len(values)}")
        for i, each in enumerate(values):
            self.value(each, f"{path}[{i}]")

    def _set(self, values: Iterable[Any], path: str) -> None:
        """Sets have no order: digests of their members, sorted."""
        digests = []
        for each in values:
            alone = _Walk(self._registered)
            alone.value(each, path)
            self.unknown += alone.unknown
            digests.append(alone.digest.hexdigest())
        self.text(f"set {sorted(digests)}")

    def _module(self, module: nn.Module, path: str) -> None:
        if isinstance(module, torch.jit.ScriptModule):
            self._script(module, path)
            return
        self.value(type(module), path)
        if isinstance(module, torch.fx.GraphModule):
            self._graph(module, path)
        else:
            self._attributes(module, path)
        tensors = {**module._parameters, **module._buffers}
        self.text(f"buffers {sorted(tensors)}")
        if id(module) not in self._registered:  # in a plain list, say: its values are not among the model's weights
            self._items([tensors[name] for name in sorted(tensors)], path)
        for name, child in module._modules.items():
            self.text(f"child {name}")
            self.value(child, f"{path}.{name}".lstrip("."))
        hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
        if hooks:
            self._items(hooks, f"{path}'s hooks")

    def _attributes(self, module: nn.Module, path: str) -> None:
        left_out = {*UNUSED_ATTRIBUTES, "_forward_pre_hooks", "_forward_hooks", *getattr(module, "not_identity", ())}
        kind: Any = type(module)
        counters = written_only(kind)
        for name, value in sorted(vars(module).items()):
            if name in left_out or (name in counters and isinstance(value, int | float)):
                continue
            self.text(f"attribute {name}")
            self._named(value, f"{path}.{name}".lstrip("."), lenient=is_torchs(type(module)))

    def _named(self, value: Any, path: str, *, lenient: bool) -> None:
        """An attribute. Of torch's own modules what cannot be hashed is not the user's: its type is enough."""
        before = len(self.unknown)
        self.value(value, path)
        if lenient:
            del self.unknown[before:]

    def _script(self, module: torch.jit.ScriptModule, path: str) -> None:
        """A traced or scripted module: its graph, and the constants in it."""
        graph = module.inlined_graph.str(False)  # type: ignore[attr-defined]
        self.text(re.sub(r"___torch_mangle_\d+\.", "", graph))
        for name, constant in sorted(module.code_with_constants[1].const_mapping.items()):
            self.value(constant, f"{path}.{name}")

    def _graph(self, module: torch.fx.GraphModule, path: str) -> None:
        """A module of torch.fx or torch.export: the code of its graph, what it calls, and its constants."""
        self.text(module.code)
        for node in module.graph.nodes:
            if callable(node.target):
                self.value(node.target, f"{path}.{node.name}".lstrip("."))
        for name, value in sorted(vars(module).items()):
            if isinstance(value, Tensor | np.ndarray | nn.Module):
                self.text(f"constant {name}")
                self.value(value, f"{path}.{name}".lstrip("."))

    def _class(self, kind: type, path: str) -> None:
        """A class by its code and attributes; of torch and other installed packages by its name as well."""
        if is_torchs(kind):
            self.text(f"class {kind.__module__}.{kind.__qualname__}")
            return
        self.text(f"class {kind.__qualname__.rpartition('.')[2]}")
        if is_installed(kind):
            self.text(kind.__module__)
        for ancestor in kind.__mro__:
            if is_torchs(ancestor):
                self.text(f"base {ancestor.__module__}.{ancestor.__qualname__}")
                continue
            for name, value in sorted(vars(ancestor).items()):
                if name in UNUSED_IN_CLASSES or (is_installed(ancestor) and not _is_code(value)):
                    continue
                for each in _functions_of(value):
                    self.text(f"member {name}")
                    self.value(each, f"{path} ({ancestor.__qualname__}.{name})")

    def _function(self, function: types.FunctionType, path: str) -> None:
        if is_torchs(function):
            self.text(f"function {function.__module__}.{function.__qualname__}")
            return
        self.text(f"function {code_text(function)}")
        self._items((function.__defaults__, function.__kwdefaults__), path)
        for cell in function.__closure__ or ():
            try:
                self.value(cell.cell_contents, f"{path}, a variable of {function.__qualname__}")
            except ValueError:  # not assigned yet
                self.text("empty")
        # What installed packages refer to stands for itself: their versions do not change while a cache is made.
        if not is_installed(function):
            self._globals(function, path)

    def _globals(self, function: types.FunctionType, path: str) -> None:
        names = code_names(function.__code__)
        for name in sorted(names):
            if name not in function.__globals__:
                continue
            value = function.__globals__[name]
            self.text(f"global {name}")
            self.value(value, f"{path}, global {name}".lstrip(", "))
            if isinstance(value, types.ModuleType) and not is_installed(value):
                # helpers.scale(x): whatever of the module has a name that the code mentions.
                for member in sorted(names & vars(value).keys()):
                    self.text(f"of module {member}")
                    self.value(vars(value)[member], f"{path}, {name}.{member}".lstrip(", "))

    def _compiled(self, value: Any, path: str) -> None:
        """A function in C: known by its name if it is torch's, Python's or of an installed package."""
        owner = getattr(value, "__module__", None) or getattr(getattr(value, "__objclass__", None), "__module__", None)
        self.text(f"compiled {owner}.{getattr(value, '__qualname__', '')}")
        receiver = getattr(value, "__self__", None)
        if receiver is not None and not isinstance(receiver, types.ModuleType):
            self.value(receiver, path)
        elif not is_installed(value):
            self.unknown.append(f"{path} ({type(value).__name__} {getattr(value, '__qualname__', '')})")

    def _operator(self, value: Any, path: str) -> None:
        """An operator in a graph: torch's own is known by its name, what others have registered is not."""
        self.text(f"operator {value}")
        namespace = str(value).partition(".")[0]
        if namespace not in OPERATORS and not isinstance(value, torch._ops.HigherOrderOperator):
            self.unknown.append(f"{path} (the operator {value})")

    def _instance(self, value: Any, path: str, *, opaque: bool) -> None:
        """An object of any class by its class and attributes. `opaque`: there must be some, or it cannot be looked into."""
        kind = type(value)
        if kind in (dict, list, tuple):
            return
        before = len(self.unknown)
        self.value(kind, path)
        slots = [name for c in kind.__mro__ for name in _slots(c) if hasattr(value, name)]
        attributes = {**{name: getattr(value, name) for name in slots}, **getattr(value, "__dict__", {})}
        in_python = hasattr(value, "__dict__") or slots or any("__slots__" in vars(c) for c in kind.__mro__[:-1])
        if opaque and not in_python and kind is not object:
            self.unknown.append(f"{path} ({kind.__module__}.{kind.__qualname__})")
        for name, each in sorted(attributes.items()):
            self.text(f"attribute {name}")
            self.value(each, f"{path}.{name}")
        if len(self.unknown) > before and is_constant_of_a_package(value):
            del self.unknown[before:]


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _is_code(value: Any) -> bool:
    return isinstance(value, types.FunctionType | staticmethod | classmethod | property | functools.cached_property)


def _functions_of(value: Any) -> list[Any]:
    """The functions of a member of a class; a value as it is."""
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    if isinstance(value, property):
        return [each for each in (value.fget, value.fset) if each is not None]
    if isinstance(value, functools.cached_property):
        return [value.func]
    if inspect.isdatadescriptor(value) and is_torchs(type(value)):  # of slots and named tuples
        return []
    return [value]


@functools.cache
def written_only(kind: Any) -> frozenset[str]:
    """Attributes that methods count up and never read, such as `self.calls += 1`: they decide no vote."""
    counted: set[str] = set()
    read: set[str] = set()
    for ancestor in kind.__mro__:
        if is_torchs(ancestor):
            continue
        for member in vars(ancestor).values():
            for function in _functions_of(member):
                if isinstance(function, types.FunctionType):
                    tree = ast.parse(code_text(function)) if code_text(function)[:1] != "\0" else None
                    if tree is None:  # without its source nothing is known about what it reads
                        return frozenset()
                    for node in ast.walk(tree):
                        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
                            counted.add(node.target.attr)
                        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                            read.add(node.attr)
                        if isinstance(node, ast.Constant) and isinstance(node.value, str):
                            read.add(node.value)  # getattr(self, "calls")
    return frozenset(counted - read)
