"""Digest of what a model does beside its weights: by value, so that two models with one digest vote alike.

Code is hashed without comments, layout and docstrings, and with everything that it refers to: closures, defaults, globals, helper
functions, class attributes. Attributes are hashed by value, whatever their names. What cannot be hashed is named, and a
model with such an attribute needs a name from its user before its votes are stored.
"""

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
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recert.models.classes import counters, functions_of, hides_state, members, methods, names_in_class, slots
from recert.models.scripted import script_constants, script_graph
from recert.models.source import (
    by_computed_names,
    code_text,
    imported_by_name,
    imported_inside,
    mentioned,
    names_at_run_time,
    read,
    reads_all_attributes,
)
from recert.models.tensors import tensor_bytes
from recert.models.trusted import (
    constant_of_a_package,
    is_found_by_name,
    is_installed,
    is_installed_code,
    is_ours,
    is_torchs,
    is_torchs_code,
)

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
UNUSED_ATTRIBUTES = {
    "training", "_made_by", "_is_torch_compile", "_compiled_call_impl", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_backward_pre_hooks", "_backward_hooks",
    "_is_full_backward_hook", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
}  # fmt: skip
"""Of every module: hashed elsewhere (weights, children), or without influence on `forward`, unless code mentions them."""
MADE_BY_PYTHON = {
    "__name__", "__file__", "__doc__", "__spec__", "__loader__", "__path__", "__package__", "__cached__", "__builtins__", "__annotations__",
    "__dict__", "__class__", "__warningregistry__",
}  # fmt: skip
"""Globals that every module has."""
OPERATORS = {
    "aten", "prims", "prim", "higher_order", "quantized", "quantized_decomposed", "torchvision", "torchao", "onednn", "mkldnn",
}  # fmt: skip
"""Namespaces of operators that come with torch and its own packages."""
NOT_OF_OTHERS = OPERATORS | {
    "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "_native", "_quantized", "_test", "c10d", "debug_mode_ops", "debugprims", "export",
    "fsdp", "inductor", "inductor_prims", "mkl", "mkldnn_prepacked", "profiler", "quantization", "rngprims", "sparse", "static_runtime", "symm_mem",
}  # fmt: skip
"""The same and those that no graph of an inference has."""


def structure_digest(model: nn.Module, name: str | None = None) -> tuple[str, list[str]]:
    """Digest of a model's structure, and the attributes that it could not look into."""
    walk = _Walk(set(map(id, model.modules())))
    walk.text(f"name {name or ''}")
    walk.value(model, "")
    for hooks in ("_global_forward_pre_hooks", "_global_forward_hooks"):  # of all modules in this process
        walk.value(list(getattr(nn.modules.module, hooks, {}).values()), hooks)
    walk.finish()
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
        # What counts only if some code mentions it, which is known at the end.
        self._mentioned: set[str] = set()
        self._read: set[str] = set()
        self._reads_all = False
        self._by_computed_names = False
        self._counters: list[tuple[str, Any]] = []
        self._attached: list[tuple[str, Any]] = []  # to tensors, say
        self._modules: list[types.ModuleType] = []

    def finish(self) -> None:
        """What the code that was seen takes from modules and tensors, and counters that it reads."""
        done: set[tuple[int, str]] = set()
        while True:
            # A helper that is found may mention other names: until there are no new ones.
            wanted = [
                (i, name)
                for i, module in enumerate(self._modules)
                for name in self._wanted_of(module)
                if (i, name) not in done
            ]
            if not wanted:
                break
            for i, name in wanted:
                self.text(f"of module {i} {name}")
                self.value(vars(self._modules[i])[name], f"{self._modules[i].__name__}.{name}")
            done.update(wanted)
        for values, names in ((self._counters, self._read), (self._attached, self._mentioned)):
            for place, (name, value) in enumerate(list(values)):
                if name in names or (values is self._counters and self._reads_all):
                    self.text(f"{place} {name}")
                    self.value(value, name)

    def _wanted_of(self, module: types.ModuleType) -> list[str]:
        """Names in a module of the user's own that code may take from it."""
        names = {name for name in vars(module) if name not in MADE_BY_PYTHON}
        if not self._by_computed_names:
            names &= {*self._mentioned, "__getattr__"}  # which answers for names that are not there
        return sorted(names)

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
            if type(value) is str:  # `getattr(helpers, self.name)`
                names = {part for part in value.split(".") if part.isidentifier()}
                self._mentioned |= names
                self._read |= names
        elif isinstance(value, HARMLESS):
            self.text("harmless")
        elif id(value) in self._seen:
            self.text(f"seen {self._seen[id(value)][0]}")
        elif any(value is each for each in self._around):
            self.text(f"cycle {next(i for i, each in enumerate(self._around) if each is value)}")
        elif isinstance(value, Tensor):
            self._around.append(value)
            self._tensor(value, path)
            self._around.pop()
        else:
            if isinstance(value, nn.Module | type | types.FunctionType):
                self._seen[id(value)] = len(self._seen), value
            # Other values are hashed wherever they are found: whether two attributes share a list decides no vote.
            self._around.append(value)
            self._object(value, path)
            self._around.pop()

    def _tensor(self, tensor: Tensor, path: str) -> None:
        self.text(f"tensor {tensor.dtype} {tuple(tensor.shape)} {tensor.layout}")
        self._about_tensor(tensor, path)
        try:
            if hasattr(tensor, "__tensor_flatten__"):  # a wrapper around other tensors
                names, context = tensor.__tensor_flatten__()
                self._items((*(getattr(tensor, name) for name in names), context), path)
            else:
                self.bytes(tensor_bytes(tensor))
                if tensor.layout == torch.strided:
                    self._attached.append(("as_strided", tensor.stride()))
        except (RuntimeError, TypeError):  # on no device, or of a kind that has no elements in order
            self.unknown.append(f"{path} (a tensor of layout {tensor.layout} on {tensor.device})")

    def _about_tensor(self, tensor: Tensor, path: str) -> None:
        """Beside its elements: its class, and attributes that somebody gave it, which count where code mentions them."""
        if not is_torchs(type(tensor)):
            self.value(type(tensor), path)
        self._attached += sorted(vars(tensor).items(), key=lambda item: item[0])

    def _array(self, array: Any, path: str) -> None:
        self.text(f"array {array.dtype.str} {array.shape}")
        if array.dtype.hasobject:
            self._items(array.ravel().tolist(), path)
        else:
            self.bytes(np.ascontiguousarray(array).tobytes())

    def _object(self, value: Any, path: str) -> None:
        if isinstance(value, nn.Module):
            self._module(unwrapped(value), path)
        elif isinstance(value, np.ndarray | np.generic):
            self.text("scalar" if isinstance(value, np.generic) else "array")
            self._array(np.asarray(value), path)
            if type(value) is not np.ndarray and isinstance(value, np.ndarray):  # a mask, a unit, ...
                self._instance(value, path, opaque=False)
        elif isinstance(value, Enum):
            self._enum(value, path)
        elif isinstance(value, type):
            self._class(value, path)
        elif isinstance(value, types.ModuleType):
            self._user_module(value)
        elif isinstance(value, functools.partial):
            self.text("partial")
            self._items((value.func, value.args, value.keywords), path)
            if type(value) is not functools.partial or vars(value):
                self._instance(value, path, opaque=False)
        elif isinstance(value, types.MethodType):
            self.text("method")
            self._items((value.__func__, value.__self__), path)
        elif isinstance(value, types.FunctionType):
            self._function(value, path)
        elif isinstance(value, torch._ops.OperatorBase | torch._ops.OpOverloadPacket):
            self._operator(value, path)
        elif isinstance(value, functools._lru_cache_wrapper):
            self.text("cached")
            self.value(value.__wrapped__, path)
        elif type(value) in PLAIN_IN_C or isinstance(value, np.dtype):
            self.text(f"{type(value).__name__}")
            self._items(value.__reduce__() if type(value).__module__ == "operator" else [repr(value)], path)
        elif isinstance(value, weakref.ReferenceType):
            self.text("weak reference")
            self.value(value(), path)
        elif _is_numbas(value):  # compiled from this function, with these options
            self.text(f"numba {type(value).__name__}")
            self._items((value.py_func, value.targetoptions), path)
        elif inspect.isroutine(value) and hides_state(type(value)):
            self._compiled(value, path)
        elif isinstance(value, re.Pattern):
            self._items((value.pattern, value.flags), path)
        elif isinstance(value, PurePath):  # its attributes are caches
            self.text(f"path {value}")
        elif isinstance(value, Mapping):
            self.text(f"mapping {len(value)}")
            for key, each in value.items():
                self.value(key, path)
                self.value(each, f"{path}[{key!r}]")
            if isinstance(value, defaultdict):
                self.value(value.default_factory, f"{path}'s default")
            self._instance(value, path, opaque=False)
        elif isinstance(value, set | frozenset):
            self.text("set" if isinstance(value, set) else "frozen set")
            self._set(value, path)
            self._instance(value, path, opaque=False)
        elif isinstance(value, PLAIN_BASES):  # of a class of the user's own
            base = next(each for each in PLAIN_BASES if isinstance(value, each))
            self.text(f"{base.__name__} {base.__repr__(value)}")
            self._instance(value, path, opaque=False)
        elif isinstance(value, list | tuple | deque):
            self.text("tuple" if isinstance(value, tuple) else "list")  # as an index, these do not do the same
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
            alone._around = list(self._around)  # a member may lead back to the owner of the set
            alone.value(each, path)
            alone.finish()
            self.unknown += alone.unknown
            self._mentioned |= alone._mentioned
            self._read |= alone._read
            self._reads_all |= alone._reads_all
            self._by_computed_names |= alone._by_computed_names
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
        self.text(f"buffers {list(tensors)}")  # in the order in which code may go through them
        if id(module) not in self._registered:  # in a plain list, say: its values are not among the model's weights
            self.text(f"training {module.training}")
            self._items([tensors[name] for name in sorted(tensors)], path)
        for name in sorted(tensors):
            if (tensor := tensors[name]) is not None:
                self._about_tensor(tensor, f"{path}.{name}".lstrip("."))
        for name, child in module._modules.items():
            self.text(f"child {name}")
            self.value(child, f"{path}.{name}".lstrip("."))
        self._hooks(module._forward_pre_hooks, module._forward_pre_hooks_with_kwargs, path)
        self._hooks(module._forward_hooks, module._forward_hooks_with_kwargs, path)

    def _hooks(self, hooks: Mapping[int, Any], with_keywords: Mapping[int, bool], path: str) -> None:
        self._items(((hook, number in with_keywords) for number, hook in hooks.items()), f"{path}'s hooks")

    def _attributes(self, module: nn.Module, path: str) -> None:
        compiled = vars(module).get("_compiled_call_impl")
        if compiled is not None and not _is_compiled(compiled):  # something else is called in place of the module
            self._named(compiled, f"{path}._compiled_call_impl".lstrip("."), lenient=False)
        self._attached += [
            (name, vars(module)[name]) for name in ("_made_by", "_is_torch_compile") if name in vars(module)
        ]
        ours = getattr(module, "not_identity", ()) if is_ours(type(module)) else ()
        left_out = {*UNUSED_ATTRIBUTES, "_forward_pre_hooks", "_forward_hooks", *ours}
        uncertain = counters(type(module))
        for name, value in sorted(vars(module).items()):
            if name in left_out:
                continue
            if name in uncertain and type(value) in (int, float):
                self._counters.append((name, value))
                continue
            self.text(f"attribute {name}")
            self._named(value, f"{path}.{name}".lstrip("."), lenient=_is_torchs_attribute(type(module), name))

    def _named(self, value: Any, path: str, *, lenient: bool) -> None:
        """An attribute. What torch's own modules have of torch and cannot be hashed is not the user's: its type is enough."""
        before = len(self.unknown)
        self.value(value, path)
        if lenient:
            del self.unknown[before:]

    def _script(self, module: torch.jit.ScriptModule, path: str) -> None:
        """A traced or scripted module: its graph, and the constants in it."""
        if not isinstance(
            forward := vars(module).get("forward"), torch._C.ScriptMethod | None
        ):  # instead of the graph's
            self.value(forward, f"{path}.forward".lstrip("."))
        self.text(script_graph(module))
        for name, constant in script_constants(module):
            self.text(f"constant {name}")
            self.value(constant, f"{path}.{name}".lstrip("."))

    def _graph(self, module: torch.fx.GraphModule, path: str) -> None:
        """A module of torch.fx or torch.export: the code of its graph, what it calls, and its constants."""
        self.text(module.code)
        for node in module.graph.nodes:
            if callable(node.target):
                self.value(node.target, f"{path}.{node.name}".lstrip("."))
            if node.op == "get_attr":
                self.value(functools.reduce(getattr, node.target.split("."), module), f"{path}.{node.target}")
        for name, value in sorted(vars(module).items()):
            if isinstance(value, Tensor | np.ndarray | nn.Module) or name == "forward":
                self.text(f"constant {name}")
                self.value(value, f"{path}.{name}".lstrip("."))

    def _class(self, kind: type, path: str) -> None:
        """A class by its code and attributes; of torch and other installed packages by its name as well."""
        name = f"{kind.__module__}.{kind.__qualname__}" if is_torchs(kind) else kind.__qualname__.rpartition(".")[2]
        self.text(f"class {name}")
        if type(kind) is not type:
            self.value(type(kind), path)
        if is_installed(kind) and not is_torchs(kind):
            self.text(kind.__module__)
        # Also of a class of torch: parametrisations make one from the user's, and a method of torch's may have been replaced.
        for ancestor in kind.__mro__:
            if is_torchs(ancestor):
                self.text(f"base {ancestor.__module__}.{ancestor.__qualname__}")
                self._read |= names_in_class(ancestor)
            for member, value in members(ancestor):
                for each in functions_of(value):
                    self.text(f"member {member}")
                    self.value(each, f"{path} ({ancestor.__qualname__}.{member})")

    def _function(self, function: types.FunctionType, path: str) -> None:
        if is_torchs_code(function):
            if function.__globals__["__name__"] == "functools" and hasattr(function, "registry"):
                self.text("chosen by type")  # it also has a cache, which grows with calls
                self.value(function.registry, path)
                return
            if hasattr(function, "_torchdynamo_orig_callable"):  # torch.compile's wrapper computes the same
                self.value(function._torchdynamo_orig_callable, path)
                return
            self.text(f"function {function.__globals__['__name__']}.{function.__code__.co_qualname}")
        else:
            self.text(f"function {code_text(function)}")
        self._items((function.__defaults__, function.__kwdefaults__, vars(function)), path)
        for cell in function.__closure__ or ():
            try:
                self.value(cell.cell_contents, f"{path}, a variable of {function.__qualname__}")
            except ValueError:  # not assigned yet
                self.text("empty")
        if not is_torchs_code(function):
            self._mentioned |= mentioned(function.__code__)
            self._read |= read(function)
            self._reads_all |= reads_all_attributes(function)
        # What installed packages refer to stands for itself: their versions do not change while a cache is made.
        if not is_installed_code(function):
            self._globals(function, path)

    def _globals(self, function: types.FunctionType, path: str) -> None:
        for name in sorted(mentioned(function.__code__) & function.__globals__.keys()):
            if name not in MADE_BY_PYTHON:
                self.text(f"global {name}")
                self.value(function.__globals__[name], f"{path}, global {name}".lstrip(", "))
        for module in imported_inside(function):
            self.text("import")
            self._user_module(module)
        self._by_computed_names |= by_computed_names(function)
        modules, nowhere = imported_by_name(function.__code__)
        for module in modules:
            self.text("looked up")
            self._user_module(module)
        if nowhere:
            self.unknown.append(f"{path} (import_module() in {function.__qualname__})".lstrip())
        for name in operators_of_others(mentioned(function.__code__)):
            self.unknown.append(f"{path} (torch.ops.{name} in {function.__qualname__})".lstrip())
        for name in sorted(names_at_run_time(function.__code__) - function.__globals__.keys()):
            self.unknown.append(f"{path} ({name}() in {function.__qualname__})".lstrip())

    def _user_module(self, module: types.ModuleType) -> None:
        """A package by its name; of a module of the user's own, what the code mentions, at the end."""
        if is_installed(module):
            self.text(f"module {module.__name__}")
            return
        if not any(module is each for each in self._modules):
            self._modules.append(module)
        self.text(f"module {next(i for i, each in enumerate(self._modules) if each is module)}")

    def _compiled(self, value: Any, path: str) -> None:
        """A function in C: known by its name if it is torch's, Python's or of an installed package."""
        owner = getattr(value, "__module__", None) or getattr(getattr(value, "__objclass__", None), "__module__", None)
        self.text(f"compiled {owner}.{getattr(value, '__qualname__', '')}")
        receiver = getattr(value, "__self__", None)
        if receiver is not None and not isinstance(receiver, types.ModuleType):
            self.value(receiver, path)
        elif not (is_installed(value) and (is_torchs(type(value)) or is_found_by_name(value))):
            self.unknown.append(f"{path} ({type(value).__name__} {getattr(value, '__qualname__', '')})")

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

    def _operator(self, value: Any, path: str) -> None:
        """An operator in a graph: torch's own is known by its name, what others have registered is not."""
        self.text(f"operator {value}")
        namespace = str(value).partition(".")[0]
        if namespace not in OPERATORS and not isinstance(value, torch._ops.HigherOrderOperator):
            self.unknown.append(f"{path} (the operator {value})")

    def _instance(self, value: Any, path: str, *, opaque: bool) -> None:
        """An object of any class by its class and attributes. `opaque`: there must be some, or it cannot be looked into."""
        kind = type(value)
        if kind in (dict, list, tuple, set, frozenset):
            return
        before = len(self.unknown)
        self.value(kind, path)
        in_slots = {n: getattr(value, n) for c in kind.__mro__ for n in slots(c) if hasattr(value, n)}
        attributes = {**in_slots, **getattr(value, "__dict__", {})}
        if opaque and hides_state(kind):
            self.unknown.append(f"{path} ({kind.__module__}.{kind.__qualname__})")
        for name, each in sorted(attributes.items()):
            self.text(f"attribute {name}")
            self.value(each, f"{path}.{name}")
        if len(self.unknown) > before and (name := constant_of_a_package(value)) is not None:
            self.text(f"constant {name}")
            del self.unknown[before:]


def _is_torchs_attribute(kind: type, name: str) -> bool:
    """Whether torch's own code uses an attribute of a module of torch's. A `forward` that was put there is the user's."""
    if not is_torchs(kind) or (
        name == "forward" and kind.__name__ != "GuardsFn"
    ):  # which checks shapes, and answers nothing
        return False
    return any(name in names_in_class(each) for each in kind.__mro__)


def _is_compiled(function: Any) -> bool:
    """Whether it is what `module.compile()` makes of a module's own call."""
    return getattr(getattr(function, "_torchdynamo_orig_callable", None), "__func__", None) is nn.Module._call_impl


def _is_numbas(value: Any) -> bool:
    """Whether it is a function that numba compiles when it is called."""
    return (
        type(value).__module__.partition(".")[0] == "numba"
        and hasattr(value, "py_func")
        and hasattr(value, "targetoptions")
    )


def operators_of_others(names: set[str]) -> list[str]:
    """Namespaces of operators among the names in a function, of `torch.ops`, that do not come with torch."""
    if "ops" not in names:
        return []
    registered = {name.partition("::")[0] for name in torch._C._dispatch_get_all_op_names()}
    return sorted(names & registered - NOT_OF_OTHERS)
